#include "client/file.h"

#include "client/error.h"
#include "client/json.h"
#include "protocol/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Say which file the error is about. */
static bool about(struct fdclient_error *error, const char *path)
{
    const struct fdclient_error inner = *error;
    return error_set(error, inner.code, inner.parameter, "%.120s: %.130s", path, inner.message);
}

/* All of standard input: read once and kept, since a job may be tried again. */
static bool read_standard_input(struct input *input, struct fdclient_error *error)
{
    static char *data;
    static size_t bytes;
    size_t room = 0;
    ssize_t count = data ? 0 : 1;
    while (count != 0) {
        char *grown = bytes < room ? data : realloc(data, room = room ? 2 * room : 1 << 20);
        data = grown ? grown : data;
        count = grown ? read(STDIN_FILENO, data + bytes, room - bytes) : -1;
        if (count < 0 && (!grown || errno != EINTR))
            return file_error(error, "standard input", strerror(errno));
        bytes += count > 0 ? (size_t)count : 0;
    }
    if (bytes == 0)
        return file_error(error, "standard input", "it is empty");
    input->mapping = data;
    input->mapping_bytes = bytes;
    input->is_kept = true;
    return true;
}

static bool map_file(struct input *input, const char *path, struct fdclient_error *error)
{
    if (strcmp(path, "-") == 0)
        return read_standard_input(input, error);
    const int descriptor =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    struct stat status;
    void *mapping = NULL;
    const char *reason = NULL;
    if (descriptor < 0)
        return file_error(error, path, strerror(errno));
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        reason = "not a regular file";
    else if (status.st_size == 0)
        reason = "the file is empty";
    else
        mapping = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED)
        reason = strerror(errno);
    close(descriptor);
    if (reason)
        return file_error(error, path, reason);
    input->mapping = mapping;
    input->mapping_bytes = (size_t)status.st_size;
    return true;
}

static bool sidecar_understand(const msgpack_object *object, const char *path,
                               struct fdclient_array *array, bool dtype_given,
                               struct fdclient_error *error)
{
    const msgpack_object *shape = object_find(object, "shape"),
                         *dtype = object_find(object, "dtype");
    if (!shape || !shape_from_list(shape, array))
        return file_error(error, path, "\"shape\" must be a list of 1 to 8 whole numbers");
    if (!dtype || dtype_given)
        return true;
    return dtype_read(object_quote(dtype).text, &array->dtype) ||
           file_error(error, path, "\"dtype\" must be \"float32\" or \"float64\"");
}

enum { SIDECAR_BYTES = 4096 };

/* PATH.json, where there is one. *found says so. */
static bool sidecar_read(const char *path, struct fdclient_array *array, bool dtype_given,
                         bool *found, struct fdclient_error *error)
{
    char name[4096], text[SIDECAR_BYTES];
    *found = false;
    if (snprintf(name, sizeof name, "%s.json", path) >= (int)sizeof name)
        return true;
    FILE *file = fopen(name, "re");
    if (!file)
        return errno == ENOENT || file_error(error, name, strerror(errno));
    const size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    if (length == sizeof text)
        return file_error(error, name, "too long to be the description of a field");
    *found = true;
    msgpack_zone *zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    msgpack_object object;
    const char *reason;
    const bool read = json_read(text, length, zone, &object, &reason)
                          ? sidecar_understand(&object, name, array, dtype_given, error)
                          : file_error(error, name, reason);
    msgpack_zone_free(zone);
    return read;
}

static bool cube_guess(const char *path, uint64_t bytes, struct fdclient_array *array,
                       struct fdclient_error *error)
{
    const uint64_t points = bytes / dtype_bytes(array->dtype);
    uint64_t n = 1;
    while (n < 1 << 20 && n * n * n < points)
        n++;
    if (bytes % dtype_bytes(array->dtype) != 0 || n * n * n != points)
        return error_set(error, "USAGE", "--shape",
                         "%.100s has %llu bytes, which is no %s cube: give --shape, or %.60s.json",
                         path, (unsigned long long)bytes, dtype_text(array->dtype), path);
    array->dimensions = 3;
    array->shape[0] = array->shape[1] = array->shape[2] = n;
    return true;
}

static bool type_find(struct input *input, const char *path, const char *shape, const char *dtype,
                      struct fdclient_error *error)
{
    struct fdclient_array given = {.dtype = FDCLIENT_F32, .data = input->mapping};
    if (dtype && !dtype_read(dtype, &given.dtype))
        return error_set(error, "USAGE", "--dtype", "must be float32 or float64; got '%.60s'",
                         dtype);
    if (shape && !shape_read(shape, &given))
        return error_set(error, "USAGE", "--shape",
                         "must be up to %d whole numbers such as 64,64,64; got '%.60s'",
                         FDCLIENT_DIMENSIONS, shape);
    input->is_npy = npy_is_name(path) || npy_is(input->mapping, input->mapping_bytes);
    if (input->is_npy) {
        if (!npy_read(input->mapping, input->mapping_bytes, &input->array, error))
            return about(error, path);
        if (dtype && given.dtype != input->array.dtype)
            return error_set(error, "USAGE", "--dtype", "%.100s says %s itself", path,
                             dtype_text(input->array.dtype));
        if (shape &&
            (given.dimensions != input->array.dimensions ||
             memcmp(given.shape, input->array.shape, given.dimensions * sizeof *given.shape)))
            return error_set(error, "USAGE", "--shape", "%.100s has a shape of its own", path);
        return true;
    }
    bool found = shape != NULL;
    input->array = given;
    if (!found && strcmp(path, "-") != 0 &&
        !sidecar_read(path, &input->array, dtype != NULL, &found, error))
        return false;
    if (!found && !cube_guess(path, input->mapping_bytes, &input->array, error))
        return false;
    input->assumed = !found;
    return shape_check(&input->array, input->mapping_bytes, error) || about(error, path);
}

bool input_open(struct input *input, const char *path, const char *shape, const char *dtype,
                struct fdclient_error *error)
{
    memset(input, 0, sizeof *input);
    if (!map_file(input, path, error))
        return false;
    if (type_find(input, path, shape, dtype, error))
        return true;
    input_close(input);
    return false;
}

void input_close(struct input *input)
{
    if (input->mapping && !input->is_kept)
        munmap(input->mapping, input->mapping_bytes);
    memset(input, 0, sizeof *input);
}
