/* The records of users in flight to a worker that processes them in order: counted, not timed. */
#include "server/users/send_window.h"
#include "tests/unit/unit.h"

#include <string.h>

#define LATER_NS ((uint64_t)CONTENTION_NS)

enum { JOBS = 1000, MOST = SEND_WINDOW_NS / SEND_WINDOW_RECORD_NS, USERS = 3 };

static struct contention contention;
static struct send_window windows[USERS];
static struct record records[USERS][JOBS];
static uint64_t now_ns;

/* The worker's records, first come first served. */
static struct {
    int user;
    const struct record *record;
} sent[USERS * JOBS];
static int sent_count, served;

static int begin(void **state)
{
    contention = (struct contention){0};
    memset(windows, 0, sizeof windows);
    now_ns = 10 * LATER_NS;
    sent_count = served = 0;
    return 0;
}

static void send(int user)
{
    for (struct record *one; (one = send_window_next(&windows[user], &contention, now_ns));) {
        sent[sent_count].user = user;
        sent[sent_count++].record = one;
    }
}

static void add(int user, int number, int64_t cost_ns)
{
    records[user][number] = (struct record){.cost_ns = cost_ns};
    send_window_add(&windows[user], &contention, &records[user][number], now_ns);
    send(user);
}

static int there(int user)
{
    int count = 0;
    for (int i = served; i < sent_count; i++)
        count += sent[i].user == user;
    return count;
}

static void serve_one(void)
{
    assert_true(served < sent_count);
    const int user = sent[served].user;
    send_window_answered(&windows[user], sent[served++].record);
    send(user);
}

TEST(a_user_alone_waits_for_nothing, begin, NULL)
{
    for (int i = 0; i < JOBS; i++)
        add(0, i, SEND_WINDOW_RECORD_NS);
    assert_int_equal(there(0), JOBS);
}

/* As it is with one job at a time, again and again, beside a thousand. */
TEST(a_newcomer_is_behind_few, begin, NULL)
{
    add(1, 0, SEND_WINDOW_RECORD_NS);
    serve_one();
    for (int i = 0; i < JOBS; i++)
        add(0, i, SEND_WINDOW_RECORD_NS);
    for (int i = 1; i < 100; i++) {
        assert_int_equal(there(0), MOST);
        add(1, i, SEND_WINDOW_RECORD_NS);
        assert_int_equal(there(1), 1); /* it waits for none of them here … */
        int before = 0;
        for (; there(1); before++)
            serve_one();
        assert_int_equal(before, MOST + 1); /* … and for so many there */
    }
}

TEST(users_beside_each_other_have_as_much, begin, NULL)
{
    for (int i = 0; i < JOBS; i++)
        for (int u = 0; u < USERS; u++)
            add(u, i, SEND_WINDOW_RECORD_NS);
    int ended[USERS] = {0};
    for (int i = 0; i < USERS * JOBS / 2; i++) {
        ended[sent[served].user]++;
        serve_one();
    }
    for (int u = 0; u < USERS; u++)
        assert_in_range(ended[u], JOBS / 2 - MOST, JOBS / 2 + MOST);
}

TEST(a_users_records_keep_their_order, begin, NULL)
{
    add(1, 0, SEND_WINDOW_RECORD_NS);
    serve_one();
    for (int i = 0; i < JOBS; i++)
        add(0, i, i % 7 ? SEND_WINDOW_RECORD_NS : 0);
    for (int i = 0; i < JOBS; i++) {
        assert_ptr_equal(sent[served].record, &records[0][i]);
        serve_one();
    }
}

TEST(who_was_alone_for_long_waits_no_more, begin, NULL)
{
    add(1, 0, SEND_WINDOW_RECORD_NS);
    serve_one();
    for (int i = 0; i < JOBS; i++)
        add(0, i, SEND_WINDOW_RECORD_NS);
    now_ns += LATER_NS - 1;
    serve_one();
    assert_int_equal(there(0), MOST);
    now_ns += 1;
    serve_one();
    assert_int_equal(there(0), JOBS - 2);
}

/* Long orders: a single one does not hold others back. */
TEST(what_costs_nothing_holds_nothing_up, begin, NULL)
{
    add(1, 0, 0);
    add(0, 0, 0);
    for (int i = 1; i < JOBS; i++)
        add(0, i, SEND_WINDOW_RECORD_NS);
    assert_int_equal(there(0), 1 + MOST);
}

TEST(large_copies_count_by_their_time, begin, NULL)
{
    add(1, 0, SEND_WINDOW_RECORD_NS);
    for (int i = 0; i < JOBS; i++)
        add(0, i, SEND_WINDOW_NS);
    assert_int_equal(there(0), 1); /* and one always goes */
}

TEST(the_next_worker_has_none_of_the_last, begin, NULL)
{
    add(1, 0, SEND_WINDOW_RECORD_NS);
    for (int i = 0; i < JOBS; i++)
        add(0, i, SEND_WINDOW_RECORD_NS);
    const int before = sent_count;
    send_window_clear(&windows[0]);
    send(0);
    assert_int_equal(sent_count, before);
    for (int i = 0; i < JOBS; i++)
        add(0, i, SEND_WINDOW_RECORD_NS);
    assert_int_equal(sent_count, before + MOST);
}
