#include "server/users/lane.h"

void lane_init(struct lane *lane)
{
    list_init(&lane->waiting);
    lane->there_ns = 0;
}

void lane_add(struct lane *lane, struct company *company, struct record *record, uint64_t now_ns)
{
    list_push(&lane->waiting, &record->link);
    company_meet(company, lane, now_ns);
}

struct record *lane_next(struct lane *lane, const struct company *company, uint64_t now_ns)
{
    struct list *link = list_first(&lane->waiting);
    if (!link || (lane->there_ns >= LANE_NS && !company_is_alone(company, now_ns)))
        return NULL;
    struct record *record = LIST_ENTRY(link, struct record, link);
    list_remove(link);
    lane->there_ns += record->cost_ns;
    return record;
}

void lane_answered(struct lane *lane, const struct record *record)
{
    lane->there_ns -= record->cost_ns;
}

void lane_clear(struct lane *lane)
{
    for (struct list *link; (link = list_first(&lane->waiting));)
        list_remove(link);
    lane->there_ns = 0;
}
