#include "base/wrapped.h"

#include <string.h>

void wrapped_print(FILE *out, const char *text, int indent)
{
    int column = indent;
    fprintf(out, "%*s", indent, "");
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (column > indent && column + (int)word > 96) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word, text);
        column += (int)word;
        text += word + strspn(text + word, " ");
    }
    fputc('\n', out);
}
