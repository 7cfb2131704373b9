#include "gpu/cuda/fault.h"

#include "gpu/backend.h"
#include "base/log.h"

/* "The process must be terminated and relaunched", in the words of the manual; and three that leave
 * the context in doubt (an uncorrectable memory error, an NVLink error, an unknown one). */
static bool is_sticky(cudaError_t error)
{
    switch ((int)error) {
    case 214: /* cudaErrorECCUncorrectable */
    case 220: /* cudaErrorNvlinkUncorrectable */
    case 226: /* cudaErrorContained */
    case 700: /* cudaErrorIllegalAddress */
    case 702: /* cudaErrorLaunchTimeout */
    case 710: /* cudaErrorAssert */
    case 714: /* cudaErrorHardwareStackError */
    case 715: /* cudaErrorIllegalInstruction */
    case 716: /* cudaErrorMisalignedAddress */
    case 717: /* cudaErrorInvalidAddressSpace */
    case 718: /* cudaErrorInvalidPc */
    case 719: /* cudaErrorLaunchFailure */
    case 721: /* cudaErrorTensorMemoryLeak */
    case 810: /* cudaErrorMpsClientTerminated */
    case 911: /* cudaErrorExternalDevice */
    case 999: /* cudaErrorUnknown */
        return true;
    default:
        return false;
    }
}

static _Noreturn void end_worker(cudaError_t error, const char *what)
{
    log_fatal(BACKEND_FAULT_EXIT, "cuda: %s: %s (%d): this worker ends", what,
              cudaGetErrorString(error), (int)error);
}

bool fault_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return true;
    if (is_sticky(error))
        end_worker(error, what);
    cudaGetLastError();
    return false;
}

void fault_never(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        end_worker(error, what);
}
