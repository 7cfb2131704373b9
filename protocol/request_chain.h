/* The parameters of a chain: several operators in one request. Each is read as a request of its
 * own; the names by which they refer to each other are resolved here. */
#pragma once

#include "numerics/job.h"
#include "protocol/request.h"

enum { CHAIN_LINKS = 16, CHAIN_NAME_BYTES = 31, SOURCE_INPUT = -2 };

/* The source of a component of f: `component` of the result of an earlier link (−1: the whole
 * result; SOURCE_INPUT: the f of that link). link −1: request.f itself. */
struct request_source {
    int link, component;
};

struct request_link {
    struct request request; /* METHOD_OPERATOR; an f whose source is a link is zeroed before
                               request_chain_bind() */
    struct request_source source[AXIS_COUNT];
    char name[CHAIN_NAME_BYTES + 1]; /* of its result; "": none */
};

struct request_chain {
    bool is_operator; /* the links are steps of one operator, which errors do not number */
    bool is_named;    /* the answer is a map by name; else the result of the last link */
    uint32_t answers;
    struct request_answer {
        uint32_t link;
        enum out_kind kind; /* OUT_INLINE, OUT_NEW_FIELD; of the last link also its own OUT_FIELD
                               or OUT_REGION */
        char name[CHAIN_NAME_BYTES + 1]; /* in that map */
    } answer[CHAIN_LINKS];
    uint32_t count;
    struct request_link link[]; /* count of them */
};

/* Bind component i of a link's f to the result of the job `from`, whose arrays have `type`: sets
 * source[i] to a component and request.f to its type. If f names a whole vector field, this sets
 * the sources after i, which are to be bound in turn. Once for each; later calls change nothing.
 * False with the failure set. */
bool request_chain_bind(struct request_link *link, int i, const struct job *from,
                        const struct array_type *type, struct failure *failure);

/* The chain of a Hessian, whose f is of that type, in request->chain, which is NULL: a link for
 * each second derivative, and for each first one that a mixed one is computed from. */
bool request_expand_hessian(struct request *request, const struct array_type *type,
                            struct failure *failure);

/* Put the link before the failure's parameter: "ops 2 accuracy", counted from 0. chain NULL: its
 * links are ops. Returns false, as failure_set(). */
bool request_chain_place(const struct request_chain *chain, struct failure *failure, uint32_t link);
