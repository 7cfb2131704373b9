/* The functions of NCCL that are used here, with the types that they have since its version 2.18,
 * so that neither its header nor its library is needed to build. */
#pragma once

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_INT8 = 0 };

typedef struct ncclComm *nccl_comm;

struct nccl_id {
    char bytes[128];
};

/* Later versions have more members, and know by its size that this one has not. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
};
#define NCCL_CONFIG                                                                                \
    {                                                                                              \
        .size = sizeof(struct nccl_config), .magic = 0xcafebeef, .version = 21800,                 \
        .cga_cluster_size = INT_MIN, .min_ctas = INT_MIN, .max_ctas = INT_MIN,                     \
        .split_share = INT_MIN                                                                     \
    }

struct nccl_library {
    int (*ncclGetUniqueId)(struct nccl_id *id);
    int (*ncclCommInitRankConfig)(nccl_comm *comm, int ranks, struct nccl_id id, int rank,
                                  struct nccl_config *config);
    int (*ncclCommGetAsyncError)(nccl_comm comm, int *error);
    int (*ncclCommAbort)(nccl_comm comm);
    int (*ncclGroupStart)(void);
    int (*ncclGroupEnd)(void);
    int (*ncclSend)(const void *memory, size_t count, int type, int peer, nccl_comm comm,
                    cudaStream_t stream);
    int (*ncclRecv)(void *memory, size_t count, int type, int peer, nccl_comm comm,
                    cudaStream_t stream);
    const char *(*ncclGetErrorString)(int error);
};

/* False: it cannot be loaded; a line of the log says why. */
bool nccl_library_load(const char *file, struct nccl_library *library);
