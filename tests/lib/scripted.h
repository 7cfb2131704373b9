/* A server that is a thread of the test and sends exactly the bytes of the test's script: to test
 * libfdclient with replies cut anywhere and with false replies. A script runs in the server's
 * thread; its failures fail the test in scripted_end(). */
#pragma once

#include "client/fdclient.h"
#include "protocol/array.h"

#include <msgpack.h>
#include <pthread.h>

struct scripted {
    char folder[32], address[128];
    int listener, peer;
    pthread_t thread;
    void (*script)(struct scripted *);
    size_t piece; /* bytes of one write; 0: all at once */
    msgpack_unpacker unpacker;
    msgpack_sbuffer buffer; /* of the reply that is being written */
    msgpack_packer packer;
    bool leaves; /* the script's end is the connection's, else the client closes first */
    bool failed; /* the script could not read or write what it wanted */
};

/* Start the server and connect to it. There is one at a time. */
struct fdclient *scripted_begin(void (*script)(struct scripted *), size_t piece);

/* Close the client, end the server, and check that its script succeeded. NULL: the client was
 * closed before, possibly during the script. */
void scripted_end(struct fdclient *client);

/* A test's setup: arrays use regions; its teardown: arrays use the socket again. */
int scripted_by_regions(void **state);
int scripted_by_socket(void **state);

/* --- for scripts ----------------------------------------------------------------------------- */

/* Read one request; the script destroys it. Descriptors that come with it are lost. */
bool scripted_hear(struct scripted *s, msgpack_unpacked *request);

/* Read and drop n requests: the client's ids are 1, 2, 3 … */
void scripted_skip(struct scripted *s, int n);

void scripted_say(struct scripted *s, const void *bytes, size_t length);

/* Say a literal; read and drop one request and answer it with a literal. */
#define scripted_say_text(s, text) scripted_say(s, text, sizeof(text) - 1)
#define scripted_answer(s, text) (scripted_skip(s, 1), scripted_say_text(s, text))

/* Begin messages of the script, which scripted_flush() sends. */
msgpack_packer *scripted_write(struct scripted *s);
void scripted_flush(struct scripted *s);

/* The same: [1, id, nil, a map of one element with this key. */
msgpack_packer *scripted_reply(struct scripted *s, uint64_t id, const char *key);

/* The same: [1, id, nil, {"out": an array of that type up to its data. */
msgpack_packer *scripted_out(struct scripted *s, uint64_t id, const struct array_type *type);

/* Add so many bytes of the array of that id, from one of them on. */
void scripted_write_bytes(struct scripted *s, uint64_t id, size_t from, size_t count);

/* {"region": id} */
void scripted_say_region(struct scripted *s, uint64_t id);

/* n float32 */
struct array_type scripted_type(uint64_t n);

/* A whole reply: an array of n float32 whose bytes depend on the id; and a check for that array. */
void scripted_say_array(struct scripted *s, uint64_t id, uint64_t n);
void scripted_check_array(const struct fdclient_result *result, uint64_t id, uint64_t n);

/* The same, as the answer to one request; and as what the client gets. */
void scripted_answer_array(struct scripted *s, uint64_t id, uint64_t n);
void scripted_get_array(struct fdclient *client, uint64_t id, uint64_t n);
uint8_t scripted_byte(uint64_t id, size_t i);
