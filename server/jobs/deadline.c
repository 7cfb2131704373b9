#include "server/jobs/deadline.h"

#define NS_PER_MS UINT64_C(1000000)

static void on_timer(uv_timer_t *timer);

/* Wake at the first, or a little before it where that was forgotten. */
static void arm(struct deadlines *deadlines)
{
    const struct deadline *first = LIST_FIRST(&deadlines->list, struct deadline, link);
    if (!first || uv_is_closing((uv_handle_t *)&deadlines->timer))
        return;
    const uint64_t now_ns = uv_hrtime();
    const uint64_t wait_ms =
        first->at_ns > now_ns ? (first->at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    uv_update_time(deadlines->timer.loop); /* the timer counts from the loop's own time */
    uv_timer_start(&deadlines->timer, on_timer, wait_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct deadlines *deadlines = timer->data;
    const uint64_t now_ns = uv_hrtime();
    for (struct deadline *deadline;
         (deadline = LIST_FIRST(&deadlines->list, struct deadline, link));) {
        if (deadline->at_ns > now_ns)
            break;
        list_remove(&deadline->link);
        deadline->passed(deadline);
    }
    arm(deadlines);
}

void deadlines_open(struct deadlines *deadlines, uv_loop_t *loop)
{
    uv_timer_init(loop, &deadlines->timer);
    deadlines->timer.data = deadlines;
}

void deadlines_close(struct deadlines *deadlines)
{
    if (!uv_is_closing((uv_handle_t *)&deadlines->timer))
        uv_close((uv_handle_t *)&deadlines->timer, NULL);
}

void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns)
{
    deadline->at_ns = at_ns;
    /* From the end: most are set for as long as those before them. */
    struct list *after = list_last(&deadlines->list);
    while (after != &deadlines->list && LIST_ENTRY(after, struct deadline, link)->at_ns > at_ns)
        after = after->prev;
    list_push_front(after, &deadline->link);
    if (after == &deadlines->list)
        arm(deadlines);
}

void deadline_forget(struct deadline *deadline)
{
    list_remove(&deadline->link);
}
