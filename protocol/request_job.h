/* A request's parameters and the type of its inputs → a job. */
#pragma once

#include "protocol/request.h"

/* The job of an operator whose inputs have `type`, and the block that goes with it: resolves axis
 * numbers, per-axis parameters, cfl to dt, endpoint into boundaries, and numbers into the block;
 * then job_check(), and whether f, out_place and the operands are what the job has. The types of
 * resident operands must have been filled in (request.operand).
 * *block: job.more.block_bytes bytes, free() it; NULL: the job has none, or it failed.
 * Where job_measures(), the time step is not judged yet and job.dt is 0 or what was given:
 * request_job_measured() follows. */
bool request_job(const struct request *request, const struct array_type *type, double max_work,
                 struct job *job, uint8_t **block, struct failure *failure);

/* The array that was given for an operand of the request's job (enum operand); NULL: it has none.
 */
const struct array *request_job_operand(const struct request *request, const struct job *job,
                                        int operand);

/* Does a limit of the job depend on the numbers of its field κ? */
bool job_measures(const struct job *job);

/* The other half for such a job: its field κ has these as its least and largest numbers (NaN, where
 * one of them is NaN), and cfl is the request's (0: dt was given). Sets dt and
 * more.coefficient_max, then job_check(). */
bool request_job_measured(struct job *job, double cfl, double least, double largest,
                          double max_work, struct failure *failure);
