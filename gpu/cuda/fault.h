/* What CUDA says, judged in one place. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* True where the call succeeded. Else clears the error; an error that the process cannot come back
 * from (or that only a bug can cause) is logged and ends it with BACKEND_FAULT_EXIT. False is left
 * for what may be expected: no memory, no such device. `what` names the call in the log. */
bool fault_check(cudaError_t error, const char *what);

/* The same where no failure is expected: any ends the process. */
void fault_never(cudaError_t error, const char *what);
