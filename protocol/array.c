#include "protocol/array.h"

#include "protocol/object.h"
#include "protocol/splitter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const inline_keys[] = {"nd", "type", "kind", "shape", "data", NULL};
enum { KEY_ND, KEY_TYPE, KEY_KIND, KEY_SHAPE, KEY_DATA, KEY_COUNT };

/* "<f4" and the like; false: it is none of a number. */
static bool find_element(const msgpack_object *object, struct array_element *element)
{
    static const struct {
        const char *name;
        struct array_element element;
    } names[] = {{"<f4", {'f', 4}},     {"<f8", {'f', 8}},     {"f4", {'f', 4}},  {"f8", {'f', 8}},
                 {"float32", {'f', 4}}, {"float64", {'f', 8}}, {"<i8", {'i', 8}}, {"<i4", {'i', 4}},
                 {"<i2", {'i', 2}},     {"|i1", {'i', 1}},     {"<u8", {'u', 8}}, {"<u4", {'u', 4}},
                 {"<u2", {'u', 2}},     {"|u1", {'u', 1}}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (object_is(object, names[i].name)) {
            *element = names[i].element;
            return true;
        }
    return false;
}

static bool refuse_structured(const char *parameter, struct failure *failure)
{
    return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                       "structured types are not accepted; send each member as an array");
}

/* `integers`: they are taken, too. */
static bool read_element(const msgpack_object *object, const char *parameter, bool integers,
                         struct array_element *element, struct failure *failure)
{
    if (!object)
        return invalid_argument(failure, parameter,
                                "the array's type is missing, or comes after its data");
    if (object->type == MSGPACK_OBJECT_ARRAY)
        return refuse_structured(parameter, failure);
    if (find_element(object, element) && (integers || element->letter == 'f'))
        return true;
    const char *bytes;
    uint32_t length;
    if (!object_bytes(object, &bytes, &length))
        return invalid_argument(failure, parameter,
                                "the array's type must be a string, <f4 or <f8");
    const struct quoted name = object_quote(object);
    if (length >= 3 && bytes[0] == '>')
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "the byte order of %s is not accepted; convert to little-endian (<%s)",
                           name.text, name.text + 1);
    const char letter = length >= 3 && (bytes[0] == '<' || bytes[0] == '|') ? bytes[1]
                        : object_is(object, "|O")                           ? 'O'
                                                                            : '\0';
    if (letter == 'b' || (!integers && (letter == 'i' || letter == 'u')))
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "%s type %s is not accepted; convert to float32 or float64",
                           letter == 'b' ? "boolean" : "integer", name.text);
    if (letter == 'c')
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "complex type %s is not accepted; send the real and imaginary parts",
                           name.text);
    const char *const what = letter == 'O'                    ? ", an array of Python objects"
                             : letter == 'U' || letter == 'S' ? ", an array of strings"
                             : letter == 'M' || letter == 'm' ? ", an array of times"
                                                              : "";
    return failure_set(failure, letter == 'f' ? STATUS_UNSUPPORTED : STATUS_INVALID_ARGUMENT,
                       parameter, "type must be <f4 or <f8%s; got %s%s",
                       integers ? ", or of integers" : "", name.text, what);
}

static bool read_shape(const msgpack_object *object, const char *parameter, uint64_t element_bytes,
                       struct array_type *type, struct failure *failure)
{
    if (!object)
        return invalid_argument(failure, parameter,
                                "the array's shape is missing, or comes after its data");
    if (object->type != MSGPACK_OBJECT_ARRAY)
        return invalid_argument(failure, parameter,
                                "the array's shape must be a list of whole numbers");
    const uint32_t dimensions = object->via.array.size;
    if (dimensions < 1 || dimensions > LIMIT_DIMENSIONS)
        return invalid_argument(failure, parameter, "an array has 1 to %d dimensions; got %" PRIu32,
                                LIMIT_DIMENSIONS, dimensions);
    uint64_t points = 1;
    double need = 1;
    bool fits = true;
    for (uint32_t i = 0; i < dimensions; i++) {
        uint64_t n;
        if (!object_unsigned(&object->via.array.ptr[i], &n) || n == 0)
            return invalid_argument(failure, parameter,
                                    "shape[%" PRIu32 "] must be a whole number from 1 up", i);
        type->shape[i] = n;
        need *= (double)n;
        fits = fits && !__builtin_mul_overflow(points, n, &points);
    }
    if (!fits || points > LIMIT_POINTS)
        return failure_set_limit(failure, STATUS_TOO_LARGE, parameter, need, (double)LIMIT_POINTS,
                                 "an array has at most %" PRIu64 " points", LIMIT_POINTS);
    type->dimensions = dimensions;
    type->bytes = points * element_bytes;
    return true;
}

static bool read_type(const msgpack_object *type, const msgpack_object *shape,
                      const char *parameter, bool integers, struct array *array,
                      struct failure *failure)
{
    if (!read_element(type, parameter, integers, &array->element, failure))
        return false;
    array->type.dtype = array->element.bytes == 8 ? DTYPE_F64 : DTYPE_F32;
    return read_shape(shape, parameter, array->element.bytes, &array->type, failure);
}

static bool check_kind(const msgpack_object *kind, const char *parameter, struct failure *failure)
{
    if (!kind || kind->type == MSGPACK_OBJECT_NIL || object_is(kind, ""))
        return true;
    if (object_is(kind, "V"))
        return refuse_structured(parameter, failure);
    return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                       object_is(kind, "O") ? "arrays of objects (pickles) are not accepted"
                                            : "arrays of kind \"%s\" are not accepted",
                       object_quote(kind).text);
}

/* The number of a diverted bin, as the splitter left it. */
static bool read_payload(const msgpack_object *object, uint32_t *number)
{
    if (object->type != MSGPACK_OBJECT_EXT || object->via.ext.type != SPLITTER_EXT_TYPE ||
        object->via.ext.size != 8)
        return false;
    const unsigned char *bytes = (const unsigned char *)object->via.ext.ptr;
    *number = (uint32_t)bytes[4] << 24 | (uint32_t)bytes[5] << 16 | (uint32_t)bytes[6] << 8 |
              (uint32_t)bytes[7];
    return true;
}

/* One bin, or a list of them: diverted ones, or one that came with the control bytes. */
static bool read_data(const msgpack_object *data, const char *parameter, struct array *array,
                      struct failure *failure)
{
    const bool is_list = data->type == MSGPACK_OBJECT_ARRAY && data->via.array.size > 0;
    const msgpack_object *const bins = is_list ? data->via.array.ptr : data;
    const char *bytes;
    uint32_t length;
    if (object_bytes(data, &bytes, &length)) {
        array->small = bytes;
        return length == array->type.bytes ||
               invalid_argument(failure, parameter,
                                "the shape and type need %" PRIu64 " bytes of data; got %" PRIu32,
                                array->type.bytes, length);
    }
    array->payload_count = is_list ? data->via.array.size : 1;
    for (uint32_t i = array->payload_count; i-- > 0;) /* the first one's number stays */
        if (!read_payload(&bins[i], &array->payload_first))
            return invalid_argument(failure, parameter,
                                    "the array's data must be a bin or a list of bins");
    return true;
}

/* A reply's map may be sent back as it is: the shape and type beside the id are not read. */
static bool read_field(const msgpack_object *object, const char *parameter, struct array *array,
                       struct failure *failure)
{
    static const char *const keys[] = {"field", "shape", "type", NULL};
    const msgpack_object *values[3];
    array->kind = ARRAY_FIELD;
    return object_read_map(object, parameter, keys, "a resident field is {\"field\": id}", values,
                           failure) &&
           (object_unsigned(values[0], &array->field) ||
            invalid_argument(failure, parameter, "a field's id is an unsigned integer"));
}

/* As an output it has no shape and type. */
static bool read_region(const msgpack_object *object, const char *parameter, struct array *array,
                        struct failure *failure)
{
    enum { ID, OFFSET, SHAPE, TYPE, COUNT };
    static const char *const keys[] = {"region", "offset", "shape", "type", NULL};
    const msgpack_object *values[COUNT];
    array->kind = ARRAY_REGION;
    if (!object_read_map(object, parameter, keys,
                         "an array in a region has the keys region, offset, shape and type", values,
                         failure))
        return false;
    if (!object_unsigned(values[ID], &array->region))
        return invalid_argument(failure, parameter, "a region's id is an unsigned integer");
    if (values[OFFSET] && (!object_unsigned(values[OFFSET], &array->offset) ||
                           array->offset % ARRAY_OFFSET_BYTES != 0))
        return invalid_argument(failure, parameter,
                                "the offset in a region is a number of bytes, a multiple of %d",
                                ARRAY_OFFSET_BYTES);
    return (!values[SHAPE] && !values[TYPE]) ||
           read_type(values[TYPE], values[SHAPE], parameter, false, array, failure);
}

static bool read_inline(const msgpack_object *object, const char *parameter, bool integers,
                        struct array *array, struct failure *failure)
{
    const msgpack_object *values[KEY_COUNT];
    if (!object_read_map(object, parameter, inline_keys,
                         "an array is a map as msgpack-numpy writes it, {\"field\": id} or "
                         "{\"region\": id, \"offset\": bytes, \"shape\": […], \"type\": \"<f4\"}",
                         values, failure))
        return false;
    const msgpack_object *nd = values[KEY_ND];
    if (!nd || nd->type != MSGPACK_OBJECT_BOOLEAN)
        return invalid_argument(failure, parameter, "an inline array has \"nd\": true");
    if (!nd->via.boolean)
        return invalid_argument(failure, parameter, "a scalar was given in the place of an array");
    if (!check_kind(values[KEY_KIND], parameter, failure) ||
        !read_type(values[KEY_TYPE], values[KEY_SHAPE], parameter, integers, array, failure))
        return false;
    array->kind = values[KEY_DATA] ? ARRAY_INLINE : ARRAY_DESCRIBED;
    return !values[KEY_DATA] || read_data(values[KEY_DATA], parameter, array, failure);
}

bool array_read(const msgpack_object *object, const char *parameter, struct array *array,
                struct failure *failure)
{
    memset(array, 0, sizeof *array);
    if (object_find(object, "region"))
        return read_region(object, parameter, array, failure);
    if (object_find(object, "field"))
        return read_field(object, parameter, array, failure);
    return read_inline(object, parameter, false, array, failure);
}

bool array_type_peek(const struct splitter_payload *payload, const char *parameter, bool integers,
                     struct array_type *type, struct failure *failure)
{
    struct array array = {0};
    msgpack_sbuffer bytes;
    msgpack_packer packer;
    msgpack_unpacked object;
    msgpack_sbuffer_init(&bytes);
    msgpack_packer_init(&packer, &bytes, msgpack_sbuffer_write);
    msgpack_unpacked_init(&object);
    /* The splitter has seen that it is well-formed. */
    const bool unpacked =
        msgpack_pack_map(&packer, payload->map_pairs) == 0 &&
        msgpack_sbuffer_write(&bytes, (const char *)payload->map, payload->map_bytes) == 0 &&
        msgpack_unpack_next(&object, bytes.data, bytes.size, NULL) == MSGPACK_UNPACK_SUCCESS;
    const bool ok = unpacked ? read_inline(&object.data, parameter, integers, &array, failure)
                             : failure_set(failure, STATUS_OUT_OF_MEMORY, parameter,
                                           "no memory for the array's header");
    *type = array.type;
    msgpack_unpacked_destroy(&object);
    msgpack_sbuffer_destroy(&bytes);
    return ok;
}

bool arrays_read(const msgpack_object *object, const char *parameter, struct arrays *arrays,
                 struct failure *failure)
{
    static const char *const axes[] = {"x", "y", "z", NULL};
    const msgpack_object *components[AXIS_COUNT];
    memset(arrays, 0, sizeof *arrays);
    for (int a = 0; a < AXIS_COUNT; a++)
        arrays->is_vector = arrays->is_vector || object_find(object, axes[a]);
    if (!arrays->is_vector)
        return array_read(object, parameter, &arrays->at[0], failure);
    if (!object_read_map(object, parameter, axes, "a vector field has the keys x, y and z",
                         components, failure))
        return false;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (components[a] && !array_read(components[a], failure_place(parameter, axes[a]).text,
                                         &arrays->at[a], failure))
            return false;
    return true;
}

/* ---- parameters of many numbers ---- */

/* The shape of a list, by its first elements. */
static bool list_shape(const msgpack_object *list, const char *parameter, struct array_type *type,
                       struct failure *failure)
{
    while (list->type == MSGPACK_OBJECT_ARRAY) {
        if (type->dimensions == LIMIT_DIMENSIONS)
            return invalid_argument(failure, parameter, "lists are at most %d deep",
                                    LIMIT_DIMENSIONS);
        if (list->via.array.size == 0)
            return invalid_argument(failure, parameter, "a list is empty");
        type->shape[type->dimensions++] = list->via.array.size;
        list = &list->via.array.ptr[0];
    }
    return true;
}

/* Does the list have that shape from `level` on, and are its elements numbers? */
static bool check_list(const msgpack_object *list, const char *parameter,
                       const struct array_type *type, uint32_t level, struct failure *failure)
{
    double number;
    if (level == type->dimensions)
        return object_real(list, &number) ||
               invalid_argument(failure, parameter, "its lists hold something that is no number");
    if (list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size != type->shape[level])
        return invalid_argument(failure, parameter, "its lists are not all of one length");
    for (uint32_t i = 0; i < list->via.array.size; i++)
        if (!check_list(&list->via.array.ptr[i], parameter, type, level + 1, failure))
            return false;
    return true;
}

bool numbers_read(const msgpack_object *object, const char *parameter, struct array *array,
                  struct failure *failure)
{
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        *array = (struct array){.kind = ARRAY_LIST, .object = object};
        return list_shape(object, parameter, &array->type, failure) &&
               check_list(object, parameter, &array->type, 0, failure);
    }
    if (object_find(object, "field") || object_find(object, "region"))
        return failure_set(failure, STATUS_UNSUPPORTED, parameter,
                           "must be a list of numbers or an inline array, and no field or region");
    if (object->type != MSGPACK_OBJECT_MAP)
        return invalid_argument(failure, parameter, "must be a list of numbers or an inline array");
    memset(array, 0, sizeof *array);
    if (!read_inline(object, parameter, true, array, failure))
        return false;
    if (array->kind == ARRAY_DESCRIBED)
        return invalid_argument(failure, parameter, "the array's data is missing");
    return array->type.bytes <= LIMIT_BLOCK_BYTES ||
           failure_set_limit(failure, STATUS_TOO_LARGE, parameter, (double)array->type.bytes,
                             LIMIT_BLOCK_BYTES, "a parameter's numbers take at most %d bytes",
                             LIMIT_BLOCK_BYTES);
}

uint64_t numbers_count(const struct array *array)
{
    uint64_t count = array->type.dimensions > 0;
    for (uint32_t i = 0; i < array->type.dimensions; i++)
        count *= array->type.shape[i];
    return count;
}

/* Number i, in C order. */
static msgpack_object number_at(const struct array *array, uint64_t i)
{
    const struct array_element *element = &array->element;
    if (array->kind != ARRAY_LIST)
        return object_element(element->letter, element->bytes,
                              (const char *)array->small + i * element->bytes);
    const msgpack_object *list = array->object;
    uint64_t count = numbers_count(array);
    for (uint32_t d = 0; d < array->type.dimensions; d++, i %= count) {
        count /= array->type.shape[d];
        list = &list->via.array.ptr[i / count];
    }
    return *list;
}

void numbers_reals(const struct array *array, double *to)
{
    const uint64_t count = numbers_count(array);
    if (array->small && array->element.letter == 'f' && array->element.bytes == sizeof *to) {
        memcpy(to, array->small, array->type.bytes);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const msgpack_object number = number_at(array, i);
        object_real(&number, &to[i]);
    }
}

bool numbers_whole(const struct array *array, const char *parameter, uint64_t i, int64_t *to,
                   struct failure *failure)
{
    const msgpack_object number = number_at(array, i);
    return object_signed(&number, to) ||
           invalid_argument(failure, parameter, "one of its numbers is no whole number");
}

/* ---- arrays as errors name them ---- */

struct failure_place arrays_place(const struct arrays *arrays, const char *parameter, int component)
{
    return failure_place(parameter, arrays->is_vector ? axis_name((enum axis)component) : NULL);
}

struct array_shape_text array_shape_text(const uint64_t *shape, uint32_t dimensions)
{
    struct array_shape_text text = {"["};
    size_t used = 1;
    for (uint32_t i = 0; i < dimensions && used < sizeof text.text; i++)
        used += (size_t)snprintf(text.text + used, sizeof text.text - used, "%s%" PRIu64,
                                 i ? ", " : "", shape[i]);
    snprintf(text.text + (used < sizeof text.text - 5 ? used : sizeof text.text - 5), 5, "%s",
             used < sizeof text.text - 5 ? "]" : "...]");
    return text;
}

const char *array_dtype_text(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? "<f8" : "<f4";
}

bool array_check_alike(const struct array_type *given, const struct array_type *wanted,
                       const char *place, const char *whose, struct failure *failure)
{
    return (given->dtype == wanted->dtype && given->dimensions == wanted->dimensions &&
            memcmp(given->shape, wanted->shape, given->dimensions * sizeof *given->shape) == 0) ||
           invalid_argument(failure, place, "its type and shape are %s %s, and those of %s %s %s",
                            array_dtype_text(given->dtype),
                            array_shape_text(given->shape, given->dimensions).text, whose,
                            array_dtype_text(wanted->dtype),
                            array_shape_text(wanted->shape, wanted->dimensions).text);
}

bool array_is_list(uint64_t bytes)
{
    return bytes > UINT32_MAX; /* MessagePack counts the bytes of a bin in 32 bits */
}

static void write_key(msgpack_packer *packer, const char *key)
{
    msgpack_pack_bin_with_body(packer, key, strlen(key));
}

void array_write_shape(msgpack_packer *packer, const struct array_type *type)
{
    msgpack_pack_array(packer, type->dimensions);
    for (uint32_t i = 0; i < type->dimensions; i++)
        msgpack_pack_uint64(packer, type->shape[i]);
}

static void write_type(msgpack_packer *packer, const struct array_type *type, uint32_t pairs)
{
    msgpack_pack_map(packer, pairs);
    write_key(packer, "nd");
    msgpack_pack_true(packer);
    write_key(packer, "type");
    msgpack_pack_str_with_body(packer, array_dtype_text(type->dtype), 3);
    write_key(packer, "kind");
    msgpack_pack_bin(packer, 0);
    write_key(packer, "shape");
    array_write_shape(packer, type);
}

void array_write_description(msgpack_packer *packer, const struct array_type *type)
{
    write_type(packer, type, KEY_COUNT - 1);
}

void array_write_header(msgpack_packer *packer, const struct array_type *type)
{
    write_type(packer, type, KEY_COUNT);
    write_key(packer, "data");
    if (array_is_list(type->bytes))
        msgpack_pack_array(packer, (type->bytes + ARRAY_BIN_BYTES - 1) / ARRAY_BIN_BYTES);
    else
        msgpack_pack_bin(packer, type->bytes);
}
