#include "gpu/host/share.h"

#include "base/thread_pool.h"

enum {
    SMALL_POINTS = 1 << 15, /* waking the other threads costs more */
    PARTS = 8               /* of a thread's share: one of them may be held up */
};

struct shared {
    share_part *part;
    void *work;
    int64_t units, parts;
};

static void do_part(void *context, int64_t i)
{
    const struct shared *shared = context;
    shared->part(shared->work, shared->units * i / shared->parts,
                 shared->units * (i + 1) / shared->parts);
}

void share_units(int64_t units, int64_t points, share_part *part, void *work)
{
    const int64_t threads = points > SMALL_POINTS ? thread_pool_threads() : 1;
    struct shared shared = {.part = part, .work = work, .units = units};
    shared.parts = units < threads * PARTS ? units : threads == 1 ? 1 : threads * PARTS;
    thread_pool_for((int)threads, shared.parts, do_part, &shared);
}
