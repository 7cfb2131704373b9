/* Descriptors that pass between processes, or between the tables of threads (SCM_RIGHTS). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* close(), unless it is −1, where there is none. */
static inline void rights_close(int descriptor)
{
    if (descriptor >= 0)
        close(descriptor);
}

/* sendmsg() without waiting; with a descriptor along where that is ≥ 0, which stays the caller's.
 */
ssize_t rights_send(int socket, struct iovec *pieces, size_t count, int descriptor);

enum { RIGHTS_MOST = 253 }; /* descriptors of a message: the kernel's SCM_MAX_FD */

/* What came along with a message. */
struct rights {
    int descriptors[RIGHTS_MOST];
    size_t count;
    int flags; /* MSG_TRUNC, MSG_CTRUNC (a descriptor was lost for want of a free number), … */
};

/* recvmsg() with at most `most` of the descriptors that come along, which are the caller's, closed
 * on exec. */
ssize_t rights_receive_pieces(int socket, struct iovec *pieces, size_t count, int flags,
                              size_t most, struct rights *rights);

/* The same of one packet, for which there must be room, and of one descriptor at most: −1 with
 * EMSGSIZE where there is more, whose beginning is in `bytes`. *descriptor: −1: none came. */
ssize_t rights_receive(int socket, void *bytes, size_t length, int flags, int *descriptor);

/* A memfd of that size, zeroed, which nobody can make shorter or longer, and to which no seal can
 * be added that keeps us from writing; −1 with errno. */
int rights_memfd(const char *name, uint64_t bytes);
/* The same with its memory, mapped to be read and written; NULL with errno, and *memfd is −1. */
void *rights_memory(const char *name, uint64_t bytes, int *memfd);
/* Unmap what others may have mapped, too, in pieces: other threads' calls for memory wait for each
 * call, and of shared memory a call takes some 40 ms for a GiB. */
void rights_unmap(void *memory, uint64_t bytes);

/* Is it a memfd of that size, which is not 0, with these seals (F_SEAL_SHRINK, …)? Then no access
 * to what was mapped of it faults. descriptor < 0: it is not. */
bool rights_sealed(int descriptor, int seals, uint64_t bytes);

/* Start a thread that is given packets and descriptors, which it takes from *outlet. Returns the
 * end that they are sent to; −1: a line of the log says why ("no thread to PURPOSE"). */
int rights_thread(void *(*run)(void *), int *outlet, const char *purpose);

/* From here on this thread has a table of descriptors of its own, with 0 to 2 and `keep` in it.
 * What else it had is closed, as far as the kernel has copied it. False: with errno, nothing has
 * changed. */
bool rights_own_table(int keep);
