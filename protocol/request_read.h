/* What the readers of a request share, from the value to the whole: request_read.c (values) →
 * request_axes.c, request_boundary.c (parameters) → request_parameters.c (their table) →
 * request_chain.c → request.c. For the files named request*.c alone. */
#pragma once

#include "protocol/request.h"

/* One parameter's value into the request; false with the failure set. */
typedef bool parameter_reader(const msgpack_object *value, struct request *request,
                              struct failure *failure);

/* request_axes.c */
parameter_reader request_read_axis, request_read_spacing, request_read_diffusivity,
    request_read_endpoint;
/* request_boundary.c */
parameter_reader request_read_boundary;

/* request_parameters.c. A request before anything of it is read. */
void request_begin(struct request *request);
/* Its method by that name; of an operator the job with its defaults. */
bool request_find_method(const msgpack_object *name, struct request *request,
                         struct failure *failure);
/* Its parameters, a map or NULL; the map's pairs i whose bit i is set in `others` are read
 * elsewhere, and count as given. */
bool request_read_parameters(const msgpack_object *map, uint64_t others, struct request *request,
                             struct failure *failure);

/* request_chain.c: request->chain, of the parameters of a chain. */
bool request_read_chain(struct request *request, struct failure *failure);
/* … of a mixed derivative: that of its two derivatives. */
bool request_expand_mixed(struct request *request, struct failure *failure);
/* Is what a Hessian was given what it takes? Its chain is made when the type of f is known. */
bool request_check_hessian(const struct request *request, struct failure *failure);

/* request_read.c, all that follows. INVALID_ARGUMENT with that text. */
bool request_invalid(struct failure *failure, const char *parameter, const char *text);

/* Add to an INVALID_ARGUMENT about that value what it is, where the error does not say so yet:
 * text, a number, a boolean or nil. */
void request_say_given(const msgpack_object *value, struct failure *failure);

bool request_read_boolean(const msgpack_object *value, const char *parameter, bool *to,
                          struct failure *failure);

/* Which of the words is it, counted from 0; −1: none. The list ends with NULL. */
int request_find_word(const msgpack_object *object, const char *const *words);

/* "x", "y" or "z". */
bool request_find_axis(const msgpack_object *object, enum axis *axis);

/* An ARRAY: of its own shape where it lies in a region. A list of numbers too where `lists`. */
bool request_read_operand(const msgpack_object *value, const char *parameter, bool lists,
                          struct array *array, struct failure *failure);

/* Of f: have all in regions a type? */
bool request_check_regions(const struct arrays *f, struct failure *failure);
/* Of a request that is to be run: is the data of its inputs and operands there? */
bool request_check_data(const struct request *request, struct failure *failure);

/* Is it an ARRAY (and neither a number nor a map by axis)? */
bool request_is_array(const msgpack_object *value);
