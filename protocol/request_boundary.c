/* The grammar of `boundary`: a word, a map that is one boundary, or a map of these by side. */
#include "protocol/object.h"
#include "protocol/request_read.h"

#include <math.h>
#include <string.h>

/* What is said of one side. */
struct request_side {
    struct boundary boundary;     /* but for value_array, constant_array */
    double constant_number;       /* mixed */
    struct array value, constant; /* over the face, in the place of the number; ARRAY_NONE: none */
};

static bool read_boundary_word(const msgpack_object *word, const char *label,
                               struct boundary *boundary, struct failure *failure)
{
    const char *bytes = "";
    uint32_t length = 0;
    object_bytes(word, &bytes, &length);
    const int found = boundary_find(bytes, length, 0);
    const struct quoted quoted = object_quote(word);
    if (found >= 0 && !(boundary_traits((uint32_t)found)->has & BOUNDARY_HAS_VALUE)) {
        boundary->kind = (uint32_t)found;
        return true;
    }
    if (object_is(word, "reflect"))
        return request_invalid(failure, label,
                               "\"reflect\" means two things, by library: say symmetric or mirror");
    if (object_is(word, "endpoint"))
        return request_invalid(failure, label,
                               "use the parameter endpoint: true, and boundary periodic");
    if (found >= 0)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                           "boundary %s needs its number: {\"%s\": number}", quoted.text,
                           quoted.text);
    return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                       "no boundary is called \"%s\"; there are %s", quoted.text,
                       boundary_words(0, " and ").text);
}

/* The keys of a boundary's map: kinds that have a number, and these. */
enum { KEY_CONST = BOUNDARY_KINDS, KEY_AT, KEY_TYPE, KEY_COUNT };

static int find_key(const msgpack_object *key)
{
    static const char *const words[] = {"const", "at", "type", NULL};
    const char *bytes;
    uint32_t length;
    if (!object_bytes(key, &bytes, &length))
        return -1;
    const int kind = boundary_find(bytes, length, BOUNDARY_HAS_VALUE);
    const int word = request_find_word(key, words);
    return kind >= 0 || word < 0 ? kind : KEY_CONST + word;
}

/* Is it one boundary, such as {"value": 0}, and not a map by side? */
static bool is_boundary_map(const msgpack_object *map)
{
    for (uint32_t i = 0; i < map->via.map.size; i++)
        if (find_key(&map->via.map.ptr[i].key) >= 0)
            return true;
    return false;
}

/* The values of a boundary's map by key; NULL where absent. *kind: its kind's key. */
static bool read_keys(const msgpack_object *map, const char *label,
                      const msgpack_object *values[KEY_COUNT], int *kind, struct failure *failure)
{
    int kinds = 0;
    const struct boundary_words words = boundary_words(BOUNDARY_HAS_VALUE, ", ");
    memset(values, 0, KEY_COUNT * sizeof *values);
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        const int key = find_key(&pair->key);
        const struct quoted quoted = object_quote(&pair->key);
        if (key < 0)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                               "a boundary has no key \"%s\"; say %s or type", quoted.text,
                               words.text);
        if (values[key])
            return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                               "the key \"%s\" is given twice", quoted.text);
        values[key] = &pair->val;
        if (key < BOUNDARY_KINDS || key == KEY_TYPE) {
            *kind = key;
            kinds++;
        }
    }
    if (kinds != 1)
        return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                           "a boundary has one of the keys %s and type", words.text);
    if (values[KEY_CONST] && !(boundary_traits((uint32_t)*kind)->has & BOUNDARY_HAS_CONSTANT))
        return request_invalid(failure, label, "the key \"const\" belongs to mixed");
    return true;
}

static bool read_at(const msgpack_object *at, const char *label, int kind,
                    struct boundary *boundary, struct failure *failure)
{
    static const char *const words[] = {"node", "face", NULL};
    const int found = request_find_word(at, words);
    if (found < 0)
        return request_invalid(failure, label, "\"at\" must be \"node\" or \"face\"");
    if (!(boundary_traits((uint32_t)kind)->has & BOUNDARY_HAS_PLACE))
        return failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                           "\"at\" is for %s; %s says itself where it is",
                           boundary_words(BOUNDARY_HAS_PLACE, " and ").text,
                           kind == KEY_TYPE ? "a type" : boundary_traits((uint32_t)kind)->word);
    boundary->at_face = (uint8_t)found;
    return true;
}

/* A number, or where `arrays` numbers over the face. */
static bool read_number(const msgpack_object *value, const char *label, bool arrays, double *number,
                        struct array *array, struct failure *failure)
{
    if (arrays && (value->type == MSGPACK_OBJECT_ARRAY || request_is_array(value)))
        return request_read_operand(value, label, true, array, failure);
    if (!object_real(value, number))
        return request_invalid(failure, label,
                               arrays ? "must be a number, or an array of them over the face"
                                      : "must be a number");
    return isfinite(*number) ||
           failure_set(failure, STATUS_INVALID_ARGUMENT, label,
                       "the number of a boundary must be finite; got %g", *number);
}

static bool read_boundary_map(const msgpack_object *map, const char *label,
                              struct request_side *side, struct failure *failure)
{
    const msgpack_object *values[KEY_COUNT];
    int kind = KEY_TYPE;
    if (!read_keys(map, label, values, &kind, failure) ||
        (values[KEY_AT] && !read_at(values[KEY_AT], label, kind, &side->boundary, failure)))
        return false;
    if (kind == KEY_TYPE)
        return read_boundary_word(values[KEY_TYPE], label, &side->boundary, failure);
    side->boundary.kind = (uint32_t)kind;
    const unsigned has = boundary_traits((uint32_t)kind)->has;
    if (!read_number(values[kind], label, has & BOUNDARY_HAS_PLACE, &side->boundary.value,
                     &side->value, failure) ||
        (values[KEY_CONST] && !read_number(values[KEY_CONST], label, true, &side->constant_number,
                                           &side->constant, failure)))
        return false;
    if (has & BOUNDARY_MIRRORS && side->boundary.value == 0)
        side->boundary.value = 0; /* −0 too: equal jobs are equal bytes */
    return true;
}

static bool read_one_boundary(const msgpack_object *value, const char *label,
                              struct request_side *side, struct failure *failure)
{
    memset(side, 0, sizeof *side);
    if (value->type == MSGPACK_OBJECT_MAP)
        return read_boundary_map(value, label, side, failure);
    const char *bytes;
    uint32_t length;
    if (!object_bytes(value, &bytes, &length))
        return request_invalid(failure, label,
                               "a boundary is a word or a map such as {\"value\": 0}");
    return read_boundary_word(value, label, &side->boundary, failure);
}

/* A key of a map by side: "x", "x-", "x+", … or "*". *side is SIDE_COUNT for both. */
static bool find_side(const msgpack_object *key, enum axis *axis, int *side)
{
    const char *bytes;
    uint32_t length;
    *axis = AXIS_COUNT;
    *side = SIDE_COUNT;
    if (request_find_axis(key, axis) || object_is(key, "*"))
        return true;
    if (!object_bytes(key, &bytes, &length) || length != 2 || bytes[0] < 'x' || bytes[0] > 'z' ||
        (bytes[1] != '-' && bytes[1] != '+'))
        return false;
    *axis = (enum axis)(AXIS_X + (bytes[0] - 'x'));
    *side = bytes[1] == '-' ? SIDE_LOW : SIDE_HIGH;
    return true;
}

/* To those sides of which nothing was said that is nearer: a side goes before its axis, an axis
 * before "*". */
enum { NEAR_REST = 1, NEAR_AXIS, NEAR_SIDE };

static void put_sides(const struct request_side *given, enum axis axis, int side,
                      uint8_t nearest[AXIS_COUNT][SIDE_COUNT], struct request *request)
{
    const uint8_t near = axis == AXIS_COUNT   ? NEAR_REST
                         : side == SIDE_COUNT ? NEAR_AXIS
                                              : NEAR_SIDE;
    for (int a = 0; a < AXIS_COUNT; a++)
        for (int s = 0; s < SIDE_COUNT; s++) {
            const int at = SIDE_COUNT * a + s;
            if ((axis != AXIS_COUNT && a != (int)axis) || (side != SIDE_COUNT && s != side) ||
                nearest[a][s] > near)
                continue;
            nearest[a][s] = near;
            request->named.boundary |= (uint8_t)((near > NEAR_REST) << at);
            request->job.boundary[a][s] = given->boundary;
            request->job.more.constant[a][s] = given->constant_number;
            request->operand[OPERAND_VALUE + at] = given->value;
            request->operand[OPERAND_CONSTANT + at] = given->constant;
        }
}

bool request_read_boundary(const msgpack_object *value, struct request *request,
                           struct failure *failure)
{
    struct request_side boundary;
    uint8_t nearest[AXIS_COUNT][SIDE_COUNT] = {{0}};
    if (value->type != MSGPACK_OBJECT_MAP || is_boundary_map(value)) {
        if (!read_one_boundary(value, "boundary", &boundary, failure))
            return false;
        put_sides(&boundary, AXIS_COUNT, SIDE_COUNT, nearest, request);
        return true;
    }
    unsigned seen = 0;
    for (uint32_t i = 0; i < value->via.map.size; i++) {
        const msgpack_object_kv *pair = &value->via.map.ptr[i];
        enum axis axis;
        int side;
        const struct quoted key = object_quote(&pair->key);
        if (!find_side(&pair->key, &axis, &side))
            return failure_set(
                failure, STATUS_INVALID_ARGUMENT, "boundary",
                "no side is called \"%s\"; there are x, x-, x+, y, y-, y+, z, z-, z+ "
                "and *",
                key.text);
        const unsigned bit = 1u << ((unsigned)axis * (SIDE_COUNT + 1) + (unsigned)side);
        if (seen & bit)
            return failure_set(failure, STATUS_INVALID_ARGUMENT, "boundary",
                               "the key \"%s\" is given twice", key.text);
        seen |= bit;
        if (!read_one_boundary(&pair->val, failure_place("boundary", key.text).text, &boundary,
                               failure))
            return false;
        put_sides(&boundary, axis, side, nearest, request);
    }
    return true;
}
