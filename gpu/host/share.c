#include "gpu/host/share.h"

#include "base/thread_pool.h"

enum {
    SMALL_POINTS = 1 << 15, /* waking the other threads costs more */
    PARTS = 8,              /* of a thread's share: one of them may be held up */
    PART_POINTS = 1 << 22   /* some tenths of a second at most: longer than 5 s is a hang */
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
    shared.parts = threads == 1 ? 1 : threads * PARTS;
    if (shared.parts < points / PART_POINTS)
        shared.parts = points / PART_POINTS;
    if (shared.parts > units)
        shared.parts = units;
    thread_pool_for((int)threads, shared.parts, do_part, &shared);
}
