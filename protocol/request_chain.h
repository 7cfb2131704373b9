/* A chain's parameters: several operators in one request. Each is read as a request of its own;
 * what they name of each other is resolved here. */
#pragma once

#include "numerics/job.h"
#include "protocol/request.h"

enum { CHAIN_LINKS = 16, CHAIN_NAME_BYTES = 31 };

enum { SOURCE_INPUT = -2 };

/* What a component of f is: `component` of what the link before it with that number gives (−1: of
 * what it gives, whatever that is; SOURCE_INPUT: what that link's own f is). link −1: what
 * request.f says. */
struct request_source {
    int link, component;
};

struct request_link {
    struct request request; /* METHOD_OPERATOR; where a source is a link's, f there says nothing
                               before request_chain_bind() */
    struct request_source source[AXIS_COUNT];
    char name[CHAIN_NAME_BYTES + 1]; /* of what it gives; "": none */
};

struct request_chain {
    uint64_t repeat;  /* from 1 up */
    bool is_operator; /* the links are steps of one operator, which errors do not number */
    bool is_named;    /* the answer is a map by name; else it is what the last link gives */
    uint32_t answers;
    struct request_answer {
        uint32_t link;
        enum out_kind kind; /* OUT_INLINE, OUT_NEW_FIELD; of the last link OUT_FIELD, OUT_REGION:
                               where it goes by itself */
    } answer[CHAIN_LINKS];
    uint32_t count;
    struct request_link link[]; /* count of them */
};

/* Component i of a link's f is what the job `from` gives, whose arrays have `type`: source[i] comes
 * to say which component, and request.f what it is. Where f is the name of a vector field, sources
 * after i come to say the others, to be bound in turn. Once for each. False with the failure set.
 */
bool request_chain_bind(struct request_link *link, int i, const struct job *from,
                        const struct array_type *type, struct failure *failure);

/* The chain of a Hessian, whose f is of that type, in request->chain, which is NULL: a link for
 * each second derivative, and for each first one that mixed ones are taken of. */
bool request_expand_hessian(struct request *request, const struct array_type *type,
                            struct failure *failure);

/* How an error names a parameter of a link: "ops 2 accuracy", counted from 0. chain: NULL for one
 * whose links are ops. */
void request_chain_place(const struct request_chain *chain, struct failure *failure, uint32_t link);
