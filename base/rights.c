#include "base/rights.h"

#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t rights_send(int socket, struct iovec *pieces, size_t count, int descriptor)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof descriptor)];
    } control = {0};
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = count};
    if (descriptor >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(c), &descriptor, sizeof descriptor);
    }
    ssize_t n;
    do
        n = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

ssize_t rights_receive_pieces(int socket, struct iovec *pieces, size_t count, int flags,
                              size_t most, struct rights *rights)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof rights->descriptors)];
    } control;
    struct msghdr header = {.msg_iov = pieces,
                            .msg_iovlen = count,
                            .msg_control = control.bytes,
                            .msg_controllen = most ? CMSG_LEN(most * sizeof(int)) : 0};
    ssize_t n;
    rights->count = 0;
    do
        n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | flags);
    while (n < 0 && errno == EINTR);
    rights->flags = n < 0 ? 0 : header.msg_flags;
    if (n < 0)
        return n;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t size = c->cmsg_len - CMSG_LEN(0);
        memcpy(rights->descriptors + rights->count, CMSG_DATA(c), size);
        rights->count += size / sizeof(int);
    }
    return n;
}

ssize_t rights_receive(int socket, void *bytes, size_t length, int flags, int *descriptor)
{
    struct iovec piece = {bytes, length};
    struct rights rights;
    const ssize_t n = rights_receive_pieces(socket, &piece, 1, flags, RIGHTS_MOST, &rights);
    const bool fits = rights.count <= 1 && !(rights.flags & (MSG_TRUNC | MSG_CTRUNC));
    *descriptor = fits && rights.count ? rights.descriptors[0] : -1;
    if (fits)
        return n;
    while (rights.count)
        close(rights.descriptors[--rights.count]);
    errno = EMSGSIZE;
    return -1;
}

int rights_memfd(const char *name, uint64_t bytes)
{
    const int memfd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0 || (ftruncate(memfd, (off_t)bytes) == 0 &&
                      fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0))
        return memfd;
    const int error = errno;
    close(memfd);
    errno = error;
    return -1;
}

void *rights_memory(const char *name, uint64_t bytes, int *memfd)
{
    *memfd = rights_memfd(name, bytes);
    if (*memfd < 0)
        return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *memfd, 0);
    if (memory != MAP_FAILED)
        return memory;
    const int error = errno;
    close(*memfd);
    *memfd = -1;
    errno = error;
    return NULL;
}

void rights_unmap(void *memory, uint64_t bytes)
{
    enum { PIECE_BYTES = 8 << 20 };
    for (uint64_t done = 0; done < bytes; done += PIECE_BYTES) {
        const uint64_t left = bytes - done;
        munmap((uint8_t *)memory + done, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
}

bool rights_sealed(int descriptor, int seals, uint64_t bytes)
{
    struct stat stat;
    const int sealed = descriptor < 0 ? -1 : fcntl(descriptor, F_GET_SEALS);
    return sealed >= 0 && (sealed & seals) == seals && fstat(descriptor, &stat) == 0 && bytes > 0 &&
           (uint64_t)stat.st_size == bytes;
}

int rights_thread(void *(*run)(void *), int *outlet, const char *purpose)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        log_error("socketpair: %s", strerror(errno));
        return -1;
    }
    *outlet = ends[1];
    if (!thread_start(run, NULL)) {
        log_error("no thread to %s", purpose);
        return -1;
    }
    return ends[0];
}

bool rights_own_table(int keep)
{
    if (close_range((unsigned)keep + 1, UINT_MAX, CLOSE_RANGE_UNSHARE) != 0)
        return false;
    if (keep > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)keep - 1, 0);
    return true;
}
