/* A server that is a thread of the test and says exactly what the test's script wants: for
 * libfdclient against replies in every cut, and against lies. A script runs in the server's thread;
 * what it could not do fails the test in scripted_end(). */
#ifndef TESTS_LIB_SCRIPTED_H
#define TESTS_LIB_SCRIPTED_H

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
    bool leaves; /* the script's end is the connection's, else the client closes first */
    bool failed; /* the script could not read or write what it wanted */
};

/* Start the server and connect to it. */
struct fdclient *scripted_begin(struct scripted *s, void (*script)(struct scripted *),
                                size_t piece);

/* Close the client, end the server, and check that its script did all that it wanted. */
void scripted_end(struct scripted *s, struct fdclient *client);

/* --- for scripts ----------------------------------------------------------------------------- */

/* Read one request; the script destroys it. Descriptors that come with it are lost. */
bool scripted_hear(struct scripted *s, msgpack_unpacked *request);

/* Read n requests and forget them: the client's ids are 1, 2, 3 … */
void scripted_skip(struct scripted *s, int n);

void scripted_say(struct scripted *s, const void *bytes, size_t length);

/* The same, and destroy the buffer. */
void scripted_say_buffer(struct scripted *s, msgpack_sbuffer *buffer);

/* [1, id, nil, {"out": an array of that type up to its data. */
void scripted_out_begin(msgpack_sbuffer *buffer, msgpack_packer *packer, uint64_t id,
                        const struct array_type *type);

/* A whole reply: an array of n float32 whose bytes depend on the id; and is this that array? */
void scripted_say_array(struct scripted *s, uint64_t id, uint64_t n);
void scripted_check_array(const struct fdclient_result *result, uint64_t id, uint64_t n);
uint8_t scripted_byte(uint64_t id, size_t i);

#endif
