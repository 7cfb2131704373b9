/* The channel between the front and a worker: a SOCK_SEQPACKET socketpair, both ends non-blocking,
 * that carries self-contained records without pointers. Payload never crosses it: records name
 * places in the arena.
 *
 *   packet = record … (at most CHANNEL_PACKET of them and CHANNEL_PACKET_BYTES)
 *   record = bytes, version, type, status; what its type has in the union; a RUN's block
 *
 * A record is of the length that its type has, to the byte. A RUN whose block would make it longer
 * than a packet has its block in a sealed memfd that comes with it, and nothing behind its struct.
 * A descriptor belongs to the first record of its packet.
 *
 *   front → worker                         worker → front
 *   ARENA (with the memfd)                 READY or REFUSED
 *   ALLOCATE array, bytes, owner           – (FAILED where there is no memory)
 *   MAILBOX bytes                          MAILBOX (with what others map it by)
 *   EXPORT array, other                    EXPORTED (with what others map the memory by)
 *   UPLOAD array ← arena or region, tag    COPIED tag (after FAILED where there is no memory)
 *   REGION region, bytes (with the memfd,  MAPPED region, once it is mapped and pinned
 *     or a mailbox's descriptor)
 *   UNREGION region                        –
 *   RUN job and block: arrays, places      PROGRESS …, EDGES, then FINISHED
 *   KERNEL slot, bytes (with the memfd)    –
 *   MEASURE array, other, result           FINISHED with the measure
 *   CANCEL job                             FINISHED with CANCELLED, or as it ended
 *   DOWNLOAD arena or region ← array, tag  COPIED tag
 *   RELEASE array                          –
 *   CONNECT communicator, rank, id         UNIQUE_ID, of rank 0; CONNECTED in the end
 *   EXCHANGE arrays of both ranks          EXCHANGED tag
 *   DISCONNECT communicator                –
 *   PING                                   PONG: what the device has been given, and has done
 *   –                                      ALIVE: orders take long to read; a PING may stand behind
 *
 * A worker on another node is behind a bridge (gpu/bridge/bridge.h), which first joins the two:
 *
 *   SOCKET (with the connection)           JOIN: which device of which node it is
 *   ARENA, as above, or REFUSED
 *   –                                      LEAVING: it is to be given nothing more, and ended
 *
 * Orders are taken in the order sent. The front keeps to these rules, and the worker ends itself
 * (a broken front is no client's fault) where one is broken:
 *   - ids of arrays and jobs are the front's, never used twice in one worker's life;
 *   - a RUN comes after the UPLOADs of its inputs; DOWNLOAD, RELEASE, and any order that writes an
 *     array that a RUN uses, come after that RUN's FINISHED; a RELEASE comes after every COPIED of
 *     the array;
 *   - a RUN names the arrays and places that its job has, and no others, and its block is of the
 *     size that its job's parameters say;
 *   - ids of regions are the front's too. A region's memfd is sealed against shrinking and growing
 *     and has its size; orders that name it, and its UNREGION, come after its MAPPED with OK, which
 *     tells that it is known; UNREGION after every FINISHED and COPIED of those orders;
 *   - a place lies inside its region, a RUN's at a multiple of PLACE_ALIGNMENT; an output's in one
 *     that is writable, and not over another place of that RUN;
 *   - a DOWNLOAD of bytes comes after the COPIED of every UPLOAD to them, an UPLOAD after that of
 *     every DOWNLOAD of them, and either after that of an UPLOAD to the array from a region;
 *   - a slab is not touched by the front between UPLOAD or DOWNLOAD and its COPIED;
 *   - an EXPORT comes when nothing is under way with either of its arrays, and nothing names them
 *     before its EXPORTED. `other` was allocated as exportable, no EXPORT has named it, it has the
 *     size of `array`, and is never an array of a RUN.
 * An EXPORTED with OK tells that the two arrays have exchanged their memory, with its contents: the
 * descriptor is that of `array`'s, which it keeps from then on, whatever writes it.
 * A MAILBOX is memory of the worker's device, which lasts as long as the worker. Workers exchange
 * bytes of arrays through it (server/devices/mailbox.h): each maps it as a region, the one that
 * opened it included. An UNREGION comes when no copy names it. Each DOWNLOAD to it begins at a
 * multiple of CHANNEL_SLOT_BYTES, and has a higher tag than those before it that began there, from
 * whichever worker: bytes that come late, of a worker that was given up, are known by that.
 * A communicator is NCCL's, between this worker and another one, a rank each: rank 0 makes the
 * unique id that rank 1 is given. An EXCHANGE comes after the CONNECTED of both, with OK, to both,
 * and theirs in one order: what the one sends, the other receives. As far as rules go it is a
 * DOWNLOAD of the array that it sends and an UPLOAD to the one that it receives, until its
 * EXCHANGED, which what reads that array waits for. After one that is not OK the two are out of
 * step, and no other ends well. A DISCONNECT is the last order that names a communicator;
 * EXCHANGEs under way are EXCHANGED with INTERNAL, when nothing touches their arrays any more.
 * Numbers of communicators, and tags, are never used twice.
 * A KERNEL is a hint: RUNs that come later are computed faster with it, or, where it cannot be
 * used, as before. What was in its slot is gone. A MEASURE is a RUN as far as rules go: it reads
 * `array` and `other`, and writes `result`. An input with a place is read from
 * there into its array, and an output is written from its array to its place: copies are part of
 * the RUN, overlap with its computation, and its FINISHED comes after the last of them. It writes
 * the input's array so: a RUN behind it that reads that array waits for it. A RUN that does not end
 * OK may have written any part of its outputs, arrays and places, once it has begun a pass. A
 * worker whose device_info says `direct` computes in regions themselves: an input or output with
 * a place has no array there (id 0), and an input with a place is no scratch.
 * A RUN of own planes writes no other plane of its output. An EDGES tells that their edges are
 * there: from then on these may be downloaded, and planes of its input that are not its own may be
 * uploaded; such planes of its output may be at any time. One that the device cannot do at once is
 * FINISHED with UNSUPPORTED, undone.
 * RUNs of one chain, a number of the front's, may begin before those before them have ended, since
 * the device carries out their launches in the order sent; of large ones no more are there at once
 * than make a slice of a job. All of them are of one owner's arrays. Those behind one that does not
 * end OK run all the same: the front discards their results.
 * An array that FAILED, in its ALLOCATE or for want of memory to carry out an UPLOAD to it, stays
 * known: UPLOAD to it is COPIED without a copy, RUN with it is FINISHED with OUT_OF_MEMORY, RELEASE
 * forgets it.
 * When either end closes, the worker exits (status 0) or the front restarts it.
 */
#pragma once

#include "gpu/communicator.h"
#include "gpu/device_info.h"
#include "numerics/measure.h"
#include "numerics/subdomain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_DESCRIPTOR 3 /* of the worker's end, when it starts */

enum channel_type {
    CHANNEL_ARENA = 1,
    CHANNEL_ALLOCATE,
    CHANNEL_UPLOAD,
    CHANNEL_RUN,
    CHANNEL_CANCEL,
    CHANNEL_DOWNLOAD,
    CHANNEL_RELEASE,
    CHANNEL_PING,
    CHANNEL_REGION,
    CHANNEL_UNREGION,
    CHANNEL_MEASURE,
    CHANNEL_KERNEL,
    CHANNEL_EXPORT,
    CHANNEL_MAILBOX,
    CHANNEL_SOCKET,
    CHANNEL_CONNECT,
    CHANNEL_EXCHANGE,
    CHANNEL_DISCONNECT,
    CHANNEL_READY = 64,
    CHANNEL_REFUSED,
    CHANNEL_FAILED,
    CHANNEL_COPIED,
    CHANNEL_PROGRESS,
    CHANNEL_EDGES,
    CHANNEL_FINISHED,
    CHANNEL_PONG,
    CHANNEL_MAPPED,
    CHANNEL_EXPORTED,
    CHANNEL_ALIVE,
    CHANNEL_JOIN,
    CHANNEL_LEAVING,
    CHANNEL_UNIQUE_ID,
    CHANNEL_CONNECTED,
    CHANNEL_EXCHANGED,
    CHANNEL_TYPES
};

#define PLACE_ALIGNMENT 16 /* bytes */

enum { CHANNEL_ALL_WORK, CHANNEL_JOBS_WORK, CHANNEL_DISCONNECTS, CHANNEL_WORKS };

/* Where an array lies in a client's memory. region 0: it does not. */
struct place {
    uint64_t region, offset; /* bytes */
};

/* When something of a RUN went on: from its first part's begin to its last one's end, nanoseconds
 * of CLOCK_MONOTONIC. Both 0: there was none. */
struct channel_span {
    uint64_t begin_ns, end_ns;
};

/* An order to compute, with all that it needs but its block, which follows. */
struct channel_run {
    uint64_t id, owner; /* owner: the uid */
    /* Arrays, as many as the job has; the others 0. Inputs may be the same; an output may be an
     * input, and needs a scratch of its own then. The scratches of one output are its own:
     * job_scratch(); that of the only one may be the only input, where this may be overwritten. */
    uint64_t in[AXIS_COUNT], out[AXIS_COUNT], scratch[AXIS_COUNT];
    uint64_t operand[OPERANDS]; /* arrays, by enum operand; 0: the job has none such */
    /* The job's points lie between so many bytes of each array that are not its own, and as many
     * planes of each operand that is cut (numerics/subdomain.h), where behind a face's may be
     * others. `ahead` is a multiple of PLACE_ALIGNMENT. Both are 0 where the job has places or
     * exported arrays. */
    uint64_t ahead, behind;
    uint64_t probed; /* bytes of the array of probes, of earlier steps, that its values follow */
    struct own_planes own; /* that it computes; it has in[0] and out[0] then, which differ, and no
                              other array and no place */
    /* What it does of its job, of a scheme of several passes; to 0: all. Of a sweep each array has
     * the leg's rows between `ahead` and `behind`, which hold three planes or more. */
    struct leg leg;
    struct place from[AXIS_COUNT], to[AXIS_COUNT]; /* where inputs and outputs lie in regions */
    uint64_t chain;                                /* 0: it is in none */
    uint32_t progress;                             /* 1: send PROGRESS, at most ten a second */
    uint32_t ends_round; /* 1: the RUNs of its chain up to it are likely to come again */
    struct job job;
};

struct channel_message {
    uint32_t bytes;    /* of the record; set as it is sent, as is the version */
    uint16_t version;  /* CHANNEL_VERSION */
    uint16_t type;     /* enum channel_type */
    uint32_t status;   /* FINISHED; MAPPED and EXCHANGED: OK, OUT_OF_MEMORY or INTERNAL; EXPORTED
                          and COPIED of a DOWNLOAD to a region: OK or OUT_OF_MEMORY; CONNECTED: OK
                          or INTERNAL. enum status */
    uint32_t reserved; /* 0 */
    union {
        struct {
            uint64_t bytes;
            uint32_t threads; /* that the worker computes with; 0: one for each of its cores */
        } arena;
        struct {
            uint64_t array, bytes, owner; /* owner: the uid; memory is cleared between owners */
            uint64_t exportable;          /* 1: memory of its own, for an EXPORT */
        } allocate;                       /* FAILED: array */
        struct {
            uint64_t id; /* EXPORTED: id */
            uint64_t array, other;
        } exported;
        struct {
            uint64_t array, offset; /* in the array, bytes */
            uint64_t arena_offset, bytes;
            uint64_t region; /* 0: the arena; else arena_offset is the region's */
            uint64_t tag;
        } copy; /* UPLOAD, DOWNLOAD; COPIED: tag */
        struct channel_run run;
        struct {
            uint64_t id;
            uint64_t array, other;  /* other 0: the array's values; else their distances from its */
            uint64_t result;        /* of plan_measure_bytes(), or more; the array: it begins with
                                       the results of `points` blocks, of which the measure is */
            uint64_t ahead, behind; /* of the points in the arrays: bytes, whole elements */
            uint64_t points, dtype; /* enum dtype */
        } measure;
        struct {
            uint64_t slot, bytes; /* of the image, in a sealed memfd of that size */
        } kernel;
        struct {
            uint64_t region, bytes, writable; /* UNREGION, MAPPED: region */
            uint64_t is_mailbox;              /* 1: memory that workers share; else a client's */
        } region;
        struct {
            uint64_t bytes;
        } mailbox; /* the answer: status OK with a descriptor, or without one another status */
        struct {
            uint64_t number;
            uint64_t rank;                     /* CONNECT: 0 or 1 */
            uint8_t id[COMMUNICATOR_ID_BYTES]; /* UNIQUE_ID; CONNECT of rank 1 */
        } communicator;                        /* DISCONNECT, CONNECTED: number */
        struct {
            uint64_t communicator, tag;
            struct channel_stretch {
                uint64_t array, offset, bytes; /* bytes 0: there is none */
            } sent, received;
        } exchange; /* EXCHANGED: tag */
        struct {
            uint64_t id;        /* CANCEL, RELEASE (of the array), PROGRESS, EDGES, FINISHED */
            uint64_t done;      /* PROGRESS: passes done; FINISHED: passes begun */
            uint64_t device_us; /* FINISHED: time on the device */
            /* FINISHED; copies: of its places. Small arrays that the device's kernels copy are part
             * of `compute`, and of no copy. */
            struct channel_span copy_in, compute, copy_out;
            struct measured measured; /* FINISHED of a MEASURE that is OK */
        } job;
        struct {
            struct device_info info;
        } ready;
        struct {
            char text[200];
        } refused;
        struct {
            char device[48];  /* "NODE/host" */
            char version[16]; /* FDSERVER_VERSION of the node's programs */
        } join;
        struct channel_pong {
            /* Of all that the device has been given, of what belongs to jobs (not the copies
             * between arena and arrays), and of DISCONNECTs, how many are under way, and how many
             * have ended. No EXCHANGE is among them, which waits for another worker. 0 where the
             * worker sees for itself how they go on: */
            struct channel_work {
                uint64_t under_way, ended;
            } work[CHANNEL_WORKS];
            uint64_t still_us; /* for how long the slowest has not (gpu/backend.h); else 0 */
        } pong;
    } u;
};

enum {
    CHANNEL_VERSION = 13,
    CHANNEL_PACKET = 32, /* records */
    CHANNEL_PACKET_BYTES = 32 << 10,
    CHANNEL_SLOT_BYTES = 2 << 20,   /* of a mailbox: a GPU's grain */
    CHANNEL_KERNEL_BYTES = 8 << 20, /* of an image, at most */
    CHANNEL_HEAD_BYTES = offsetof(struct channel_message, u),
    CHANNEL_RUN_BYTES = CHANNEL_HEAD_BYTES + sizeof(struct channel_run)
};

/* BROKEN: what came is no packet of whole records of this version; the other end is not to be
 * trusted any more. */
enum channel_result { CHANNEL_OK, CHANNEL_AGAIN, CHANNEL_CLOSED, CHANNEL_BROKEN };

/* Send one message without a block, with one descriptor where descriptor ≥ 0. CHANNEL_AGAIN: the
 * socket is full. */
enum channel_result channel_send(int socket, const struct channel_message *message, int descriptor);

/* The packet that came last, whose records are handed out one by one. Zeroed: none has come. */
struct channel_inbox {
    _Alignas(uint64_t) uint8_t packet[CHANNEL_PACKET_BYTES];
    uint32_t at, bytes;   /* the next record, and the packet's end */
    const uint8_t *block; /* what came behind the RUN that was handed out last, */
    uint32_t block_bytes;
};

/* Receive one message. *descriptor is −1 or one that the caller owns. */
enum channel_result channel_receive(int socket, struct channel_inbox *inbox,
                                    struct channel_message *message, int *descriptor);
/* Will channel_receive() hand out another without a look at the socket? */
bool channel_inbox_holds(const struct channel_inbox *inbox);

/* A copy of the block, of `bytes`, of the RUN or KERNEL that was handed out last, with its
 * descriptor (not taken): *block is the caller's to free, NULL where bytes is 0 or there is no
 * memory. Returns what rule the message breaks, or NULL. */
const char *channel_block(const struct channel_inbox *inbox, int descriptor, uint64_t bytes,
                          uint8_t **block);

/* A memfd with the bytes that nobody can change any more; −1: there is none to be had. */
int channel_sealed(const uint8_t *block, uint64_t bytes);

/* Copy a message as it is sent, without a block. Returns its bytes. */
uint32_t channel_complete(struct channel_message *to, const struct channel_message *message);
/* Is it a message of this version, of so many bytes without a block? */
bool channel_is_whole(const struct channel_message *message, uint32_t bytes);

/* Messages on their way out, in order: senders queue them here, and one flush a
 * turn of the loop sends all of it in few packets. Grows as needed, until all is sent: each end's
 * records are bounded by the jobs and slabs of the front (device_array()). */
struct channel_queue {
    struct channel_queued {
        struct channel_message message;
        uint64_t block_bytes;
        const uint8_t *block; /* borrowed */
        int descriptor;       /* −1, or owned */
    } * items;
    uint32_t first, count, capacity;
    uint64_t pushed; /* so many ever; the last `count` of them have not been sent */
};
/* Keep a message. A RUN's block, of job.more.block_bytes, stays as it is until the RUN has been
 * sent or the queue is freed; else NULL. A descriptor ≥ 0 is taken over, and closed once it is
 * sent. False: no memory. */
bool channel_queue_push(struct channel_queue *queue, const struct channel_message *message,
                        const uint8_t *block, int descriptor);
/* Send what waits. CHANNEL_AGAIN: the socket is full, or there is no descriptor for a long block,
 * and some still waits. */
enum channel_result channel_queue_flush(struct channel_queue *queue, int socket);
void channel_queue_free(struct channel_queue *queue);
