/* The front's regions: each device whose jobs name one maps it, on its first use there, and what
 * befalls a device is no affair of the others. The devices are these tests'. */
#include "base/rights.h"
#include "server/devices/device.h"
#include "server/devices/field.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <unistd.h>

enum { BYTES = 10000, HERE = 0, THERE = 1, DEVICES = 2, JOBS = 3 };

/* A job with one operand in the region. */
struct task {
    struct region_use use, second;
    int granted;
    enum status lost; /* OK: it was not */
    bool ends;        /* as soon as either happens */
};

static uv_loop_t loop;
static struct config config;
static struct users users;
static struct user *user;
static struct devices devices;
static struct device device[DEVICES];
static int maps[DEVICES], unmaps[DEVICES];
static bool no_descriptor; /* none for device_map() */
static bool any_number;    /* for device_unmap(): there is more than one region */
static struct region_owner owner;
static struct task job[JOBS];
static uint64_t id, number; /* of the region that is registered */
static int answers;
static struct failure refusal; /* what an answer was */

/* ---- what the regions call ---- */

bool device_map(struct device *to, const struct region *region)
{
    number = region->number;
    maps[to->number] += !no_descriptor;
    return !no_descriptor;
}

void device_unmap(struct device *to, const struct region *region)
{
    assert_int_equal(to->state, DEVICE_READY);
    assert_true(any_number || region->number == number);
    unmaps[to->number]++;
}

bool descriptors_allow_memory(const struct user *of, int descriptor, struct failure *failure)
{
    return true;
}

void passing_close(int descriptor, struct passing_account *account)
{
    close(descriptor);
}

void passing_close_own(int descriptor)
{
    close(descriptor);
}

bool field_make_id(uint64_t *made, struct failure *failure)
{
    static uint64_t last = 100;
    *made = ++last;
    return true;
}

static void end_job(struct task *task)
{
    region_use_end(&task->use);
    region_use_end(&task->second);
}

static void on_granted(struct task *task)
{
    task->granted++;
    if (task->ends)
        end_job(task);
}

static void on_lost(struct task *task, enum status status)
{
    task->lost = status;
    if (task->ends)
        end_job(task);
}

static void on_answer(struct region_owner *of, uint64_t msgid, const struct region *region,
                      const struct failure *failure)
{
    answers++;
    if (region)
        id = region->id;
    if (failure)
        refusal = *failure;
}

static const struct device_events events = {.granted = on_granted, .region_lost = on_lost};

/* ---- what the tests do ---- */

static int open_devices(void **state)
{
    config = (struct config){.max_regions = 10, .region_memory = 1 << 20};
    users = (struct users){.config = &config, .descriptors = 1000};
    user = test_calloc(1, sizeof *user);
    user->users = &users;
    owner = (struct region_owner){.user = user, .answer = on_answer};
    devices = (struct devices){
        .loop = &loop, .config = &config, .users = &users, .events = &events, .count = DEVICES};
    for (uint32_t i = 0; i < DEVICES; i++) {
        device[i] = (struct device){.devices = &devices, .number = i, .state = DEVICE_READY};
        snprintf(device[i].name, sizeof device[i].name, "cuda:%u", i);
        maps[i] = unmaps[i] = 0;
    }
    memset(job, 0, sizeof job);
    id = number = 0;
    answers = 0;
    refusal = (struct failure){0};
    no_descriptor = any_number = false;
    return uv_loop_init(&loop);
}

/* Nothing is left of any region. */
static int close_devices(void **state)
{
    assert_true(list_empty(&user->region_list));
    assert_true(list_empty(&owner.regions));
    for (int i = 0; i < DEVICES; i++)
        assert_true(list_empty(&device[i].regions));
    static const struct counters none;
    assert_memory_equal(&user->counters, &none, sizeof none);
    assert_memory_equal(&users.counters, &none, sizeof none);
    assert_int_equal(owner.answers_due, 0);
    test_free(user);
    return uv_loop_close(&loop);
}

/* Register memory, up to where its blocks are there and the first device is asked. */
static void begin_to_register(int first)
{
    const int file = rights_memfd("region", BYTES);
    assert_true(file >= 0);
    const struct request request = {.bytes = BYTES, .writable = true, .msgid = 1};
    struct failure failure = {0};
    assert_true(region_register(&devices, &owner, &device[first], &request, file, &failure));
    region_worker_ready(&device[first]); /* a beat: not before its blocks are there */
    assert_int_equal(maps[first], 0);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void map(int at, enum status status)
{
    assert_true(region_mapped(&device[at], number, status));
    assert_false(region_mapped(&device[at], number, status)); /* once */
}

static void register_here(void)
{
    begin_to_register(HERE);
    assert_int_equal(maps[HERE], 1);
    assert_int_equal(answers, 0);
    map(HERE, STATUS_OK);
    assert_int_equal(answers, 1);
    assert_int_equal(refusal.code, STATUS_OK);
    assert_int_not_equal(id, 0);
}

static void unregister(void)
{
    const struct request request = {.region = id, .msgid = 2};
    struct failure failure = {0};
    assert_true(region_unregister(&owner, &request, &failure));
}

static bool use(struct task *task, int at, struct failure *failure)
{
    const struct array array = {.kind = ARRAY_REGION, .region = id, .offset = 16};
    return region_use(&task->use, user, &device[at], task, &array, BYTES - 16, true, "f", failure);
}

static bool try_job(int which, int at, struct failure *failure)
{
    return use(&job[which], at, failure);
}

/* Does the job wait? */
static bool start_job(int which, int at)
{
    struct failure failure = {0};
    assert_true(try_job(which, at, &failure));
    return job[which].use.waits;
}

static void worker_ends(int at)
{
    device[at].state = DEVICE_DOWN;
    region_worker_lost(&device[at]);
    region_worker_gone(&device[at]);
}

static void worker_begins(int at)
{
    device[at].state = DEVICE_READY;
    region_worker_ready(&device[at]);
}

static void assert_maps(int here, int there)
{
    assert_int_equal(maps[HERE], here);
    assert_int_equal(maps[THERE], there);
}

static void assert_unmaps(int here, int there)
{
    assert_int_equal(unmaps[HERE], here);
    assert_int_equal(unmaps[THERE], there);
}

/* ---- the tests ---- */

TEST(test_each_device_maps_it_on_its_first_use_there, open_devices, close_devices)
{
    register_here();
    const struct counters charged = user->counters;
    assert_int_equal(charged.regions, 1);
    assert_int_equal(charged.region_bytes, 3 * 4096);
    assert_false(start_job(0, HERE));
    const struct array array = {.kind = ARRAY_REGION, .region = id};
    struct failure failure = {0};
    assert_non_null(region_check(user, &device[THERE], &array, BYTES, true, "f", &failure));
    region_worker_ready(&device[THERE]);
    assert_maps(1, 0);
    assert_true(start_job(1, THERE));
    assert_true(start_job(2, THERE));
    assert_maps(1, 1);
    map(THERE, STATUS_OK);
    assert_int_equal(job[0].granted, 0);
    assert_int_equal(job[1].granted, 1);
    assert_int_equal(job[2].granted, 1);
    end_job(&job[1]);
    end_job(&job[2]);
    assert_false(start_job(1, THERE));
    assert_maps(1, 1);
    assert_memory_equal(&user->counters, &charged, sizeof charged);
    end_job(&job[0]);
    end_job(&job[1]);
    unregister();
    assert_int_equal(answers, 2);
    assert_unmaps(1, 1);
}

TEST(test_the_first_device_refuses, open_devices, close_devices)
{
    begin_to_register(THERE);
    assert_maps(0, 1);
    map(THERE, STATUS_OUT_OF_MEMORY);
    assert_int_equal(answers, 1);
    assert_int_equal(refusal.code, STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(refusal.message, "cuda:1"));
    assert_unmaps(0, 0);
}

TEST(test_another_device_refuses, open_devices, close_devices)
{
    register_here();
    assert_false(start_job(0, HERE));
    assert_true(start_job(1, THERE));
    assert_true(start_job(2, THERE));
    job[1].ends = true;
    map(THERE, STATUS_OUT_OF_MEMORY);
    assert_int_equal(job[0].lost, STATUS_OK);
    assert_int_equal(job[1].lost, STATUS_OUT_OF_MEMORY);
    assert_int_equal(job[2].lost, STATUS_OUT_OF_MEMORY);
    end_job(&job[2]);
    struct failure failure = {0};
    assert_false(try_job(1, THERE, &failure));
    assert_int_equal(failure.code, STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(failure.message, "cuda:1"));
    assert_false(start_job(2, HERE));
    assert_maps(1, 1);
    /* Its next worker may be able to. */
    worker_ends(THERE);
    assert_true(start_job(1, THERE));
    worker_begins(THERE);
    assert_maps(1, 2);
    map(THERE, STATUS_INTERNAL);
    assert_int_equal(job[1].lost, STATUS_INTERNAL);
    for (int i = 0; i < JOBS; i++)
        end_job(&job[i]);
    unregister();
    assert_int_equal(answers, 2);
    assert_unmaps(1, 0);
}

TEST(test_a_worker_ends, open_devices, close_devices)
{
    register_here();
    assert_true(start_job(1, THERE));
    worker_ends(THERE); /* while it maps */
    assert_false(start_job(0, HERE));
    assert_false(region_mapped(&device[THERE], number, STATUS_OK));
    worker_begins(THERE);
    assert_maps(1, 2);
    map(THERE, STATUS_OK);
    assert_int_equal(job[1].granted, 1);
    end_job(&job[1]);
    worker_ends(THERE); /* with a mapping */
    assert_false(start_job(2, HERE));
    assert_true(start_job(1, THERE));
    worker_begins(THERE);
    assert_maps(1, 3);
    map(THERE, STATUS_OK);
    assert_int_equal(job[1].granted, 2);
    end_job(&job[0]);
    worker_ends(HERE); /* where it was mapped first */
    assert_true(start_job(0, HERE));
    end_job(&job[1]);
    assert_false(start_job(1, THERE));
    for (int i = 0; i < JOBS; i++)
        end_job(&job[i]);
    unregister();
    assert_int_equal(answers, 2);
    assert_unmaps(0, 1);
}

TEST(test_the_first_use_comes_while_there_is_no_worker, open_devices, close_devices)
{
    register_here();
    worker_ends(THERE);
    assert_true(start_job(1, THERE));
    assert_maps(1, 0);
    no_descriptor = true;
    worker_begins(THERE);
    assert_maps(1, 0);
    no_descriptor = false;
    region_worker_ready(&device[THERE]); /* the next beat */
    assert_maps(1, 1);
    map(THERE, STATUS_OK);
    assert_int_equal(job[1].granted, 1);
    end_job(&job[1]);
    region_hang_up(&owner);
    assert_unmaps(1, 1);
}

static void unregister_while_it_is_mapped(enum status status)
{
    register_here();
    assert_true(start_job(1, THERE));
    unregister();
    struct failure failure = {0};
    assert_false(try_job(0, HERE, &failure));
    assert_int_equal(failure.code, STATUS_NOT_FOUND);
    map(THERE, status);
    assert_int_equal(job[1].granted, status == STATUS_OK);
    assert_int_equal(job[1].lost, status);
    assert_int_equal(answers, 1);
    end_job(&job[1]);
    assert_int_equal(answers, 2);
    assert_unmaps(1, status == STATUS_OK);
}

TEST(test_unregister_during_a_second_mapping, open_devices, close_devices)
{
    unregister_while_it_is_mapped(STATUS_OK);
}

TEST(test_unregister_during_a_second_mapping_that_is_refused, open_devices, close_devices)
{
    unregister_while_it_is_mapped(STATUS_OUT_OF_MEMORY);
}

TEST(test_hang_up_during_a_second_mapping, open_devices, close_devices)
{
    register_here();
    assert_true(start_job(1, THERE));
    end_job(&job[1]); /* cancelled */
    region_hang_up(&owner);
    assert_unmaps(0, 0); /* the worker may be at it */
    map(THERE, STATUS_OK);
    assert_unmaps(1, 1);
    assert_int_equal(answers, 1);
}

TEST(test_the_worker_ends_after_a_hang_up, open_devices, close_devices)
{
    register_here();
    assert_true(start_job(1, THERE));
    end_job(&job[1]);
    region_hang_up(&owner);
    worker_ends(THERE);
    assert_unmaps(1, 0);
}

/* A job that was answered may still write: jobs on any device wait for that, and for theirs. */
TEST(test_a_hold_is_of_all_devices, open_devices, close_devices)
{
    register_here();
    assert_false(start_job(0, HERE));
    region_use_hold(&job[0].use);
    assert_true(start_job(1, THERE));
    assert_true(start_job(2, HERE));
    map(THERE, STATUS_OK);
    assert_int_equal(job[1].granted, 0);
    end_job(&job[0]);
    assert_int_equal(job[1].granted, 1);
    assert_int_equal(job[2].granted, 1);
    end_job(&job[1]);
    end_job(&job[2]);
    /* The hold ends before a device has mapped it. */
    assert_false(start_job(0, HERE));
    region_use_hold(&job[0].use);
    worker_ends(THERE);
    assert_true(start_job(1, THERE));
    end_job(&job[0]);
    assert_int_equal(job[1].granted, 1);
    worker_begins(THERE);
    map(THERE, STATUS_OK);
    assert_int_equal(job[1].granted, 2);
    end_job(&job[1]);
    unregister();
}

TEST(test_a_second_use_is_on_the_same_device, open_devices, close_devices)
{
    register_here();
    assert_true(start_job(1, THERE));
    region_use_share(&job[1].second, &job[1].use);
    assert_ptr_equal(job[1].second.mapping, job[1].use.mapping);
    assert_int_equal(job[1].second.offset, 16);
    assert_false(job[1].second.waits);
    map(THERE, STATUS_OK);
    assert_int_equal(job[1].granted, 1);
    region_use_end(&job[1].use);
    unregister();
    assert_int_equal(answers, 1);
    region_use_end(&job[1].second);
    assert_int_equal(answers, 2);
}

/* Chains of one user name regions so often: were each use looked for among all, this would take the
 * loop from everybody for hours. */
TEST(test_a_worker_maps_one_of_a_user_at_a_time, open_devices, close_devices)
{
    begin_to_register(HERE);
    const uint64_t mapped = number;
    const int file = rights_memfd("second", BYTES), others = rights_memfd("others", BYTES);
    struct request request = {.bytes = BYTES, .writable = true, .msgid = 2};
    struct failure failure = {0};
    assert_true(region_register(&devices, &owner, &device[HERE], &request, file, &failure));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_maps(1, 0);
    struct user second = {.uid = 7, .users = &users};
    struct region_owner second_owner = {.user = &second, .answer = on_answer};
    assert_true(
        region_register(&devices, &second_owner, &device[HERE], &request, others, &failure));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_maps(2, 0); /* who does not wait for the first user's second one */
    map(HERE, STATUS_OK);
    assert_maps(2, 0);
    assert_true(region_mapped(&device[HERE], mapped, STATUS_OK));
    assert_maps(3, 0);
    map(HERE, STATUS_OUT_OF_MEMORY);
    assert_int_equal(answers, 3);
    any_number = true;
    region_hang_up(&second_owner);
    region_hang_up(&owner);
}

TEST(test_many_jobs_wait_for_a_mapping, open_devices, close_devices)
{
    enum { MANY = 1 << 20 };
    struct task *many = test_calloc(MANY, sizeof *many);
    struct failure failure = {0};
    register_here();
    for (int i = 0; i < MANY; i++) {
        many[i].ends = i % 2; /* some end as soon as they can go on */
        assert_true(use(&many[i], THERE, &failure));
    }
    map(THERE, STATUS_OK);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(many[i].granted, 1);
        end_job(&many[i]);
    }
    unregister();
    test_free(many);
}
