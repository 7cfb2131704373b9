/* A request's parameters, and what its inputs turned out to be → a job. */
#ifndef PROTOCOL_REQUEST_JOB_H
#define PROTOCOL_REQUEST_JOB_H

#include "protocol/request.h"

/* The job of an operator whose inputs have `type`: resolves axis numbers, per-axis parameters, cfl
 * to dt, and endpoint into boundaries; then job_check(), and whether f and out_place have the
 * components that the job has. */
bool request_job(const struct request *request, const struct array_type *type, double max_work,
                 struct job *job, struct failure *failure);

#endif
