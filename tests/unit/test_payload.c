/* Which bytes go along with a record, on both nodes. */
#include "base/rights.h"
#include "gpu/bridge/payload.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <unistd.h>

enum { ARENA = 1 << 16, REGION = 7, REGION_BYTES = 8192 };

static int map(void **state)
{
    const int arena = rights_memfd("bridge", ARENA), region = rights_memfd("bridge", REGION_BYTES);
    assert_true(payload_map(PAYLOAD_ARENA, arena, ARENA, true));
    assert_true(payload_map(REGION, region, REGION_BYTES, true));
    close(arena);
    close(region);
    return 0;
}

static int unmap(void **state)
{
    payload_unmap(PAYLOAD_ARENA);
    payload_unmap(REGION);
    return 0;
}

static struct channel_message copy(enum channel_type type, uint64_t region, uint64_t offset,
                                   uint64_t bytes, uint64_t tag)
{
    return (struct channel_message){
        .type = type,
        .u.copy = {.region = region, .arena_offset = offset, .bytes = bytes, .tag = tag}};
}

static uint64_t bytes_of(const struct channel_message *record)
{
    struct payload payload;
    assert_true(payload_of(record, &payload));
    return payload_bytes(&payload);
}

/* A job of 4 × 5 × 6 numbers in float32. */
static struct channel_message run(uint64_t id)
{
    struct channel_message record = {.type = CHANNEL_RUN, .u.run.id = id};
    struct job *job = &record.u.run.job;
    job->dtype = DTYPE_F32;
    job->batch = 1;
    job->n[AXIS_X] = 6;
    job->n[AXIS_Y] = 5;
    job->n[AXIS_Z] = 4;
    return record;
}

TEST(test_an_upload_brings_what_it_reads, map, unmap)
{
    struct channel_message record = copy(CHANNEL_UPLOAD, PAYLOAD_ARENA, 4096, 100, 1);
    struct payload payload;
    assert_int_equal(bytes_of(&record), 100);
    record = copy(CHANNEL_UPLOAD, REGION, 8000, 192, 1);
    assert_true(payload_of(&record, &payload));
    memset(payload.piece[0].memory, 1, 192);
}

TEST(test_what_does_not_lie_there_is_refused, map, unmap)
{
    struct payload payload;
    const struct channel_message outside[] = {
        copy(CHANNEL_UPLOAD, PAYLOAD_ARENA, ARENA - 99, 100, 1),
        copy(CHANNEL_UPLOAD, PAYLOAD_ARENA, UINT64_MAX, 100, 1),
        copy(CHANNEL_UPLOAD, PAYLOAD_ARENA, 0, UINT64_MAX, 1),
        copy(CHANNEL_UPLOAD, REGION + 1, 0, 1, 1),
        copy(CHANNEL_UPLOAD, REGION, REGION_BYTES, 1, 1)};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        assert_false(payload_of(&outside[i], &payload));
    struct channel_message download = copy(CHANNEL_DOWNLOAD, REGION, REGION_BYTES, 1, 1);
    assert_false(payload_note(&download));
    struct channel_message job = run(1);
    job.u.run.to[0] = (struct place){REGION, REGION_BYTES - 16};
    assert_false(payload_note(&job));
}

TEST(test_a_region_is_in_use_until_the_answer_that_writes_it, map, unmap)
{
    struct channel_message job = run(3), finished = {.type = CHANNEL_FINISHED, .u.job.id = 3};
    job.u.run.to[0].region = REGION;
    assert_false(payload_is_due(REGION));
    assert_true(payload_note(&job));
    assert_true(payload_is_due(REGION));
    assert_false(payload_is_due(PAYLOAD_ARENA));
    assert_true(payload_note(&finished));
    assert_false(payload_is_due(REGION));
}

TEST(test_a_download_is_brought_by_its_copied_alone, map, unmap)
{
    const struct channel_message download = copy(CHANNEL_DOWNLOAD, PAYLOAD_ARENA, 512, 64, 9);
    struct channel_message copied = copy(CHANNEL_COPIED, 0, 0, 0, 9),
                           other = copy(CHANNEL_COPIED, 0, 0, 0, 8);
    assert_int_equal(bytes_of(&download), 0);
    assert_true(payload_note(&download));
    assert_int_equal(bytes_of(&other), 0);
    assert_int_equal(bytes_of(&copied), 64);
    copied.status = STATUS_OUT_OF_MEMORY; /* then nothing was written */
    assert_int_equal(bytes_of(&copied), 0);
    assert_true(payload_note(&copied));
    copied.status = STATUS_OK;
    assert_int_equal(bytes_of(&copied), 0);
}

TEST(test_a_run_brings_its_places, map, unmap)
{
    struct channel_message job = run(3), finished = {.type = CHANNEL_FINISHED, .u.job.id = 3};
    struct payload payload;
    job.u.run.from[1] = (struct place){REGION, 0};
    job.u.run.to[0] = (struct place){REGION, 480};
    job.u.run.to[2] = (struct place){REGION, 960};
    assert_int_equal(bytes_of(&job), 480);
    assert_true(payload_note(&job));
    assert_true(payload_of(&finished, &payload));
    assert_int_equal(payload_bytes(&payload), 960);
    assert_ptr_equal(payload.piece[2].memory - 480, payload.piece[0].memory);
    assert_true(payload_note(&finished));
    assert_int_equal(bytes_of(&finished), 0);
    job = run(4); /* of arrays alone */
    assert_int_equal(bytes_of(&job), 0);
    assert_true(payload_note(&job));
}

TEST(test_a_region_that_the_worker_cannot_map_is_forgotten, map, unmap)
{
    struct channel_message mapped = {.type = CHANNEL_MAPPED, .u.region.region = REGION},
                           upload = copy(CHANNEL_UPLOAD, REGION, 0, 100, 1);
    struct payload payload;
    mapped.status = STATUS_OUT_OF_MEMORY;
    assert_true(payload_note(&mapped));
    assert_false(payload_of(&upload, &payload));
}

/* Whatever else is said of it. */
TEST(test_a_region_that_the_worker_has_mapped_stays, map, unmap)
{
    struct channel_message mapped = {.type = CHANNEL_MAPPED, .u.region.region = REGION},
                           upload = copy(CHANNEL_UPLOAD, REGION, 0, 100, 1);
    assert_true(payload_note(&mapped));
    mapped.status = STATUS_OUT_OF_MEMORY;
    assert_true(payload_note(&mapped));
    assert_int_equal(bytes_of(&upload), 100);
}

TEST(test_many_at_once, map, unmap)
{
    for (uint64_t tag = 1; tag <= 1000; tag++) {
        const struct channel_message download =
            copy(CHANNEL_DOWNLOAD, PAYLOAD_ARENA, tag, tag, tag);
        assert_true(payload_note(&download));
    }
    for (uint64_t tag = 1; tag <= 1000; tag++) {
        const struct channel_message copied = copy(CHANNEL_COPIED, 0, 0, 0, tag * 3 % 1001);
        assert_int_equal(bytes_of(&copied), tag * 3 % 1001);
        assert_true(payload_note(&copied));
        assert_int_equal(bytes_of(&copied), 0);
    }
}
