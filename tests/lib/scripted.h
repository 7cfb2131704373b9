/* A server that is a thread of the test and says exactly what the test's script wants: for
 * libfdclient against replies in every cut, and against lies. A script runs in the server's thread;
 * what it could not do fails the test in scripted_end(). */
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

/* Start the server, of which there is one at a time, and connect to it. */
struct fdclient *scripted_begin(void (*script)(struct scripted *), size_t piece);

/* Close the client, end the server, and check that its script did all that it wanted. NULL: the
 * client was closed before, maybe under the script. */
void scripted_end(struct fdclient *client);

/* A test's setup: arrays go through regions; and its teardown: over the socket again. */
int scripted_by_regions(void **state);
int scripted_by_socket(void **state);

/* --- for scripts ----------------------------------------------------------------------------- */

/* Read one request; the script destroys it. Descriptors that come with it are lost. */
bool scripted_hear(struct scripted *s, msgpack_unpacked *request);

/* Read n requests and forget them: the client's ids are 1, 2, 3 … */
void scripted_skip(struct scripted *s, int n);

void scripted_say(struct scripted *s, const void *bytes, size_t length);

/* Begin messages of the script's own, which scripted_flush() says. */
msgpack_packer *scripted_write(struct scripted *s);
void scripted_flush(struct scripted *s);

/* The same: [1, id, nil, a map of one element, whose key this is. */
msgpack_packer *scripted_reply(struct scripted *s, uint64_t id, const char *key);

/* The same: [1, id, nil, {"out": an array of that type up to its data. */
msgpack_packer *scripted_out(struct scripted *s, uint64_t id, const struct array_type *type);

/* {"region": id} */
void scripted_say_region(struct scripted *s, uint64_t id);

/* n float32 */
struct array_type scripted_type(uint64_t n);

/* A whole reply: an array of n float32 whose bytes depend on the id; and is this that array? */
void scripted_say_array(struct scripted *s, uint64_t id, uint64_t n);
void scripted_check_array(const struct fdclient_result *result, uint64_t id, uint64_t n);
uint8_t scripted_byte(uint64_t id, size_t i);
