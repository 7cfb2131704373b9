/* Sockets that are closed with a descriptor in them, of a user with too many waiting closes. */
#include "base/rights.h"
#include "server/users/descriptors.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int __real_close(int descriptor);
int __wrap_close(int descriptor);

static int ends[2] = {-1, -1}, inside[2];
static ssize_t left; /* after our own close: what comes from the descriptor inside, */
static int error;    /* and its errno */

/* Our own close is late: after the kernel's collector would have disposed of the socket. */
int __wrap_close(int descriptor)
{
    if (descriptor != ends[0])
        return __real_close(descriptor);
    char byte;
    usleep(300000);
    const int result = __real_close(descriptor);
    left = recv(inside[1], &byte, 1, MSG_DONTWAIT);
    error = errno;
    return result;
}

TEST(our_own_close_is_never_the_last_one)
{
    char byte = 0;
    struct passing_account account = {.awaiting = 17}; /* more than a quarter of 64 */
    assert_true(passing_open(64));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, inside), 0);
    assert_int_equal(rights_send(ends[1], &(struct iovec){&byte, 1}, 1, inside[0]), 1);
    __real_close(inside[0]);
    passing_close_socket(ends[0], &account);
    assert_true(left == -1 && error == EAGAIN);        /* it was still open elsewhere, … */
    assert_int_equal(recv(inside[1], &byte, 1, 0), 0); /* and is closed there */
}
