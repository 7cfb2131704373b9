/* Texts of --help. */
#pragma once

#include <stdio.h>

/* Print the words of the text and a newline, in lines of at most 96 columns, each indented. */
void wrapped_print(FILE *out, const char *text, int indent);
