/* Users beyond USERS_KEPT who hold and owe nothing are forgotten, in the order in which they left;
 * each thing that a user may hold or owe, by itself, keeps the user. Plans are forgotten with the
 * worker that has made them. */
#include "server/users/user.h"
#include "tests/lib/job_of.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

enum { THINGS = 18, MORE = 2 * THINGS };

static struct users users;

/* Without making one. */
static struct user *known(uid_t uid)
{
    LIST_EACH (struct user, user, &users.list, link)
        if (user->uid == uid)
            return user;
    return NULL;
}

static void come(uid_t first, uid_t end)
{
    for (uid_t uid = first; uid < end; uid++)
        assert_non_null(user_find(&users, uid));
}

static int begin(void **state)
{
    users = (struct users){.count = 0};
    come(0, USERS_KEPT + MORE);
    return 0;
}

static int end(void **state)
{
    LIST_DRAIN (struct user, user, &users.list, link) {
        for (int i = 0; i < DEVICES_MOST; i++)
            free(user->part[i]);
        free(user);
    }
    return 0;
}

static void link_to(struct list *list, struct list *link, bool on)
{
    if (on)
        list_push(list, link);
    else
        list_remove(link);
}

/* The user holds or owes that thing, of THINGS, and nothing else; or no longer. */
static void hold(struct user *user, int thing, bool on)
{
    static struct list elsewhere;
    struct failure failure = {0};
    struct device_user *part = user_part(user, DEVICES_MOST - 1, &failure);
    const uint64_t later_ns = on ? UINT64_MAX : 0;
    uint64_t *const counts[] = {&user->counters.connections, &user->counters.jobs,
                                &user->counters.regions, &user->counters.front_bytes,
                                &part->arrays};
    struct list *const links[] = {&user->turn.link, &user->slab_queues[SHARE_UPLOAD].link,
                                  &user->slab_queues[SHARE_REPLY].link, &part->flow.link};
    enum { COUNTS = sizeof counts / sizeof *counts, LINKS = sizeof links / sizeof *links };
    if (thing < COUNTS)
        *counts[thing] = on;
    else if (thing < COUNTS + LINKS)
        link_to(&elsewhere, links[thing - COUNTS], on);
    else if (thing == 9)
        user->passed.awaiting = on;
    else if (thing == 10)
        user->turn.watch = on ? (void *)user : NULL;
    else if (thing == 11)
        user->turn.credit_ns = -(int64_t)on;
    else if (thing == 12)
        user->bounds.busy = on;
    else if (thing == 13)
        user->kernels.next_ns = later_ns;
    else if (thing == 14)
        user->slabs[SHARE_REPLY] = on;
    else if (thing == 15)
        part->flow.level_ns = later_ns;
    else if (thing == 16)
        part->slots = on;
    else
        user->kernels.kept = on;
}

TEST(the_first_to_leave_goes_first, begin, end)
{
    user_left(known(0));
    users_forget_idle(&users);
    assert_int_equal(users.count, USERS_KEPT);
    assert_non_null(known(0));
    assert_null(known(1));
    assert_null(known(MORE));
    assert_non_null(known(MORE + 1));
    users_forget_idle(&users);
    assert_int_equal(users.count, USERS_KEPT);
}

TEST(who_comes_back_begins_anew, begin, end)
{
    struct failure failure = {0};
    known(0)->counters.ended[TASK_DONE] = 7;
    known(MORE)->counters.ended[TASK_DONE] = 8;
    assert_non_null(user_part(known(0), 0, &failure));
    users_forget_idle(&users);
    assert_int_equal(user_find(&users, 0)->counters.ended[TASK_DONE], 0);
    assert_null(known(0)->part[0]);
    assert_int_equal(user_find(&users, MORE)->counters.ended[TASK_DONE], 8);
    assert_int_equal(users.count, USERS_KEPT + 1);
}

TEST(who_holds_or_owes_anything_stays, begin, end)
{
    for (int thing = 0; thing < THINGS; thing++)
        hold(known((uid_t)thing), thing, true);
    users_forget_idle(&users);
    assert_int_equal(users.count, USERS_KEPT);
    for (int thing = 0; thing < THINGS; thing++) {
        assert_non_null(known((uid_t)thing));
        hold(known((uid_t)thing), thing, false);
    }
    come(USERS_KEPT + MORE, USERS_KEPT + MORE + THINGS);
    users_forget_idle(&users);
    assert_int_equal(users.count, USERS_KEPT);
    for (int thing = 0; thing < THINGS; thing++)
        assert_null(known((uid_t)thing));
}

TEST(where_all_hold_something_all_stay, begin, end)
{
    LIST_EACH (struct user, user, &users.list, link)
        user->counters.connections = 1;
    users_forget_idle(&users);
    assert_int_equal(users.count, USERS_KEPT + MORE);
}

TEST(plans_go_with_their_worker, begin, end)
{
    struct failure failure = {0};
    struct job job = job_of(OPERATOR_DERIVATIVE, DTYPE_F64, 1000, 1, 1, 8);
    job.more.coordinates = 1;
    struct flow *flows[2][2];
    for (uid_t uid = 0; uid < 2; uid++)
        for (uint32_t device = 0; device < 2; device++) {
            struct device_user *part = user_part(known(uid), device, &failure);
            assert_non_null(part);
            flows[uid][device] = &part->flow;
            assert_true(schedule_plan(&part->flow, &job) > 0);
            schedule_learn(&part->flow, &job, 1);
            assert_int_equal(schedule_plan(&part->flow, &job), 0);
        }
    const int64_t takes_ns = schedule_estimate(flows[1][1], &job);
    users_forget_plans(&users, 1);
    for (int uid = 0; uid < 2; uid++) {
        assert_int_equal(schedule_plan(flows[uid][0], &job), 0); /* another device's */
        assert_true(schedule_plan(flows[uid][1], &job) > 0);
        schedule_learn(flows[uid][1], &job, 1);
        assert_int_equal(schedule_plan(flows[uid][1], &job), 0);
    }
    assert_int_equal(schedule_estimate(flows[1][1], &job), takes_ns); /* the device is the same */
}
