/* Any bytes as a client's stream, decoded up to a job: every accepted job passes job_check(), every
 * refusal has a reason, and no allocation has a size that the peer chose. */
#include "numerics/job_check.h"
#include "protocol/request_chain.h"
#include "protocol/request_job.h"
#include "protocol/reply.h"
#include "protocol/splitter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORK 1e15

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* A refusal must yield an error that a client can read. */
static void check_failure(uint64_t msgid, const struct failure *failure)
{
    check(failure->code != STATUS_OK && failure->message[0] != '\0');
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    reply_write_failure(&packer, msgid, failure);
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    check(msgpack_unpack_next(&unpacked, buffer.data, buffer.size, &offset) ==
          MSGPACK_UNPACK_SUCCESS);
    struct failure read;
    reply_read_failure(&unpacked.data.via.array.ptr[2], &read);
    check(read.code == failure->code && strcmp(read.message, failure->message) == 0);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
}

/* Each operand of the job was given, with the right number of elements. */
static void check_operands(const struct request *request, const struct job *job)
{
    for (int i = 0; i < OPERANDS; i++) {
        const uint64_t points = job_operand_points(job, i);
        const struct array *array = request_job_operand(request, job, i);
        check((array != NULL) == (points > 0 && i != OPERAND_PROBES));
        check(!array || (array->kind != ARRAY_NONE && numbers_count(array) == points));
    }
}

static void check_job(const struct request *request, const struct array_type *type)
{
    struct job job;
    uint8_t *block;
    struct failure failure = {0};
    if (!request_job(request, type, MAX_WORK, &job, &block, &failure)) {
        check(block == NULL);
        check_failure(request->msgid, &failure);
        return;
    }
    struct failure again = {0};
    check(failure.code == STATUS_OK);
    check(job.more.block_bytes == job_block_part(&job, BLOCK_END) &&
          (block != NULL) == (job.more.block_bytes > 0));
    free(block);
    check_operands(request, &job);
    check(job_check(&job, MAX_WORK, &again));
    check(job_bytes(&job) == type->bytes);
    check((double)job_points(&job) * (double)job.steps <= MAX_WORK);
    for (int a = 0; a < AXIS_COUNT; a++)
        check(isfinite(job.spacing[a]) && job.spacing[a] > 0 && isfinite(job.diffusivity[a]));
    check(job_passes(&job) >= 1);
    for (int a = 0; a < AXIS_COUNT; a++) {
        const bool first = a == 0 && !job_takes_vector(&job);
        check((request->f.at[a].kind != ARRAY_NONE) ==
              (job_takes_vector(&job) ? a < job.axes : first));
    }
}

/* The types that a resident field may have, when the request names one. */
static const struct array_type resident[] = {
    {DTYPE_F32, 1, {1}, 4},
    {DTYPE_F64, 2, {9, 13}, 9 * 13 * 8},
    {DTYPE_F32, 3, {64, 64, 64}, 64 * 64 * 64 * 4},
    {DTYPE_F32, 5, {2, 1, 30, 2, 40}, 2 * 30 * 2 * 40 * 4},
};

static void check_inline(const struct splitter *s, const struct array *f)
{
    if (f->kind != ARRAY_INLINE)
        return;
    check(f->type.bytes > 0 && f->type.bytes <= 8 * LIMIT_POINTS);
    check((f->small != NULL) == (f->payload_count == 0));
    check(f->payload_first + f->payload_count <= s->payloads);
    if (f->small) { /* every byte of it is there */
        const uint8_t *small = f->small;
        check(small >= s->control && small + f->type.bytes <= s->control + s->control_bytes);
    }
}

static void check_place(const struct array *array, bool is_input)
{
    if (array->kind != ARRAY_REGION)
        return;
    check(array->offset % ARRAY_OFFSET_BYTES == 0);
    check(array->type.dimensions <= LIMIT_DIMENSIONS && array->type.bytes <= 8 * LIMIT_POINTS);
    check(!is_input || array->type.dimensions >= 1);
    check((array->type.dimensions > 0) == (array->type.bytes > 0));
}

/* The payload of parameters of many numbers: zeros. */
static void give_numbers(struct request *request)
{
    static uint64_t zeros[LIMIT_BLOCK_BYTES / 8];
    for (int i = 0; i < REQUEST_NUMBERS; i++) {
        struct array *numbers = &request->numbers[i];
        check(numbers->type.bytes <= sizeof zeros);
        if (numbers->payload_count)
            numbers->small = zeros;
    }
}

static void check_operator(struct request *request)
{
    give_numbers(request);
    const struct array *first = request->f.at;
    while (first->kind == ARRAY_NONE)
        first++;
    if (first->kind != ARRAY_FIELD)
        check_job(request, &first->type);
    else
        for (size_t i = 0; i < sizeof resident / sizeof *resident; i++)
            check_job(request, &resident[i]);
}

static bool is_named(const struct request_link *link)
{
    for (int a = 0; a < AXIS_COUNT; a++)
        if (link->source[a].link >= 0)
            return true;
    return false;
}

static void check_chain(const struct splitter *s, struct request_chain *chain)
{
    check(chain->count >= 1 && chain->count <= CHAIN_LINKS);
    check(chain->answers >= 1 && chain->answers <= CHAIN_LINKS);
    for (uint32_t i = 0; i < chain->answers; i++)
        check(chain->answer[i].link < chain->count);
    for (uint32_t i = 0; i < chain->count; i++) {
        struct request_link *link = &chain->link[i];
        for (int a = 0; a < AXIS_COUNT; a++) {
            check(link->source[a].link < (int)i && link->source[a].component < AXIS_COUNT);
            const struct array *f = &link->request.f.at[a];
            check(f->kind != ARRAY_DESCRIBED);
            check_place(f, true);
            if (link->source[a].link < 0)
                check_inline(s, f);
        }
        if (!is_named(link))
            check_operator(&link->request);
    }
}

static void check_message(const struct splitter *s)
{
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    check(msgpack_unpack_next(&unpacked, (const char *)s->control, s->control_bytes, &offset) ==
          MSGPACK_UNPACK_SUCCESS);
    struct request request;
    bool has_msgid;
    struct failure failure = {0};
    const bool good = request_decode(&unpacked.data, &request, &has_msgid, &failure);
    check(good == (failure.code == STATUS_OK));
    check(strlen(request.method_name) <= LIMIT_METHOD_BYTES);
    uint64_t msgid;
    if (splitter_peek_msgid(s, SPLITTER_REQUEST,
                            &msgid)) /* an early error would go to the same request */
        check(has_msgid && msgid == request.msgid);
    if (!good) {
        check_failure(request.msgid, &failure);
    } else if (!request.is_notification) {
        for (int i = 0; i < AXIS_COUNT; i++) {
            check_inline(s, &request.f.at[i]);
            check_place(&request.f.at[i], true);
            check_place(&request.out_place.at[i], false);
        }
        check(request.method != METHOD_REGISTER || request.bytes > 0);
        check(request.repeat >= 1);
    }
    if (good && request.method == METHOD_OPERATOR)
        check_operator(&request);
    if (good && request.method == METHOD_CHAIN)
        check_chain(s, request.chain);
    request_free(&request);
    msgpack_unpacked_destroy(&unpacked);
}

/* The server's reading of an array's header when its first byte of payload is due. */
static void check_payload(const struct splitter *s)
{
    const struct splitter_payload *payload = &s->payload;
    const struct splitter_name names[] = {payload->name, payload->outer};
    for (int i = 0; i < 2; i++) {
        const uint8_t *text = (const uint8_t *)names[i].text;
        check(!text ||
              (text >= s->control && text + names[i].bytes <= s->control + s->control_bytes));
    }
    struct array_type type;
    struct failure failure = {0};
    if (array_type_peek(payload, "f", false, &type, &failure))
        check(type.bytes > 0 && type.dimensions >= 1 && type.dimensions <= LIMIT_DIMENSIONS);
    else
        check_failure(0, &failure);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct splitter s;
    splitter_init(&s);
    size_t at = 0;
    uint32_t seed = (uint32_t)length;
    enum splitter_event event = SPLITTER_MORE;
    while (at < length && event != SPLITTER_ERROR) {
        seed = seed * 1664525 + 1013904223;
        size_t used, piece = 1 + (seed >> 24);
        if (piece > length - at)
            piece = length - at;
        uint64_t due = splitter_payload_due(&s);
        if (due > 0) {
            /* Payload is not looked at here: let one byte of input stand for all of it, so that the
             * fuzzer need not find 4 KiB to get past it. */
            used = 1;
            event = splitter_payload_done(&s, due);
        } else {
            event = splitter_feed(&s, bytes + at, piece, &used);
        }
        at += used;
        if (event == SPLITTER_PAYLOAD) {
            check_payload(&s);
            if (s.payload.bytes == 0)
                event = splitter_payload_done(&s, 0);
        }
        if (event == SPLITTER_MESSAGE) {
            check_message(&s);
            splitter_next(&s);
        }
    }
    splitter_free(&s);
    return 0;
}
