/* The server's options: one table makes command line, environment, --help and the manual. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { CONFIG_LISTEN_MAX = 8, CONFIG_NODE_MOST = 31 /* bytes of a node's name */ };

#define CONFIG_BUSY_POLL_AUTO UINT64_MAX /* as server/io/turn.h finds it best */

struct config_list {
    const char *item[CONFIG_LISTEN_MAX];
    int count;
};

#define CONFIG_LIST struct config_list
#define CONFIG_TEXT const char *
#define CONFIG_DEVICES const char *
#define CONFIG_NUMBER uint64_t
#define CONFIG_BYTES uint64_t
#define CONFIG_OCTAL uint64_t
#define OPTION(kind, member, ...) CONFIG_##kind member;
#define ALIAS(...)
struct config {
#include "server/config/options.inc"
};
#undef OPTION
#undef ALIAS

enum { CONFIG_DEVICE_BYTES = 48 };

/* The next device of a --device list, of which *list is what is left: its name, and "host:1" for
 * the second host of this node. *hosts: how many there were. False: there is none. */
bool config_next_device(const char **list, uint32_t *hosts, char name[CONFIG_DEVICE_BYTES]);

/* Read environment and command line. Exits after --help, --version or --manual, and with 2 and a
 * line on stderr for a wrong option. Strings point into argv and the environment. */
void config_read(struct config *config, int argc, char **argv);
