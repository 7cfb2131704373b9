/* Every way that a request can fail, once: the server, the workers, the clients and PROTOCOL.md all
 * speak of this list. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

/* X(enumerator, wire name, may the same request succeed later without change?, what it means) */
#define STATUS_LIST(X)                                                                             \
    X(STATUS_OK, "OK", false, "success")                                                           \
    X(STATUS_INVALID_ARGUMENT, "INVALID_ARGUMENT", false, "a parameter is missing or wrong")       \
    X(STATUS_UNKNOWN_METHOD, "UNKNOWN_METHOD", false, "no method has that name")                   \
    X(STATUS_PROTOCOL, "PROTOCOL", false, "the bytes are not a well-formed request")               \
    X(STATUS_NOT_FOUND, "NOT_FOUND", false, "no field or region of yours has that id")             \
    X(STATUS_TOO_LARGE, "TOO_LARGE", false, "over a limit that waiting does not change")           \
    X(STATUS_UNSTABLE, "UNSTABLE", false, "the time step is over the stability limit")             \
    X(STATUS_UNSUPPORTED, "UNSUPPORTED", false, "well-formed, and not offered")                    \
    X(STATUS_CANCELLED, "CANCELLED", false, "cancelled before it was done")                        \
    X(STATUS_TIMEOUT, "TIMEOUT", false, "not done in the time allowed")                            \
    X(STATUS_FIELD_LOST, "FIELD_LOST", false,                                                      \
      "the field was lost with its device's worker, or left half-written")                         \
    X(STATUS_INTERNAL, "INTERNAL", false, "a fault of the server")                                 \
    X(STATUS_DEVICE_LOST, "DEVICE_LOST", true, "the device's worker ended while it held this job") \
    X(STATUS_OVER_BUDGET, "OVER_BUDGET", true, "memory is in use; free fields or wait")            \
    X(STATUS_QUEUE_FULL, "QUEUE_FULL", true, "too many jobs wait already")                         \
    X(STATUS_OUT_OF_MEMORY, "OUT_OF_MEMORY", true, "there is no memory for it now")                \
    X(STATUS_SHUTTING_DOWN, "SHUTTING_DOWN", true, "the server is draining")

#define STATUS_ENUMERATOR(enumerator, name, retryable, text) enumerator,
enum status { STATUS_LIST(STATUS_ENUMERATOR) STATUS_COUNT };
#undef STATUS_ENUMERATOR

/* The name on the wire, such as "OVER_BUDGET"; "INTERNAL" for a value outside the list. */
const char *status_name(enum status status);

/* What the status means, in a short phrase. */
const char *status_text(enum status status);

/* May the same request succeed later without being changed? */
bool status_retryable(enum status status);

/* The status with that wire name (length bytes, not terminated); STATUS_INTERNAL where unknown. */
enum status status_from_name(const char *name, uint32_t length);

/* One failed request. All memory is inside, so it can be copied and outlives its origin. */
struct failure {
    enum status code;   /* STATUS_OK: nothing failed */
    bool has_need;      /* need and limit are meaningful */
    double need;        /* what the request asked for: bytes, jobs, points, or a time step */
    double limit;       /* what it may have, in the same unit */
    char parameter[48]; /* the parameter at fault as the wire spells it; "" where none is */
    char message[208];  /* a sentence for a person */
};

/* Describe a failure; a second one does not overwrite the first (the first is the cause).
 * parameter may be NULL. Always returns false, so that a check can end with `return
 * failure_set(…)`. */
__attribute__((format(printf, 4, 5))) bool failure_set(struct failure *failure, enum status code,
                                                       const char *parameter, const char *format,
                                                       ...);

/* The same with what was asked for and what is allowed. */
__attribute__((format(printf, 6, 7))) bool failure_set_limit(struct failure *failure,
                                                             enum status code,
                                                             const char *parameter, double need,
                                                             double limit, const char *format, ...);

/* A parameter and the part of it that is at fault, "spacing y", as the two above take it. part
 * NULL: the parameter alone. */
struct failure_place {
    char text[48];
};
struct failure_place failure_place(const char *parameter, const char *part);

__END_DECLS
