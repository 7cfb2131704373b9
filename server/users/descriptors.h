/* The descriptors of the process, and who may have the last of them. The kernel gives out the
 * lowest free number, so the number of a new descriptor shows how full the table is:
 *
 *   0 … what users hold … │ the last eighth: for users who hold none │ the reserve │ limit
 *
 * The reserve makes two things possible at any time: to accept a connection and identify its user,
 * and to start a worker. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct config;
struct users;

/* Raise the limit as far as the options may need, make libuv's table that long (it ends the process
 * where it cannot grow it later), and have no more --max-connections than there can be. False: a
 * line of the log says why. */
bool descriptors_open(struct users *users, uv_loop_t *loop, struct config *config);

/* May a user keep this new descriptor? holds_others: the user has descriptors already. */
bool descriptors_allow(const struct users *users, int descriptor, bool holds_others);

/* Is it one of the reserve? */
bool descriptors_are_few(const struct users *users, int descriptor);
