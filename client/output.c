#include "client/file.h"

#include "base/rights.h"
#include "client/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Where the extension of a path begins: its last dot, or its end. */
static size_t stem_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    return dot && dot > base ? (size_t)(dot - path) : strlen(path);
}

char *output_name(const char *path, const char *operator_name)
{
    const size_t stem = stem_of(path);
    char *name;
    if (asprintf(&name, "%.*s.%s%s", (int)stem, path, operator_name,
                 path[stem] ? path + stem : ".bin") < 0)
        return NULL;
    return name;
}

char *output_vector_name(const char *path)
{
    char *name = strdup(path);
    const size_t stem = stem_of(path);
    if (name && stem > 2 && memcmp(path + stem - 2, ".x", 2) == 0 && path[stem - 3] != '/')
        memmove(name + stem - 2, name + stem, strlen(path + stem) + 1);
    return name;
}

/* The file to replace: what a symbolic link points to, not the link. NULL where memory is short. */
static char *real_place(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : strdup(path);
}

static bool is_device(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* Does its name promise what is not written here? */
static bool is_other_format(const char *path)
{
    static const char *const names[] = {".png", ".jpg",  ".jpeg", ".gif", ".tif", ".tiff", ".bmp",
                                        ".svg", ".pdf",  ".eps",  ".csv", ".txt", ".json", ".h5",
                                        ".nc",  ".hdf5", ".npz",  ".mat", ".vtk", ".vti",  ".xlsx"};
    const char *ending = path + stem_of(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(ending, names[i]) == 0)
            return true;
    return false;
}

bool output_check(const char *path, struct fdclient_error *error)
{
    struct stat status;
    if (strcmp(path, "-") == 0)
        return true;
    if (is_other_format(path))
        return error_set(error, "USAGE", "--output",
                         "what can be written is .npy, plain numbers (.bin, or any ending that is "
                         "no other format's) and - for standard output; got '%.100s'",
                         path);
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return file_error(error, path, strerror(EISDIR));
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return access(path, W_OK) == 0 || file_error(error, path, strerror(errno));
    char *place = real_place(path);
    if (!place)
        return file_error(error, path, strerror(ENOMEM));
    char *slash = strrchr(place, '/');
    if (slash)
        slash[slash == place] = '\0';
    const bool can = access(slash ? place : ".", W_OK | X_OK) == 0;
    const int reason = errno;
    free(place);
    return can || file_error(error, path, strerror(reason));
}

static bool write_all(int descriptor, const struct iovec *parts, int count)
{
    for (int i = 0; i < count; i++)
        for (size_t done = 0; done < parts[i].iov_len;) {
            const ssize_t written =
                write(descriptor, (const char *)parts[i].iov_base + done, parts[i].iov_len - done);
            if (written < 0 && errno != EINTR)
                return false;
            done += written > 0 ? (size_t)written : 0;
        }
    return true;
}

/* The mode that open() would give a new file, or the mode of the file that is replaced. */
static mode_t mode_for(const char *place)
{
    struct stat status;
    if (stat(place, &status) == 0)
        return status.st_mode & 0777;
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static bool replace_file(const char *path, const struct iovec *parts, int count,
                         struct fdclient_error *error)
{
    char *place = real_place(path), *temporary = NULL;
    if (!place || asprintf(&temporary, "%s.XXXXXX", place) < 0) {
        free(place);
        return file_error(error, path, strerror(ENOMEM));
    }
    const int descriptor = mkostemp(temporary, O_CLOEXEC);
    const bool written = descriptor >= 0 && fchmod(descriptor, mode_for(place)) == 0 &&
                         write_all(descriptor, parts, count);
    int reason = errno;
    const bool closed = descriptor >= 0 && close(descriptor) == 0;
    const bool good = written && closed && rename(temporary, place) == 0;
    if (written && !good)
        reason = errno;
    if (descriptor >= 0 && !good)
        unlink(temporary);
    free(temporary);
    free(place);
    return good || file_error(error, path, strerror(reason));
}

static bool write_device(const char *path, const struct iovec *parts, int count,
                         struct fdclient_error *error)
{
    const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    const bool good = descriptor >= 0 && write_all(descriptor, parts, count);
    const int reason = errno;
    rights_close(descriptor);
    return good || file_error(error, path, strerror(reason));
}

static bool sidecar_write(const char *path, const struct fdclient_array *array,
                          struct fdclient_error *error)
{
    char text[256], shape[SHAPE_TEXT_BYTES], *name;
    const int length = snprintf(text, sizeof text, "{\"shape\": [%s], \"dtype\": \"%s\"}\n",
                                shape_text(array->dimensions, array->shape, ", ", shape),
                                dtype_text(array->dtype));
    if (asprintf(&name, "%s.json", path) < 0)
        return file_error(error, path, strerror(ENOMEM));
    const bool written = replace_file(name, &(struct iovec){text, (size_t)length}, 1, error);
    free(name);
    return written;
}

bool output_write(const char *path, bool as_npy, const struct fdclient_array *array,
                  struct fdclient_error *error)
{
    char header[NPY_HEADER_BYTES];
    const struct iovec parts[] = {{header, as_npy ? npy_write(array, header) : 0},
                                  {(void *)(uintptr_t)array->data, (size_t)shape_bytes(array)}};
    if (strcmp(path, "-") == 0)
        return write_all(STDOUT_FILENO, parts, 2) ||
               file_error(error, "standard output", strerror(errno));
    if (is_device(path))
        return write_device(path, parts, 2, error);
    return replace_file(path, parts, 2, error) && (as_npy || sidecar_write(path, array, error));
}
