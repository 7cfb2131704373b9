#include "client/file.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* A .npy file of that version, header text and count of data bytes; freed by the caller. */
static uint8_t *file_make(int version, const char *text, size_t data_bytes, size_t *length)
{
    const size_t before = version == 1 ? 10 : 12, header = strlen(text);
    *length = before + header + data_bytes;
    uint8_t *file = calloc(1, *length);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version;
    file[8] = (uint8_t)header;
    file[9] = (uint8_t)(header >> 8);
    memcpy(file + before, text, header);
    return file;
}

static bool read_text(int version, const char *text, size_t data_bytes,
                      struct fdclient_array *array, struct fdclient_error *error)
{
    size_t length;
    uint8_t *file = file_make(version, text, data_bytes, &length);
    const bool read = npy_read(file, length, array, error);
    if (read)
        assert_ptr_equal(array->data, file + length - data_bytes);
    free(file);
    return read;
}

TEST(test_versions_and_forms)
{
    struct fdclient_array array;
    struct fdclient_error error;
    for (int version = 1; version <= 3; version++) {
        assert_true(read_text(version,
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }\n",
                              96, &array, &error));
        assert_int_equal(array.dtype, FDCLIENT_F32);
        assert_int_equal(array.dimensions, 3);
        assert_int_equal(array.shape[0], 2);
        assert_int_equal(array.shape[2], 4);
    }
    assert_true(read_text(1, "{\"shape\":(5,),\"fortran_order\":False,\"descr\":\"<f8\"}", 40,
                          &array, &error));
    assert_int_equal(array.dtype, FDCLIENT_F64);
    assert_int_equal(array.dimensions, 1);
    assert_true(read_text(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L)}", 24,
                          &array, &error));
}

TEST(test_refused)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", ">f4"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", "<i4"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", "structured"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "no dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "shape 0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", "needs 28"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         "4294967296x"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "64 bits"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,6), }",
         "8 dimensions"},
        {"{'descr': '<f4', 'fortran_order': False, }", "lacks"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,), }", "shape"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (6,), }", "fortran_order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", "more"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", "cannot be read"},
        {"{'descr': '<f4", "descr"},
        {"['descr']", "dictionary"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fdclient_array array;
        struct fdclient_error error;
        assert_false(read_text(1, cases[i].text, 24, &array, &error));
        assert_string_equal(error.code, "FILE");
        if (!strstr(error.message, cases[i].said))
            fail_msg("'%s' does not say '%s'", error.message, cases[i].said);
    }
}

TEST(test_every_truncation_is_refused)
{
    size_t whole;
    uint8_t *file =
        file_make(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, &whole);
    struct fdclient_array array;
    struct fdclient_error error;
    assert_true(npy_read(file, whole, &array, &error));
    for (size_t length = 0; length < whole; length++) {
        uint8_t *part =
            malloc(length ? length : 1); /* its own block, so that ASan sees every overrun */
        memcpy(part, file, length);
        assert_false(npy_read(part, length, &array, &error));
        free(part);
    }
    file[6] = 9;
    assert_false(npy_read(file, whole, &array, &error));
    free(file);
}

TEST(test_written_is_read)
{
    struct fdclient_array array = {.dtype = FDCLIENT_F64}, back;
    for (array.dimensions = 1; array.dimensions <= FDCLIENT_DIMENSIONS; array.dimensions++) {
        char file[NPY_HEADER_BYTES + 8 * 256];
        size_t data = 8;
        struct fdclient_error error;
        array.shape[array.dimensions - 1] = 2;
        data <<= array.dimensions;
        const size_t header = npy_write(&array, file);
        assert_int_equal(header % 64, 0);
        assert_true(npy_read(file, header + data, &back, &error));
        assert_ptr_equal(back.data, file + header);
        assert_int_equal(back.dimensions, array.dimensions);
        assert_memory_equal(back.shape, array.shape, array.dimensions * sizeof *array.shape);
    }
    /* The longest header that there can be fits. */
    array.dimensions = FDCLIENT_DIMENSIONS;
    for (int i = 0; i < FDCLIENT_DIMENSIONS; i++)
        array.shape[i] = UINT64_MAX;
    char file[NPY_HEADER_BYTES];
    assert_true(npy_write(&array, file) <= sizeof file);
}
