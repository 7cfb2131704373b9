#include "server/io/outbox.h"

#include "server/io/connection.h"
#include "server/io/io.h"
#include "server/jobs/task.h"
#include "server/users/memory.h"

#include <stdlib.h>

void outbox_init(struct outbox *outbox, struct io *io, struct user *user, int socket)
{
    outbox->io = io;
    outbox->user = user;
    outbox->socket = socket;
    outbox->window = REPLY_WINDOW_LEAST;
    outbox->waiter = (struct slab_waiter){
        .user = user, .share = SHARE_REPLY, .count = 1, .ready = staging_on_waiter};
}

bool reply_started(const struct reply *reply)
{
    const struct outbox *outbox = reply->outbox;
    return reply->head_sent > 0 ||
           (outbox->sending_bytes && outbox->ready.next == &reply->link); /* an I/O thread has it */
}

/* Its slabs that no worker touches go back. */
static void drop_pieces(struct reply *reply)
{
    for (uint32_t i = 0; i < reply->pieces; i++) {
        struct piece *piece = piece_at(reply, i);
        if (piece->slab && !piece->slab->field)
            arena_release(reply->arena, piece->slab);
        piece->slab = NULL;
    }
    reply->pieces = 0;
    reply->first = 0;
}

static void reply_count(struct reply *reply)
{
    memory_recount(reply->user, &reply->counted_bytes, reply->own_bytes + reply->text.alloc);
}

void reply_free(struct reply *reply)
{
    for (uint32_t i = 0; i < reply->parts; i++)
        field_release(reply->part[i].field);
    field_release(reply->exported);
    memory_release(reply->user, reply->counted_bytes);
    msgpack_sbuffer_destroy(&reply->text);
    free(reply);
}

enum { SPARE_TEXT_BYTES = 512 };

/* Kept for when there is no memory: an answer that says so. */
static struct {
    void *reply, *text;
} spare;

/* Zeroed memory, or else the spare's, which is made anew when next there is memory. */
static void *memory_or_spare(size_t bytes, void **kept, size_t kept_bytes)
{
    if (!*kept)
        *kept = calloc(1, kept_bytes);
    void *memory = calloc(1, bytes);
    if (memory || bytes > kept_bytes)
        return memory;
    memory = *kept;
    *kept = NULL;
    return memory;
}

static struct reply *reply_new(struct outbox *outbox, uint32_t window)
{
    const size_t bytes = sizeof(struct reply) + window * sizeof(struct piece);
    struct reply *reply = memory_or_spare(
        bytes, &spare.reply, sizeof(struct reply) + REPLY_WINDOW * sizeof(struct piece));
    if (!reply)
        return NULL;
    reply->outbox = outbox;
    reply->arena = &outbox->io->jobs->devices->arena;
    reply->user = outbox->user;
    reply->own_bytes = sizeof *reply + window * sizeof *reply->piece;
    return reply;
}

static void reply_enter(struct reply *reply, struct list *list)
{
    struct outbox *outbox = reply->outbox;
    reply_count(reply);
    outbox->control_bytes += reply->head_bytes;
    if (list_empty(&outbox->ready) && !outbox->blocked)
        outbox->sent_ns = uv_hrtime();
    list_push(list, &reply->link);
}

/* An error in the place of a message that there was no memory to pack. */
static msgpack_sbuffer pack_out_of_memory(uint64_t msgid)
{
    msgpack_sbuffer text;
    msgpack_packer packer;
    struct failure failure = {0};
    msgpack_sbuffer_init(&text);
    text.data = memory_or_spare(SPARE_TEXT_BYTES, &spare.text, SPARE_TEXT_BYTES);
    text.alloc = text.data ? SPARE_TEXT_BYTES : 0;
    msgpack_packer_init(&packer, &text, msgpack_sbuffer_write);
    failure_set(&failure, STATUS_OUT_OF_MEMORY, NULL, "the server has no memory for the answer");
    if (text.data)
        reply_write_failure(&packer, msgid, &failure);
    return text;
}

/* Text behind text that waits already, so that many small replies take no more than their bytes.
 * False: there is none that it may stand behind. */
static bool append_control(struct outbox *outbox, const msgpack_sbuffer *message)
{
    enum { APPENDED_MOST = 4 << 10 };
    struct reply *last = LIST_ENTRY(list_last(&outbox->ready), struct reply, link);
    if (list_empty(&outbox->ready) || last->parts || last->task || outbox->sending_bytes ||
        !message->size || last->text.size + message->size > APPENDED_MOST ||
        msgpack_sbuffer_write(&last->text, message->data, message->size) != 0)
        return false;
    last->head_bytes += message->size;
    outbox->control_bytes += message->size;
    reply_count(last);
    return true;
}

void outbox_push(struct outbox *outbox, uint64_t msgid, const struct answer *answer,
                 struct task *task)
{
    msgpack_sbuffer text = answer->text.size ? answer->text : pack_out_of_memory(msgid);
    if (!task && append_control(outbox, &text)) {
        msgpack_sbuffer_destroy(&text);
        connection_changed(outbox);
        return;
    }
    const uint32_t parts = answer->parts;
    struct reply *reply = reply_new(outbox, parts ? REPLY_WINDOW : 0);
    if (!reply || !text.size) {
        outbox->broken = true; /* it cannot be told anything any more */
        msgpack_sbuffer_destroy(&text);
        free(reply);
        return;
    }
    reply->parts = parts;
    for (uint32_t i = 0; i < parts; i++) {
        reply->part[i] = answer->part[i];
        reply->bytes += field_reference(answer->part[i].field)->type.bytes;
    }
    if (answer->exported)
        reply->exported = field_reference(answer->exported);
    reply->text = text;
    reply->head_bytes = parts ? answer->part[0].text_end : text.size;
    reply_enter(reply, parts ? &outbox->staging : &outbox->ready);
    reply->task = task;
    if (task)
        task->reply = reply;
    connection_changed(outbox);
    staging_go_on(outbox);
}

void outbox_push_failure(struct outbox *outbox, uint64_t msgid, struct task *task,
                         const struct failure *failure)
{
    struct answer answer;
    answer_init(&answer);
    reply_write_failure(&answer.packer, msgid, failure);
    outbox_push(outbox, msgid, &answer, task);
}

static void push_progress(struct outbox *outbox, uint64_t msgid, uint64_t done, uint64_t total)
{
    if (outbox->blocked || outbox->sending_bytes)
        return; /* it is behind already: the next one will tell more */
    struct answer answer;
    answer_init(&answer);
    reply_write_progress(&answer.packer, msgid, done, total);
    if (answer.text.size)
        outbox_push(outbox, msgid, &answer, NULL);
}

/* Of a task that goes on after it; else its answer. */
static bool is_snapshot(const struct reply *reply)
{
    return reply->task->state != TASK_REPLYING;
}

static void leave_task(struct reply *reply)
{
    if (reply->task)
        reply->task->reply = NULL;
    reply->task = NULL;
}

/* It is in no queue: it ends when its copies have. */
static void abandon(struct reply *reply)
{
    leave_task(reply);
    reply->outbox = NULL;
    drop_pieces(reply);
    if (!reply->loading)
        reply_free(reply);
}

/* Nothing of it has gone out: nothing will. */
static void take_out(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    list_remove(&reply->link);
    outbox->control_bytes -= reply->head_bytes;
    if (reply->whole)
        outbox->slabs -= reply->pieces;
    arena_forget(&outbox->waiter); /* it may have been this one's */
    abandon(reply);
}

static bool withdraw(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    if (reply_started(reply) || (!reply->parts && !is_snapshot(reply)))
        return false;
    take_out(reply);
    staging_go_on(outbox);
    return true;
}

static bool is_held_up(struct reply *reply)
{
    const bool is_here =
        reply->whole ? !reply->loading : reply->pieces > 0 && piece_at(reply, 0)->ready;
    return reply->parts && !reply_started(reply) && !is_here && !reply->outbox->blocked;
}

/* An error takes its place; copies to it may still be under way. */
static void replace(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    struct task *task = reply->task;
    struct failure failure = {0};
    failure_set(&failure, STATUS_DEVICE_LOST, NULL,
                "the worker that held the result ended before it was sent");
    take_out(reply);
    outbox_push_failure(outbox, task->msgid, task, &failure);
}

static void lost(struct reply *reply)
{
    struct outbox *outbox = reply->outbox;
    const bool snapshot = is_snapshot(reply), started = reply_started(reply);
    bool all_here = reply->asked == reply->bytes && (started || reply->whole);
    for (uint32_t i = 0; i < reply->pieces; i++)
        all_here = all_here && piece_at(reply, i)->slab && piece_at(reply, i)->ready;
    reply->lost = true; /* nothing more of it can be brought over */
    if (!all_here && !snapshot)
        reply->task->outcome = TASK_FAILED;
    if (!all_here && started) /* half of it is out: nothing else can follow on this stream */
        outbox->broken = true;
    if (snapshot && (all_here || started || !reply->parts)) /* that tells of a field: to be freed */
        leave_task(reply);
    else if (snapshot)
        take_out(reply);
    else if (!all_here && !started)
        replace(reply);
    connection_changed(outbox);
}

const struct client_calls outbox_calls = {.failure = outbox_push_failure,
                                          .answer = outbox_push,
                                          .progress = push_progress,
                                          .withdraw = withdraw,
                                          .is_held_up = is_held_up,
                                          .lost = lost};

bool outbox_empty(const struct outbox *outbox)
{
    return list_empty(&outbox->ready) && list_empty(&outbox->loading) &&
           list_empty(&outbox->staging);
}

void outbox_close(struct outbox *outbox)
{
    arena_forget(&outbox->waiter);
    struct list *const lists[] = {&outbox->ready, &outbox->loading, &outbox->staging};
    for (size_t i = 0; i < 3; i++)
        LIST_DRAIN (struct reply, reply, lists[i], link)
            abandon(reply);
}
