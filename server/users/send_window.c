#include "server/users/send_window.h"

void send_window_init(struct send_window *window)
{
    list_init(&window->waiting);
    window->there_ns = 0;
}

void send_window_add(struct send_window *window, struct contention *contention,
                     struct record *record, uint64_t now_ns)
{
    list_push(&window->waiting, &record->link);
    contention_note(contention, window, now_ns);
}

struct record *send_window_next(struct send_window *window, const struct contention *contention,
                                uint64_t now_ns)
{
    if (list_empty(&window->waiting) ||
        (window->there_ns >= SEND_WINDOW_NS && !contention_is_none(contention, now_ns)))
        return NULL;
    struct record *record = LIST_TAKE(&window->waiting, struct record, link);
    window->there_ns += record->cost_ns;
    return record;
}

void send_window_answered(struct send_window *window, const struct record *record)
{
    window->there_ns -= record->cost_ns;
}

void send_window_clear(struct send_window *window)
{
    while (list_take(&window->waiting))
        ;
    window->there_ns = 0;
}
