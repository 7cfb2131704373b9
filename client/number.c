#include "client/number.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static locale_t plain;

static void plain_make(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* kept for the life of the process */
}

static locale_t plain_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, plain_make);
    return plain;
}

bool number_read(const char *text, size_t length, double *value)
{
    char copy[64];
    if (length == 0 || length >= sizeof copy || isspace((unsigned char)text[0]))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *end;
    const locale_t locale = plain_locale();
    *value = locale ? strtod_l(copy, &end, locale) : strtod(copy, &end);
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
    const locale_t locale = plain_locale();
    const locale_t old = locale ? uselocale(locale) : (locale_t)0;
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    if (locale)
        uselocale(old);
    fputs(text, out);
}
