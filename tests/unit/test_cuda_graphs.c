/* Rounds of launches as graphs: when they are recorded, captured and launched, and when not. The
 * emulated device counts; the test sets slots and memory. */
#include "gpu/cuda/copy.h"
#include "gpu/cuda/graphs.h"
#include "gpu/cuda/memory.h"
#include "gpu/cuda/passes.h"
#include "gpu/cuda/slots.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <time.h>

enum { QUEUE = 1, RECORDER, ROUND = 3 };

static struct {
    int launched[RECORDER + 1]; /* by stream */
    int captures, graph_launches, execs;
    cudaError_t begin, end, instantiate, launch; /* that each gives */
    uint64_t load, freed;
    time_t now_s;
} device;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    *now = (struct timespec){.tv_sec = device.now_s};
    return 0;
}

static int number_of(cudaStream_t stream)
{
    return (int)(intptr_t)stream;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = (cudaStream_t)(intptr_t)RECORDER;
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode)
{
    assert_int_equal(number_of(stream), RECORDER);
    assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
    device.captures++;
    return device.begin;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    assert_int_equal(number_of(stream), RECORDER);
    *graph = device.end == cudaSuccess ? &device : NULL;
    return device.end;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    (void)flags;
    assert_ptr_equal(graph, &device);
    if (device.instantiate == cudaSuccess) {
        *exec = &device;
        device.execs++;
    }
    return device.instantiate;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    assert_ptr_equal(exec, &device);
    assert_int_equal(number_of(stream), QUEUE);
    device.graph_launches += device.launch == cudaSuccess;
    return device.launch;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    (void)exec;
    device.execs--;
    return cudaSuccess;
}
cudaError_t passes_launch(const struct launch *const launches[], unsigned jobs, int slot, int units,
                          cudaStream_t stream)
{
    (void)launches, (void)slot, (void)units;
    assert_int_equal(jobs, 1);
    device.launched[number_of(stream)]++;
    return cudaSuccess;
}
cudaError_t copy_launch(const struct copies *copies, cudaStream_t stream)
{
    (void)copies, (void)stream;
    return cudaErrorNotReady; /* a chain has none */
}
uint64_t slots_load_of(int slot)
{
    return device.load + (uint64_t)slot;
}
uint64_t memory_freed(void)
{
    return device.freed;
}
static int setup(void **state)
{
    memset(&device, 0, sizeof device);
    return graphs_open() != cudaSuccess;
}
static int teardown(void **state)
{
    graphs_close();
    return device.execs != 0;
}

/* A group of ROUND launches, each from one array to the next. */
struct round {
    struct group group;
    struct operation operations[ROUND];
    struct operands operands;
};

static char arrays[100];

static void round_make(struct round *round, int first)
{
    memset(round, 0, sizeof *round);
    round->group.chain = (struct chain *)arrays;
    round->group.ends_round = true;
    for (int i = 0; i < ROUND; i++) {
        struct operation *operation = &round->operations[i];
        operation->slot = i;
        operation->launch.in[0] = &arrays[first + i];
        operation->launch.even[0] = &arrays[first + i + 1];
        operation->launch.to = 10;
        list_push(&round->group.operations, &operation->link);
    }
}

/* Whether the group is launched as a graph, not one by one. It ends at once. */
static bool is_graph(struct round *round)
{
    const int graphs = device.graph_launches, plain = device.launched[QUEUE];
    round->group.graph = NULL;
    graphs_put(&round->group, 1, (cudaStream_t)(intptr_t)QUEUE);
    const bool is = round->group.graph != NULL;
    assert_int_equal(device.graph_launches, graphs + is);
    assert_int_equal(device.launched[QUEUE], plain + (is ? 0 : ROUND));
    if (is)
        graphs_ended(round->group.graph);
    return is;
}

TEST(the_second_time_it_is_captured, setup, teardown)
{
    struct round round, same;
    round_make(&round, 0);
    round_make(&same, 0);
    assert_false(is_graph(&round));
    assert_int_equal(device.captures, 0);
    assert_true(is_graph(&same));
    assert_int_equal(device.launched[RECORDER], ROUND);
    for (int i = 0; i < 10; i++)
        assert_true(is_graph(i % 2 ? &round : &same));
    assert_int_equal(device.captures, 1);
}

TEST(what_ends_no_round_is_none, setup, teardown)
{
    struct round round;
    round_make(&round, 0);
    round.group.ends_round = false;
    for (int i = 0; i < 3; i++)
        assert_false(is_graph(&round));
}

/* Each argument of a kernel counts. */
TEST(another_one_is_not_the_same, setup, teardown)
{
    struct round round, other;
    round_make(&round, 0);
    is_graph(&round);
    assert_true(is_graph(&round));
    void *const change[] = {
        &other.operations[1].launch.in[2],   &other.operations[0].launch.odd,
        &other.operations[2].launch.even[1], &other.operations[0].launch.spare[1],
        &other.operations[2].launch.from,    &other.operations[1].launch.to};
    for (size_t i = 0; i < sizeof change / sizeof change[0]; i++) {
        round_make(&other, 0);
        *(char *)change[i] += 1;
        assert_false(is_graph(&other));
    }
    round_make(&other, 0);
    other.operations[1].slot = 7;
    assert_false(is_graph(&other));
    round_make(&other, 0);
    other.operations[1].launch.operands = &other.operands;
    other.operands.at[OPERAND_SOURCE] = arrays;
    assert_false(is_graph(&other));
    assert_true(is_graph(&round));
}

TEST(a_slot_that_was_loaded_again_holds_another_plan, setup, teardown)
{
    struct round round;
    round_make(&round, 0);
    is_graph(&round);
    assert_true(is_graph(&round));
    device.load += 10;
    assert_false(is_graph(&round));
    assert_true(is_graph(&round));
}

TEST(memory_that_went_back_takes_them_along, setup, teardown)
{
    struct round round, other;
    round_make(&round, 0);
    round_make(&other, 50);
    is_graph(&round);
    graphs_put(&round.group, 1, (cudaStream_t)(intptr_t)QUEUE);
    assert_non_null(round.group.graph);
    device.freed++;
    assert_false(is_graph(&other));
    assert_int_equal(device.execs, 1); /* under way */
    graphs_ended(round.group.graph);
    assert_int_equal(device.execs, 0);
    assert_false(is_graph(&round));
    assert_true(is_graph(&round));
}

/* Graphs in flight stay; of the others the least recently used one is destroyed. */
TEST(a_few_are_kept, setup, teardown)
{
    enum { MANY = 90 };
    struct round under_way, round;
    round_make(&under_way, 0);
    is_graph(&under_way);
    graphs_put(&under_way.group, 1, (cudaStream_t)(intptr_t)QUEUE);
    assert_non_null(under_way.group.graph);
    for (int i = 1; i < MANY; i++) {
        round_make(&round, i);
        assert_false(is_graph(&round));
        assert_true(is_graph(&round));
        assert_true(device.execs < MANY / 2);
    }
    assert_true(is_graph(&round));
    graphs_ended(under_way.group.graph);
    assert_true(is_graph(&under_way));
    round_make(&round, 1);
    assert_false(is_graph(&round));
}

TEST(where_there_can_be_none_it_goes_one_by_one, setup, teardown)
{
    cudaError_t *const failing[] = {&device.begin, &device.end, &device.instantiate,
                                    &device.launch};
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        struct round round;
        round_make(&round, 0);
        assert_false(is_graph(&round));
        *failing[i] = cudaErrorMemoryAllocation;
        assert_false(is_graph(&round));
        *failing[i] = cudaSuccess;
        for (int k = 0; k < 3; k++)
            assert_false(is_graph(&round));
        assert_int_equal(device.captures, 1);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

/* Memory comes back; a capture that can never work is not to be tried at each launch. */
TEST(it_is_tried_again_after_pauses, setup, teardown)
{
    static const int pauses_s[] = {60, 120, 240, 480, 600, 600};
    enum { PAUSES = sizeof pauses_s / sizeof pauses_s[0] };
    cudaError_t *const failing[] = {&device.begin, &device.end, &device.instantiate,
                                    &device.launch};
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        struct round round, other;
        round_make(&round, 0);
        round_make(&other, 50);
        *failing[i] = cudaErrorMemoryAllocation;
        for (int p = 0; p < PAUSES; p++) {
            for (int k = 0; k < 5; k++)
                assert_false(is_graph(&round));
            device.now_s += pauses_s[p] - 1;
            assert_false(is_graph(&round));
            assert_int_equal(device.captures, p + 1);
            device.now_s++;
        }
        *failing[i] = cudaSuccess;
        assert_false(is_graph(&round));
        assert_true(is_graph(&round));
        *failing[i] = cudaErrorMemoryAllocation;
        for (int k = 0; k < 2; k++)
            assert_false(is_graph(&other));
        *failing[i] = cudaSuccess;
        device.now_s += pauses_s[0]; /* the first one again, since it has worked */
        assert_false(is_graph(&other));
        assert_true(is_graph(&other));
        assert_int_equal(device.captures, PAUSES + 3);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}
