/* NVTX ranges around the worker's calls to its device, so that Nsight names them: "launch" with the
 * job's number on the channel as payload; "upload" and "download" with the job's number if they
 * copy its places in regions, else with the array's. Without a profiler each costs a few
 * nanoseconds; without NVTX's headers, which come with the CUDA toolkit, none is made. */
#pragma once

#include <stdint.h>

#if defined HAVE_CUDA && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

/* `what` is a literal. Ranges nest. */
static inline void range_begin(const char *what, uint64_t number)
{
    nvtxEventAttributes_t range = {0};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = what;
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = number;
    nvtxRangePushEx(&range);
}

static inline void range_end(void)
{
    nvtxRangePop();
}

#else

static inline void range_begin(const char *what, uint64_t number)
{
    (void)what, (void)number;
}

static inline void range_end(void)
{
}

#endif
