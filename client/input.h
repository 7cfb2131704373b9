/* A file with a field in it, mapped. */
#pragma once

#include "client/fdclient.h"

#include <stdbool.h>
#include <stddef.h>

struct input {
    struct fdclient_array array; /* its data lies in the mapping */
    bool is_npy;
    bool assumed; /* the shape: the size is that of a cube and nothing else told it */
    bool is_kept; /* standard input: not unmapped */
    void *mapping;
    size_t mapping_bytes;
};

/* Map the field in `path`, or read it from standard input where that is "-". Its shape comes from
 * the file (.npy), else from `shape`, else from the sidecar PATH.json ({"shape": […], "dtype":
 * "float32"}), else the size must be that of a cube. dtype and shape may be NULL. Codes of errors:
 * "FILE", "USAGE". */
bool input_open(struct input *input, const char *path, const char *shape, const char *dtype,
                struct fdclient_error *error);
void input_close(struct input *input);
