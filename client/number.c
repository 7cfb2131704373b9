#include "client/number.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* glibc and musl have one object for it, which is neither made nor freed. */
static locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool number_read(const char *text, size_t length, double *value)
{
    char copy[64];
    if (length == 0 || length >= sizeof copy || isspace((unsigned char)text[0]))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *end;
    *value = strtod_l(copy, &end, plain_locale());
    return end == copy + length;
}

bool number_whole(const char *text, size_t length, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(text[i] - '0'), value))
            return false;
    return length > 0;
}

uint32_t number_list(const char *text, const char *separators, uint64_t *values, uint32_t most)
{
    for (uint32_t count = 0; count < most;) {
        const size_t length = strcspn(text, separators);
        if (!number_whole(text, length, &values[count++]))
            return 0;
        if (!text[length])
            return count;
        text += length + 1;
    }
    return 0;
}

void number_print(FILE *out, double value)
{
    if (!isfinite(value)) {
        fputs("null", out);
        return;
    }
    const locale_t before = uselocale(plain_locale());
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    uselocale(before);
    fputs(text, out);
}
