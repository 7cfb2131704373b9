/* What a job would take, without running it or holding anything for it. */
#pragma once

#include "protocol/request.h"

struct jobs;
struct user;

/* Answer an operator's request with {"bytes", "seconds", "device"}, diffusion's with "dt" and
 * "dt_max", too. A chain's: of all rounds, and with "ops", a map for each link: the "seconds" of
 * one round without copies, diffusion's with "dt" and "dt_max". False with the failure set where
 * the job itself would be refused for what it is; whether there is room for it now is not looked
 * at. Fills in the types of resident operands, and what links take of one another. */
bool dry_run(struct jobs *jobs, struct user *user, struct request *request, msgpack_packer *packer,
             struct failure *failure);
