/* The staging arena's shares: no user starves or sees another user's bytes, and nothing leaks. */
#include "server/users/arena.h"
#include "server/users/user.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <sys/mman.h>

enum { ARENA_BYTES = 16 << 20, SLABS = 256, MOST = SLABS / 4 /* half of a share */ };

static struct arena arena;
static struct user first, second;

static int turns; /* waiters that were woken */

static int open_arena(void **state)
{
    turns = 0;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    first.uid = 1000;
    second.uid = 1001;
    return arena_open(&arena, ARENA_BYTES) ? 0 : -1;
}

static int close_arena(void **state)
{
    arena_close(&arena);
    return 0;
}

/* As many slabs as the user gets, one at a time. */
static uint32_t take_all(struct user *user, enum share share, struct slab **slabs)
{
    uint32_t count = 0;
    while (arena_take(&arena, user, share, 1, &slabs[count]))
        count++;
    return count;
}

TEST(it_is_cut_into_slabs, open_arena, close_arena)
{
    assert_int_equal(arena.slab_count, SLABS);
    assert_int_equal(arena.bytes, ARENA_BYTES);
    assert_int_equal(arena.total[SHARE_UPLOAD] + arena.total[SHARE_REPLY], SLABS);
}

TEST(a_user_alone_gets_half_and_a_newcomer_some, open_arena, close_arena)
{
    struct slab *mine[SLABS], *theirs[SLABS];
    const uint32_t count = take_all(&first, SHARE_UPLOAD, mine);
    assert_int_equal(count, MOST);
    assert_true(take_all(&second, SHARE_UPLOAD, theirs) >= SLABS / 8);
}

TEST(however_many_take_all_they_can_the_next_finds_some, open_arena, close_arena)
{
    enum { USERS = 8 };
    struct user users[USERS] = {0};
    struct slab *slabs[SLABS];
    for (int i = 0; i < USERS; i++) {
        users[i].uid = (uid_t)(2000 + i);
        assert_true(take_all(&users[i], SHARE_REPLY, slabs) > 0);
    }
    assert_int_equal(arena.taken[SHARE_REPLY], SLABS / 2);
}

TEST(uploads_leave_the_replies_share_alone, open_arena, close_arena)
{
    struct slab *uploads[SLABS], *replies[SLABS];
    take_all(&first, SHARE_UPLOAD, uploads);
    take_all(&second, SHARE_UPLOAD, uploads);
    assert_int_equal(take_all(&first, SHARE_REPLY, replies), MOST);
}

TEST(all_or_none, open_arena, close_arena)
{
    struct slab *slabs[SLABS];
    assert_false(arena_take(&arena, &first, SHARE_REPLY, MOST + 1, slabs));
    assert_int_equal(first.slabs[SHARE_REPLY], 0);
    assert_true(arena_take(&arena, &first, SHARE_REPLY, MOST, slabs));
    for (uint32_t i = 0; i < MOST; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_ptr_not_equal(slabs[i], slabs[j]);
    for (uint32_t i = 0; i < MOST; i++)
        arena_release(&arena, slabs[i]);
    assert_int_equal(first.slabs[SHARE_REPLY], 0);
    assert_int_equal(arena.taken[SHARE_REPLY], 0);
}

TEST(the_last_released_is_the_next_taken, open_arena, close_arena)
{
    struct slab *slab, *again;
    assert_true(arena_take(&arena, &first, SHARE_UPLOAD, 1, &slab));
    arena_release(&arena, slab);
    assert_true(arena_take(&arena, &first, SHARE_UPLOAD, 1, &again));
    assert_ptr_equal(slab, again);
}

TEST(another_users_bytes_are_cleared, open_arena, close_arena)
{
    struct slab *slab, *again;
    assert_true(arena_take(&arena, &first, SHARE_UPLOAD, 1, &slab));
    memset(arena_memory_to_write(&arena, slab, arena.slab_bytes), 's', arena.slab_bytes);
    arena_release(&arena, slab);
    assert_true(arena_take(&arena, &first, SHARE_UPLOAD, 1, &again));
    assert_ptr_equal(slab, again);
    memset(arena_memory_to_write(&arena, slab, 10), 't', 10);
    arena_release(&arena, slab);
    assert_true(arena_take(&arena, &second, SHARE_REPLY, 1, &again));
    assert_ptr_equal(slab, again);
    for (uint32_t i = 0; i < arena.slab_bytes; i++)
        assert_int_equal(arena_memory(&arena, again)[i], 0);
}

/* The cost of clearing depends on the bytes written, not on a slab's size. */
TEST(only_what_was_written_is_cleared, open_arena, close_arena)
{
    struct slab *slab;
    for (int turn = 0; turn < 4; turn++) {
        struct user *user = turn % 2 ? &second : &first;
        assert_true(arena_take(&arena, user, SHARE_UPLOAD, 1, &slab));
        assert_int_equal(arena_memory(&arena, slab)[99], 0);
        assert_int_equal(arena_memory(&arena, slab)[100], turn ? 'x' : 0);
        memset(arena_memory_to_write(&arena, slab, 100), 's', 100);
        arena_memory(&arena, slab)[100] = 'x'; /* nobody does: it shows that nobody looks there */
        arena_release(&arena, slab);
    }
}

struct waiting {
    struct slab_waiter waiter;
    struct slab *slabs[SLABS];
    int calls, turn; /* among all that were woken */
    bool releases;   /* takes, and gives back at once */
};

static void on_ready(struct slab_waiter *waiter)
{
    struct waiting *waiting = LIST_ENTRY(waiter, struct waiting, waiter);
    waiting->calls++;
    waiting->turn = turns++;
    assert_true(arena_take(&arena, waiter->user, waiter->share, waiter->count, waiting->slabs));
    for (uint32_t i = 0; waiting->releases && i < waiter->count; i++)
        arena_release(&arena, waiting->slabs[i]);
}

static void wait_for(struct waiting *waiting, struct user *user, uint32_t count)
{
    waiting->waiter = (struct slab_waiter){
        .user = user, .share = SHARE_UPLOAD, .count = count, .ready = on_ready};
    arena_wait(&arena, &waiting->waiter);
}

TEST(waiters_are_served_when_there_is_room_for_them, open_arena, close_arena)
{
    struct slab *mine[SLABS];
    struct waiting one = {0}, many = {0}, forgotten = {0};
    const uint32_t count = take_all(&first, SHARE_UPLOAD, mine);
    wait_for(&many, &first, 8);
    wait_for(&forgotten, &first, 1);
    wait_for(&one, &first, 1);
    arena_forget(&forgotten.waiter);
    arena_release(&arena, mine[count - 1]);
    assert_int_equal(one.calls, 1); /* it does not wait behind one who needs more */
    assert_int_equal(many.calls, 0);
    for (uint32_t i = 0; i + 1 < count; i++)
        arena_release(&arena, mine[i]);
    assert_int_equal(many.calls, 1);
    assert_int_equal(one.calls, 1);
    assert_int_equal(forgotten.calls, 0);
    assert_int_equal(arena.taken[SHARE_UPLOAD], 9);
}

TEST(waiters_may_release_from_inside, open_arena, close_arena)
{
    struct slab *mine[SLABS];
    struct waiting waiting[5] = {0};
    const uint32_t count = take_all(&first, SHARE_UPLOAD, mine);
    for (int i = 0; i < 5; i++) {
        waiting[i].releases = true;
        wait_for(&waiting[i], &first, 1);
    }
    arena_release(&arena, mine[count - 1]);
    for (int i = 0; i < 5; i++)
        assert_int_equal(waiting[i].calls, 1);
    assert_int_equal(arena.taken[SHARE_UPLOAD], count - 1);
}

/* The cost of a release does not depend on the number of waiters: those behind the first of a user
 * are not read. */
TEST(a_release_looks_at_no_waiter_but_the_first, open_arena, close_arena)
{
    enum { PAGE = 1 << 16, WAITING = 64 };
    struct slab *mine[SLABS], *theirs;
    take_all(&first, SHARE_UPLOAD, mine);
    assert_true(arena_take(&arena, &second, SHARE_UPLOAD, 1, &theirs));
    char *memory = mmap(NULL, WAITING * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (int i = 0; i < WAITING; i++)
        wait_for((struct waiting *)(memory + i * PAGE), &first, 1);
    assert_int_equal(mprotect(memory + PAGE, (WAITING - 1) * PAGE, PROT_NONE), 0);
    arena_release(&arena, theirs); /* no room for the first user, who holds half */
    assert_int_equal(mprotect(memory + PAGE, (WAITING - 1) * PAGE, PROT_READ | PROT_WRITE), 0);
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(((struct waiting *)(memory + i * PAGE))->calls, 0);
        arena_forget(&((struct waiting *)(memory + i * PAGE))->waiter);
    }
    munmap(memory, WAITING * PAGE);
}

/* Users who need one slab at a time would otherwise take each that is released. */
TEST(a_user_who_needs_several_is_not_passed_over, open_arena, close_arena)
{
    enum { OTHERS = 40 };
    struct user others[OTHERS] = {0};
    struct slab *held[SLABS];
    struct waiting several = {0};
    uint32_t count = 0, releases = 0;
    for (int i = 0; i < OTHERS; i++)
        while (arena_take(&arena, &others[i], SHARE_UPLOAD, 1, &held[count]))
            count++;
    assert_int_equal(count, SLABS / 2);
    wait_for(&several, &first, SLABS_AT_ONCE);
    while (!several.calls && releases < 2 * SLABS) {
        struct slab *slab = held[releases++ % count];
        struct user *user = slab->user;
        if (!user)
            break;
        arena_release(&arena, slab);
        struct slab *another;
        if (arena_take(&arena, user, SHARE_UPLOAD, 1, &another))
            held[(releases - 1) % count] = another;
    }
    assert_int_equal(several.calls, 1);
    assert_int_equal(releases, SLABS_AT_ONCE);
}

TEST(users_take_turns, open_arena, close_arena)
{
    struct slab *slab;
    struct waiting waiting[6] = {0};
    assert_true(arena_take(&arena, &first, SHARE_UPLOAD, 1, &slab));
    for (int i = 0; i < 6; i++)
        wait_for(&waiting[i], i < 4 ? &first : &second, 1);
    arena_release(&arena, slab); /* there is room for all of them, one after another */
    const int order[] = {0, 4, 1, 5, 2, 3};
    for (int i = 0; i < 6; i++)
        assert_int_equal(waiting[order[i]].turn, i);
}
