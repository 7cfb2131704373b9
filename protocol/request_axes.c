/* Parameters that are given by axis or by side: axis, spacing, diffusivity, endpoint, and the
 * grammar of boundary, which is a word, a map that is one boundary, or a map of these by side. */
#include "base/near.h"
#include "protocol/request_read.h"

#include <math.h>
#include <stdio.h>

/* Reads the value of some axes, or of some sides: a bit each. */
enum { ALL_PARTS = (1u << AXIS_COUNT * SIDE_COUNT) - 1 };
typedef bool part_reader(const msgpack_object *value, const char *parameter, unsigned parts,
                         struct request *request, struct failure *failure);

/* "x", "y" or "z"; −1: none. */
static int find_axis(const msgpack_object *value)
{
    const int found = object_find_word(value, request_side_keys + AXIS_COUNT * SIDE_COUNT);
    return found < AXIS_COUNT ? found : -1;
}

bool request_read_axis(const msgpack_object *value, struct request *request,
                       struct failure *failure)
{
    const msgpack_object *const two = value->via.array.ptr;
    if (value->type == MSGPACK_OBJECT_ARRAY && request->job.operator_id == OPERATOR_DERIVATIVE) {
        const bool are_two = value->via.array.size == 2;
        const int outer = are_two ? find_axis(&two[0]) : -1,
                  inner = are_two ? find_axis(&two[1]) : -1;
        if (outer < 0 || inner < 0 || outer == inner)
            return invalid_argument(
                failure, "axis",
                "the axes of a mixed derivative are two of \"x\", \"y\" and \"z\"");
        request->is_mixed = true;
        request->job.axis = (uint8_t)outer;
        request->inner_axis = (enum axis)inner;
        return true;
    }
    const int axis = find_axis(value);
    request->axis_is_number = axis < 0;
    request->job.axis = (uint8_t)(axis < 0 ? AXIS_X : axis);
    return axis >= 0 || object_signed(value, &request->axis_number) ||
           invalid_argument(failure, "axis",
                            "axis must be \"x\", \"y\", \"z\", a NumPy axis number or, for a "
                            "mixed derivative, a list of two letters");
}

/* A map by axis, or by side and axis, in which "*" is the rest. *named: those that have a name. */
static bool read_parts(const msgpack_object *map, const char *parameter, bool by_side,
                       part_reader *read, uint8_t *named, struct request *request,
                       struct failure *failure)
{
    enum { SIDES = AXIS_COUNT * SIDE_COUNT };
    const int sides = by_side ? SIDES : 0, rest = sides + AXIS_COUNT;
    const char *const *const keys = request_side_keys + SIDES - sides;
    const msgpack_object *values[SIDES + AXIS_COUNT + 1];
    char rule[192] = "its keys are x, y, z and *";
    if (by_side)
        snprintf(rule, sizeof rule,
                 "its keys are x, x-, x+, y, y-, y+, z, z-, z+ and *, or a kind: %s",
                 boundary_words(BOUNDARY_HAS_VALUE, " or ").text);
    if (!object_read_map(map, parameter, keys, rule, values, failure))
        return false;
    for (int i = rest; i >= 0; i--) { /* an axis overrides "*", a side its axis */
        const unsigned parts = i == rest   ? ALL_PARTS
                               : i < sides ? 1u << i
                               : by_side   ? 3u << SIDE_COUNT * (i - sides)
                                           : 1u << i;
        if (values[i] &&
            !read(values[i], failure_place(parameter, keys[i]).text, parts, request, failure))
            return false;
        *named |= (uint8_t)(values[i] && i < rest ? parts : 0);
    }
    return true;
}

/* A value for all axes, or a map by axis. */
static bool read_by_axis(const msgpack_object *value, const char *parameter, part_reader *read,
                         uint8_t *named, struct request *request, struct failure *failure)
{
    const bool is_map =
        value->type == MSGPACK_OBJECT_MAP && !object_find(value, "nd") && !request_is_array(value);
    return is_map ? read_parts(value, parameter, false, read, named, request, failure)
                  : read(value, parameter, ALL_PARTS, request, failure);
}

/* A number in the place of an axis's value. */
static bool read_axis_number(const msgpack_object *value, const char *parameter, unsigned axes,
                             double to[AXIS_COUNT], struct failure *failure)
{
    double number;
    if (!object_real(value, &number))
        return request_is_array(value)
                   ? failure_set(failure, STATUS_UNSUPPORTED, parameter,
                                 "an array of κ holds for all axes together, not for one of them")
                   : invalid_argument(failure, parameter,
                                      strcmp(parameter, "spacing") == 0
                                          ? "must be a number, a list of one number for each axis, "
                                            "or a map by axis"
                                          : "must be a number, or a map of numbers by axis");
    for (int a = 0; a < AXIS_COUNT; a++)
        if (axes >> a & 1)
            to[a] = number;
    return true;
}

/* Many numbers in the place of one. */
static bool is_many(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_ARRAY || request_is_array(value);
}

static bool read_coordinates(const msgpack_object *value, const char *parameter,
                             struct array *numbers, struct failure *failure)
{
    return numbers_read(value, parameter, numbers, failure) &&
           (numbers->type.dimensions == 1 ||
            invalid_argument(failure, parameter,
                             "coordinates are a list of numbers or an array of one dimension"));
}

static bool read_spacing(const msgpack_object *value, const char *parameter, unsigned axes,
                         struct request *request, struct failure *failure)
{
    struct array numbers = {.kind = ARRAY_NONE};
    if (is_many(value) ? !read_coordinates(value, parameter, &numbers, failure)
                       : !read_axis_number(value, parameter, axes, request->job.spacing, failure))
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (axes >> a & 1)
            request->numbers[NUMBERS_X + a] = numbers;
    return true;
}

bool request_read_spacing(const msgpack_object *value, struct request *request,
                          struct failure *failure)
{
    if (is_many(value)) /* or a number for each axis */
        return read_coordinates(value, "spacing", &request->numbers[NUMBERS_LIST], failure);
    return read_by_axis(value, "spacing", read_spacing, &request->named.spacing, request, failure);
}

static bool read_diffusivity(const msgpack_object *value, const char *parameter, unsigned axes,
                             struct request *request, struct failure *failure)
{
    double *const to = request->job.diffusivity;
    if (!read_axis_number(value, parameter, axes, to, failure))
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        to[a] += 0.0; /* −0 becomes 0: equal jobs are equal bytes */
    return true;
}

bool request_read_diffusivity(const msgpack_object *value, struct request *request,
                              struct failure *failure)
{
    if (request_is_array(value))
        return request_read_operand(value, "diffusivity", &request->operand[OPERAND_COEFFICIENT],
                                    failure);
    return read_by_axis(value, "diffusivity", read_diffusivity, &request->named.diffusivity,
                        request, failure);
}

static bool read_endpoint(const msgpack_object *value, const char *parameter, unsigned axes,
                          struct request *request, struct failure *failure)
{
    bool on;
    if (!object_boolean(value, &on))
        return invalid_argument(failure, parameter, "must be true, false or a map of them by axis");
    request->endpoint = (uint8_t)((request->endpoint & ~axes) | (on ? axes : 0));
    return true;
}

bool request_read_endpoint(const msgpack_object *value, struct request *request,
                           struct failure *failure)
{
    return read_by_axis(value, "endpoint", read_endpoint, &request->named.endpoint, request,
                        failure);
}

/* ---- boundary ---- */

/* The boundary of one side. */
struct request_side {
    struct boundary boundary;     /* but for value_array, constant_array */
    double constant_number;       /* mixed */
    struct array value, constant; /* over the face, in the place of the number; ARRAY_NONE: none */
};

/* The keys of a boundary's map: the kinds' words, and these. */
#define BOUNDARY_WORD(name, number, word, ...) word,
#define BOUNDARY_NUMBER(name, number, ...) number,
static const char *const keys[] = {BOUNDARY_LIST(BOUNDARY_WORD) "const", "at", "type", NULL};
static const uint8_t kinds[] = {BOUNDARY_LIST(BOUNDARY_NUMBER)};
enum { KINDS = sizeof kinds, KEY_CONST = KINDS, KEY_AT, KEY_TYPE, KEY_COUNT };

static bool read_boundary_word(const msgpack_object *word, const char *label,
                               struct boundary *boundary, struct failure *failure)
{
    const char *bytes = "";
    uint32_t length = 0;
    if (!object_bytes(word, &bytes, &length))
        return invalid_argument(failure, label,
                                "a boundary is a word or a map such as {\"value\": 0}");
    const int found = boundary_find(bytes, length, 0);
    const struct quoted quoted = object_quote(word);
    if (found >= 0 && !(boundary_traits((uint32_t)found)->has & BOUNDARY_HAS_VALUE)) {
        boundary->kind = (uint32_t)found;
        return true;
    }
    if (object_is(word, "reflect"))
        return invalid_argument(
            failure, label, "\"reflect\" means two things, by library: say symmetric or mirror");
    if (object_is(word, "endpoint"))
        return invalid_argument(failure, label,
                                "use the parameter endpoint: true, and boundary periodic");
    if (found >= 0)
        return invalid_argument(failure, label, "boundary %s needs its number: {\"%s\": number}",
                                quoted.text, quoted.text);
    struct near near;
    near_begin(&near, quoted.text);
    for (size_t i = 0; i < KINDS; i++)
        near_try(&near, keys[i]);
    return near.count
               ? invalid_argument(failure, label, "no boundary is called \"%s\"%s", quoted.text,
                                  near_text(&near).text)
               : invalid_argument(failure, label, "no boundary is called \"%s\"; there are %s",
                                  quoted.text, boundary_words(0, " and ").text);
}

/* Is it one boundary, such as {"value": 0}, and not a map by side? */
static bool is_boundary_map(const msgpack_object *map)
{
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (object_find_word(&map->via.map.ptr[i].key, keys) >= 0)
            return true;
    return false;
}

/* The values of a boundary's map by key; NULL where absent. *key: the one that says its kind. */
static bool read_keys(const msgpack_object *map, const char *label,
                      const msgpack_object *values[KEY_COUNT], int *key, struct failure *failure)
{
    char rule[192];
    int count = 0;
    snprintf(rule, sizeof rule, "a boundary has one of the keys %s and type",
             boundary_words(BOUNDARY_HAS_VALUE, ", ").text);
    if (!object_read_map(map, label, keys, rule, values, failure))
        return false;
    for (int i = 0; i < KEY_COUNT; i++)
        if (values[i] && i != KEY_CONST && i != KEY_AT) {
            *key = i;
            count++;
        }
    if (count != 1)
        return invalid_argument(failure, label, "%s", rule);
    const unsigned has = *key == KEY_TYPE ? BOUNDARY_HAS_VALUE : boundary_traits(kinds[*key])->has;
    if (!(has & BOUNDARY_HAS_VALUE))
        return invalid_argument(failure, label, "%s takes no number; %s", keys[*key], rule);
    return !values[KEY_CONST] || has & BOUNDARY_HAS_CONSTANT ||
           invalid_argument(failure, label, "the key \"const\" belongs to mixed");
}

static bool read_at(const msgpack_object *at, const char *label, int key, struct boundary *boundary,
                    struct failure *failure)
{
    static const char *const words[] = {"node", "face", NULL};
    const int found = object_find_word(at, words);
    if (found < 0)
        return invalid_argument(failure, label, "\"at\" must be \"node\" or \"face\"");
    boundary->at_face = (uint8_t)found;
    return (key != KEY_TYPE && boundary_traits(kinds[key])->has & BOUNDARY_HAS_PLACE) ||
           invalid_argument(failure, label, "\"at\" is for %s; %s says itself where it is",
                            boundary_words(BOUNDARY_HAS_PLACE, " and ").text,
                            key == KEY_TYPE ? "a type" : keys[key]);
}

/* A number, or where `arrays` numbers over the face. */
static bool read_number(const msgpack_object *value, const char *label, bool arrays, double *number,
                        struct array *array, struct failure *failure)
{
    if (arrays && value->type == MSGPACK_OBJECT_ARRAY)
        return numbers_read(value, label, array, failure);
    if (arrays && request_is_array(value))
        return request_read_operand(value, label, array, failure);
    if (!object_real(value, number))
        return invalid_argument(failure, label,
                                arrays ? "must be a number, or an array of them over the face"
                                       : "must be a number");
    return isfinite(*number) ||
           invalid_argument(failure, label, "the number of a boundary must be finite; got %g",
                            *number);
}

static bool read_boundary_map(const msgpack_object *map, const char *label,
                              struct request_side *side, struct failure *failure)
{
    const msgpack_object *values[KEY_COUNT];
    int key = KEY_TYPE;
    if (!read_keys(map, label, values, &key, failure) ||
        (values[KEY_AT] && !read_at(values[KEY_AT], label, key, &side->boundary, failure)))
        return false;
    if (key == KEY_TYPE)
        return read_boundary_word(values[KEY_TYPE], label, &side->boundary, failure);
    side->boundary.kind = kinds[key];
    const unsigned has = boundary_traits(kinds[key])->has;
    if (!read_number(values[key], label, has & BOUNDARY_HAS_PLACE, &side->boundary.value,
                     &side->value, failure) ||
        (values[KEY_CONST] && !read_number(values[KEY_CONST], label, true, &side->constant_number,
                                           &side->constant, failure)))
        return false;
    if (has & BOUNDARY_MIRRORS && side->boundary.value == 0)
        side->boundary.value = 0; /* −0 too: equal jobs are equal bytes */
    return true;
}

/* One boundary, for some sides: a bit each. */
static bool read_sides(const msgpack_object *value, const char *label, unsigned sides,
                       struct request *request, struct failure *failure)
{
    struct request_side side = {0};
    if (value->type == MSGPACK_OBJECT_MAP
            ? !read_boundary_map(value, label, &side, failure)
            : !read_boundary_word(value, label, &side.boundary, failure))
        return false;
    for (int i = 0; i < AXIS_COUNT * SIDE_COUNT; i++) {
        const int a = i / SIDE_COUNT, s = i % SIDE_COUNT;
        if (!(sides >> i & 1))
            continue;
        request->job.boundary[a][s] = side.boundary;
        request->job.more.constant[a][s] = side.constant_number;
        request->operand[OPERAND_VALUE + i] = side.value;
        request->operand[OPERAND_CONSTANT + i] = side.constant;
    }
    return true;
}

bool request_read_boundary(const msgpack_object *value, struct request *request,
                           struct failure *failure)
{
    return value->type == MSGPACK_OBJECT_MAP && !is_boundary_map(value)
               ? read_parts(value, "boundary", true, read_sides, &request->named.boundary, request,
                            failure)
               : read_sides(value, "boundary", ALL_PARTS, request, failure);
}
