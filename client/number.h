/* Numbers as text, the same in every locale: the host application may have set a decimal comma. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Is the text (length bytes, not terminated) a number and nothing else? "nan" and "inf" are: the
 * server says what it takes. */
bool number_read(const char *text, size_t length, double *value);

/* The same of a whole number: digits and nothing else, in 64 bits. */
bool number_whole(const char *text, size_t length, uint64_t *value);

/* Some of these, one of the separators between any two: how many; 0 where it is no such list, or
 * has more than `most`. */
uint32_t number_list(const char *text, const char *separators, uint64_t *values, uint32_t most);

/* The fewest digits, 17 at most, that read back as the same double; NaN and infinity as null. */
void number_print(FILE *out, double value);
