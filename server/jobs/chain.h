/* A chain: a task whose links are operators, each with arrays, operands and places as a task of one
 * operator has them, and what one gives another takes. Links are tasks that are never scheduled:
 * they hold what their orders need, and what they wait for their chain waits for. */
#ifndef SERVER_JOBS_CHAIN_H
#define SERVER_JOBS_CHAIN_H

#include "protocol/request_chain.h"
#include "server/jobs/answer.h"
#include "server/jobs/task.h"

struct requirements;
struct upload;

struct chain {
    uint64_t repeat;
    bool is_named;
    uint32_t answers;
    struct chain_answer {
        struct request_answer of;
        char name[CHAIN_NAME_BYTES + 1];
    } answer[CHAIN_LINKS];
    uint32_t count;
    struct task *link[CHAIN_LINKS]; /* owned */
    uint64_t ended[CHAIN_LINKS];    /* how often it has run */
    struct access *access;          /* of resident fields that links use, one of each; owned */
    uint32_t accesses;
};

/* Take what the links need, which is worked out, and queue for the resident fields among it, for
 * the task, whose job becomes the last one's. False with the failure set. */
bool chain_make(struct task *task, const struct request_chain *given, struct requirements *needs,
                const struct upload *upload, struct failure *failure);
/* NULL is let pass: of both. */
void chain_release(struct chain *chain);
void chain_free(struct chain *chain);

/* Does a link read a field that was left half-written, and that none before it writes? */
bool chain_is_torn(const struct chain *chain);

/* What its orders will take. */
int64_t chain_cost_ns(const struct chain *chain);

/* The link has run once more: after the last time it lets go of what nobody needs any more. */
void chain_link_ended(struct chain *chain, uint32_t link);

/* It has no result: what its links have written into fields is none either. */
void chain_tear(const struct chain *chain);

/* Give ids to what is to be a field; all get one, or none. */
bool chain_publish(const struct chain *chain, struct failure *failure);
/* Take them away again: nobody has been told. */
void chain_withdraw(const struct chain *chain);
/* Does it leave a result that stays, in a field or a region? */
bool chain_leaves(const struct chain *chain);
void chain_answer(const struct chain *chain, struct answer *answer, const struct task *task);

#endif
