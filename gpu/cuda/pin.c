#include "gpu/cuda/pin.h"

#include "gpu/cuda/fault.h"
#include "base/log.h"

#include <sched.h>

static struct {
    int device;
    bool addresses;
} opened;

void pin_open(int device, bool addresses)
{
    opened.device = device;
    opened.addresses = addresses;
}

size_t pin_piece(const void *memory, size_t bytes)
{
    const size_t left = BACKEND_PIN_BYTES - ((uintptr_t)memory & (BACKEND_PIN_BYTES - 1));
    return bytes < left ? bytes : left;
}

void unpin_memory(void *memory, size_t bytes)
{
    fault_never(cudaSetDevice(opened.device), "cudaSetDevice"); /* of this thread */
    for (char *at = memory, *end = at + bytes; at < end; at += pin_piece(at, (size_t)(end - at)))
        fault_check(cudaHostUnregister(at), "cudaHostUnregister"); /* no fault where it is not */
}

enum status pin_memory(void *memory, size_t bytes, bool writable, bool *addressable)
{
    const unsigned flags = cudaHostRegisterMapped | (writable ? 0 : cudaHostRegisterReadOnly);
    fault_never(cudaSetDevice(opened.device), "cudaSetDevice"); /* of this thread */
    *addressable = false;
    for (size_t piece, done = 0; done < bytes; done += piece) {
        char *at = (char *)memory + done;
        piece = pin_piece(at, bytes - done);
        const cudaError_t error = cudaHostRegister(at, piece, flags);
        if (!fault_check(error, "cudaHostRegister")) {
            log_warning("cuda: %zu bytes of a client's memory cannot be pinned: %s", bytes,
                        cudaGetErrorString(error));
            unpin_memory(memory, done);
            if (error == cudaErrorMemoryAllocation)
                return STATUS_OUT_OF_MEMORY;
            return writable ? STATUS_INTERNAL : STATUS_OK;
        }
        sched_yield(); /* to who waits for the device's lock */
    }
    *addressable = opened.addresses;
    return STATUS_OK;
}
