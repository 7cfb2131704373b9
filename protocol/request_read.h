/* What the readers of a request share, from the value to the whole: request_read.c (values) →
 * request_axes.c (parameters) → request_parameters.c (their table) →
 * request_chain.c → request.c. Only for request*.c. */
#pragma once

#include "protocol/object.h"
#include "protocol/request.h"

/* One parameter's value into the request; false with the failure set. */
typedef bool parameter_reader(const msgpack_object *value, struct request *request,
                              struct failure *failure);

/* "x-", "x+", "y-", … by SIDE_COUNT·axis + side, then "x", "y", "z", "*", NULL. */
extern const char *const request_side_keys[];

/* Is it an ARRAY (and neither a number nor a map by axis)? */
bool request_is_array(const msgpack_object *value);

/* An ARRAY beside f. */
bool request_read_operand(const msgpack_object *value, const char *parameter, struct array *array,
                          struct failure *failure);

/* Append the value (text, a number, a boolean or nil) to an INVALID_ARGUMENT about it that does not
 * show it yet. */
void request_say_given(const msgpack_object *value, struct failure *failure);

/* Have all inputs in regions a type? Of a request that is to be run: is the data of its arrays
 * there? */
bool request_check_inputs(const struct request *request, bool dry_run, struct failure *failure);

/* request_axes.c */
parameter_reader request_read_axis, request_read_spacing, request_read_diffusivity,
    request_read_endpoint, request_read_boundary;

/* request_parameters.c. A request before anything of it is read. */
void request_begin(struct request *request);
/* Its method by that name; of an operator the job with its defaults. */
bool request_find_method(const msgpack_object *name, struct request *request,
                         struct failure *failure);
/* Its parameters, a map or NULL. */
bool request_read_parameters(const msgpack_object *map, struct request *request,
                             struct failure *failure);

/* request_chain.c: request->chain of a chain, or of an operator that is computed as one. A Hessian
 * is only checked: its chain is made when the type of f is known. */
bool request_make_chain(struct request *request, struct failure *failure);

/* request_block.c: the parameters of many numbers, from a request to its job's block. The
 * coordinates that were given for an axis; NULL: none. */
const struct array *request_coordinates(const struct request *request, int axis);

/* The block of a job of arrays of that type, which says how many coordinates there are: sets how
 * many there are of the others, the radius of a stencil, and the block's size and key. *block:
 * free() it; left as it is where the job has none. False with the failure set: it names the
 * parameter whose numbers are wrong. */
bool request_block_make(const struct request *request, const struct array_type *type,
                        struct job *job, uint8_t **block, struct failure *failure);
