/* What `info`, `stats` and `list` say. The fields are documented in protocol/PROTOCOL.md. */
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include <msgpack.h>

struct server;
struct user;

void report_info(msgpack_packer *packer, const struct server *server);
void report_stats(msgpack_packer *packer, const struct server *server, const struct user *user);
void report_fields(msgpack_packer *packer, const struct server *server, const struct user *user);

#endif
