#include "base/address.h"

#include <stdbool.h>
#include <string.h>

const char *address_find(const char *address, const struct addrinfo *hints, struct addrinfo **found)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    const size_t length = colon ? (size_t)(colon - address) : sizeof host;
    if (length >= sizeof host)
        return "it is no HOST:PORT";
    memcpy(host, address, length);
    host[length] = 0;
    if (length > 1 && host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = 0;
        memmove(host, host + 1, length - 1);
    }
    const bool is_any = length == 0 && hints->ai_flags & AI_PASSIVE;
    const int error = getaddrinfo(is_any ? NULL : host, colon + 1, hints, found);
    return error ? gai_strerror(error) : NULL;
}
