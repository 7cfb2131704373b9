/* Sockets that are taken over: whose close is the last one. */
#include "server/users/disposal.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int __real_close(int descriptor);
int __wrap_close(int descriptor);

static int ends[2] = {-1, -1};
static ssize_t left; /* after our own close: what the other end receives, */
static int error;    /* and its errno */

/* Our own close comes late: after the collector would have disposed of the socket. */
int __wrap_close(int descriptor)
{
    if (descriptor != ends[0])
        return __real_close(descriptor);
    char byte;
    usleep(300000);
    const int result = __real_close(descriptor);
    left = recv(ends[1], &byte, 1, MSG_DONTWAIT);
    error = errno;
    return result;
}

TEST(our_own_close_is_never_the_last_one)
{
    char byte;
    assert_true(disposal_open());
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_true(disposal_take(ends[0]));
    assert_true(left == -1 && error == EAGAIN);      /* it was still open elsewhere, … */
    assert_int_equal(recv(ends[1], &byte, 1, 0), 0); /* and is closed there */
}
