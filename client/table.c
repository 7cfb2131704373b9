#include "client/table.h"

#include "client/json_write.h"
#include "protocol/object.h"

#include <stdlib.h>
#include <string.h>

/* A value as a cell: a string without its quotes, a list of numbers as 64x64x64. Owned by the
 * caller. */
static char *cell_text(const msgpack_object *value)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);
    if (!memory)
        return NULL;
    if (!value) {
        fputc('-', memory);
    } else if (value->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < value->via.array.size; i++) {
            if (i > 0)
                fputc('x', memory);
            json_write(memory, &value->via.array.ptr[i], 0);
        }
    } else {
        json_write(memory, value, 0);
    }
    fclose(memory);
    if (value && value->type == MSGPACK_OBJECT_STR && length >= 2) {
        memmove(text, text + 1, length - 2);
        text[length - 2] = '\0';
    }
    return text;
}

enum { COLUMNS = 16 };

void table_print(FILE *out, const msgpack_object *answer)
{
    const msgpack_object *fields = object_find(answer, "fields");
    if (!fields || fields->type != MSGPACK_OBJECT_ARRAY || fields->via.array.size == 0 ||
        fields->via.array.ptr[0].type != MSGPACK_OBJECT_MAP)
        return;
    const msgpack_object_map *head = &fields->via.array.ptr[0].via.map;
    const uint32_t columns = head->size < COLUMNS ? head->size : COLUMNS;
    const uint32_t rows = fields->via.array.size + 1; /* the keys, then the fields */
    char **cells = calloc((size_t)rows * columns + 1, sizeof *cells);
    char *keys[COLUMNS] = {0};
    int width[COLUMNS] = {0};
    for (uint32_t c = 0; cells && c < columns; c++) {
        keys[c] = cell_text(&head->ptr[c].key);
        for (uint32_t r = 0; r < rows && keys[c]; r++) {
            char *cell = r == 0 ? strdup(keys[c])
                                : cell_text(object_find(&fields->via.array.ptr[r - 1], keys[c]));
            cells[(size_t)r * columns + c] = cell;
            if (cell && (int)strlen(cell) > width[c])
                width[c] = (int)strlen(cell);
        }
    }
    for (uint32_t r = 0; cells && r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            char *cell = cells[(size_t)r * columns + c];
            if (c + 1 < columns)
                fprintf(out, "%-*s  ", width[c], cell ? cell : "-");
            else
                fprintf(out, "%s\n", cell ? cell : "-");
            free(cell);
        }
    for (uint32_t c = 0; c < columns; c++)
        free(keys[c]);
    free(cells);
}
