/* Addresses of the network, as options have them. */
#pragma once

#include <netdb.h>

/* Look "HOST:PORT" up, as getaddrinfo() does with these hints; no HOST: any of this machine's,
 * where they are passive. NULL: *found is the caller's to free; else why it cannot be. */
const char *address_find(const char *address, const struct addrinfo *hints,
                         struct addrinfo **found);
