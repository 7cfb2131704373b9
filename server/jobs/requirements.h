/* The requirements of a request's operators: their jobs, and the arrays that these need. Admission
 * reserves them, a dry run reports them. Every fault of the request itself is found here. */
#pragma once

#include "protocol/request_chain.h"
#include "server/jobs/job_script.h"

struct client;
struct upload;

/* An operator's. */
struct requirements {
    struct request *request;   /* its own */
    struct request_link *link; /* of the chain that it belongs to; NULL: it is alone */
    struct array_type type;    /* of its arrays, but for operands */
    struct job job;
    uint8_t *block; /* of the job, owned until it is taken; NULL: none */
    struct script_needs script;
    bool has_out[AXIS_COUNT]; /* else the device computes output i in its place */
    int scratch[AXIS_COUNT];  /* so many more arrays, from number i on, for output i */
    uint64_t arrays;          /* of `type`, that the job needs on the device for itself */
    uint64_t copied;          /* of them those that come from a client's memory or go there */
    uint64_t copied_again;    /* … that come once in every round of a chain */
    uint32_t operands;        /* that it has: a bit each, by enum operand */
    uint64_t operand_bytes;   /* of its operands, but for resident ones */
};

/* Make a Hessian's chain, now that the type of its f can be known; for any other request nothing is
 * done. Call it first. False with the failure set: there is no such field, or no memory. */
bool requirements_expand(const struct user *user, struct request *request, struct failure *failure);

/* Those of a request's operators, in order, on a device. */
struct requirements_list {
    uint32_t count;
    struct requirements of[CHAIN_LINKS]; /* not cleared for each job */
};

/* Fills in the types of resident operands, and the sources of links. False with the failure set:
 * the request could never be run. Free memory is not checked. Free the list in either case. */
bool requirements_find(const struct user *user, const struct device *device,
                       struct request *request, struct requirements_list *list,
                       struct failure *failure);
void requirements_free(struct requirements_list *list);

/* dry_run.c: answer an operator's request with {"bytes", "seconds", "device"}, diffusion's with
 * "dt" and "dt_max", too. A chain's: of all rounds, and with "ops", a map for each link: the
 * "seconds" of one round without copies, diffusion's with "dt" and "dt_max". Fills in and fails as
 * requirements_find(). */
bool dry_run(struct client *client, struct request *request, const struct upload *upload,
             msgpack_packer *packer, struct failure *failure);
