#include "server/devices/kernel_files.h"

#include "base/log.h"
#include "base/rights.h"
#include "base/sha256.h"
#include "gpu/compile/compiler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t IMAGE_MOST = sizeof(struct kernel_image) + COMPILER_CODE_BYTES;

bool kernel_files_open(const char *folder)
{
    struct stat found;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        log_warning("--kernel-cache %s: %s", folder, strerror(errno));
        return false;
    }
    if (stat(folder, &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & (S_IWGRP | S_IWOTH))) {
        log_warning("--kernel-cache %s: it must be a folder of the server's user that nobody else "
                    "may write; kernels are not kept",
                    folder);
        return false;
    }
    return true;
}

static void write_hex(const uint8_t digest[SHA256_BYTES], char text[KERNEL_FILE_NAME])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

bool kernel_file_name(const struct kernel_key *key, uint32_t architecture, uint32_t nvrtc,
                      char name[KERNEL_FILE_NAME])
{
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    const uint32_t others[] = {architecture, nvrtc};
    char *text = malloc(KERNEL_SOURCE_BYTES);
    const size_t bytes = text ? kernel_source(key, KERNEL_ASKED, text, KERNEL_SOURCE_BYTES) : 0;
    if (bytes) {
        sha256_init(&hash);
        sha256_add(&hash, others, sizeof others);
        sha256_add(&hash, kernel_header, strlen(kernel_header) + 1);
        sha256_add(&hash, text, bytes + 1);
        sha256_end(&hash, digest);
        write_hex(digest, name);
    }
    free(text);
    return bytes > 0;
}

static bool read_all(int file, void *to, uint64_t bytes)
{
    ssize_t n;
    for (uint64_t done = 0; done < bytes; done += (uint64_t)n)
        if ((n = read(file, (char *)to + done, bytes - done)) <= 0)
            return false;
    return true;
}

static bool write_all(int file, const void *from, uint64_t bytes)
{
    ssize_t n;
    for (uint64_t done = 0; done < bytes; done += (uint64_t)n)
        if ((n = write(file, (const char *)from + done, bytes - done)) <= 0)
            return false;
    return true;
}

static void digest_of(const uint8_t *image, uint64_t bytes, uint8_t digest[SHA256_BYTES])
{
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, image, bytes);
    sha256_end(&hash, digest);
}

/* The image in an open file; NULL: it is broken, or another's. */
static uint8_t *read_image(int file, const struct kernel_key *key, uint64_t *bytes)
{
    struct stat found;
    uint8_t written[SHA256_BYTES], digest[SHA256_BYTES];
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != geteuid() ||
        found.st_size <= (off_t)(SHA256_BYTES + sizeof(struct kernel_image)) ||
        (uint64_t)found.st_size > SHA256_BYTES + IMAGE_MOST)
        return NULL;
    *bytes = (uint64_t)found.st_size - SHA256_BYTES;
    uint8_t *image = malloc(*bytes);
    bool good = image && read_all(file, written, sizeof written) && read_all(file, image, *bytes);
    if (good) {
        digest_of(image, *bytes, digest);
        good = memcmp(digest, written, sizeof digest) == 0 && memcmp(image, key, sizeof *key) == 0;
    }
    if (!good) {
        free(image);
        return NULL;
    }
    return image;
}

uint8_t *kernel_file_read(const char *folder, const char *name, const struct kernel_key *key,
                          uint64_t *bytes)
{
    uint8_t *image = NULL;
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int file = directory < 0
                         ? -1
                         : openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0) {
        image = read_image(file, key, bytes);
        if (image)
            futimens(file, NULL); /* used: the longest unused go first */
        else
            log_warning("--kernel-cache: %s is broken and is made again", name);
        close(file);
    }
    rights_close(directory);
    return image;
}

/* The contents of the folder, and the file in it that was used longest ago. */
struct census {
    uint64_t bytes, files;
    struct timespec used;
    char oldest[KERNEL_FILE_NAME + 8];
};

static bool is_older(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* Is it one of ours, whole or not? The folder may have others. */
static bool is_kernel(const char *name)
{
    const size_t digits = strspn(name, "0123456789abcdef");
    return digits == 2 * SHA256_BYTES && (!name[digits] || strcmp(name + digits, ".part") == 0);
}

static struct census count_files(DIR *listing)
{
    struct census census = {0};
    const struct dirent *entry;
    rewinddir(listing);
    while ((entry = readdir(listing))) {
        struct stat found;
        if (!is_kernel(entry->d_name) ||
            fstatat(dirfd(listing), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(found.st_mode))
            continue;
        if (!census.files || is_older(found.st_mtim, census.used)) {
            census.used = found.st_mtim;
            memcpy(census.oldest, entry->d_name, strlen(entry->d_name) + 1);
        }
        census.files++;
        census.bytes += (uint64_t)found.st_size;
    }
    return census;
}

static void make_room(int directory, uint64_t bytes)
{
    const int copy = dup(directory);
    DIR *listing = copy < 0 ? NULL : fdopendir(copy);
    if (!listing) {
        rights_close(copy);
        return;
    }
    for (struct census census = count_files(listing);
         census.files &&
         (census.bytes + bytes > KERNEL_FILES_BYTES || census.files >= KERNEL_FILES_MOST);
         census = count_files(listing))
        if (unlinkat(directory, census.oldest, 0) != 0)
            break;
    closedir(listing);
}

static bool write_image(int directory, const char *name, const uint8_t *image, uint64_t bytes)
{
    uint8_t digest[SHA256_BYTES];
    char part[KERNEL_FILE_NAME + 8];
    snprintf(part, sizeof part, "%s.part", name);
    digest_of(image, bytes, digest);
    unlinkat(directory, part, 0);
    const int file = openat(directory, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    bool good = write_all(file, digest, sizeof digest) && write_all(file, image, bytes);
    good = close(file) == 0 && good && renameat(directory, part, directory, name) == 0;
    if (!good)
        unlinkat(directory, part, 0);
    return good;
}

void kernel_file_write(const char *folder, const char *name, const uint8_t *image, uint64_t bytes)
{
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0)
        make_room(directory, bytes);
    if (directory < 0 || !write_image(directory, name, image, bytes))
        log_warning("--kernel-cache %s: a kernel cannot be kept: %s", folder, strerror(errno));
    rights_close(directory);
}

void kernel_file_remove(const char *folder, const char *name)
{
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return;
    unlinkat(directory, name, 0);
    close(directory);
}
