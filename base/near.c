#include "base/near.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Words of the field, and of other libraries, for names of this project. */
static const struct {
    const char *word, *name;
} synonyms[] = {{"alpha", "diffusivity"}, {"bc", "boundary"},        {"device", "placement"},
                {"dirichlet", "value"},   {"dx", "spacing"},         {"dy", "spacing"},
                {"dz", "spacing"},        {"h", "spacing"},          {"kappa", "diffusivity"},
                {"laplace", "laplacian"}, {"neumann", "derivative"}, {"robin", "mixed"}};

enum { WORD_BYTES = 32 }; /* longer ones are near to nothing: no name is as long */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c == '-' ? '_' : c);
}

/* Optimal string alignment: letters replaced, left out or put in, and neighbours swapped, each one
 * edit. Both are shorter than WORD_BYTES. */
static uint32_t edits_between(const char *a, const char *b)
{
    uint32_t rows[3][WORD_BYTES + 1];
    uint32_t *before = rows[0], *last = rows[1], *row = rows[2];
    const uint32_t a_length = (uint32_t)strlen(a), b_length = (uint32_t)strlen(b);
    for (uint32_t j = 0; j <= b_length; j++)
        last[j] = j;
    for (uint32_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (uint32_t j = 1; j <= b_length; j++) {
            const char p = lower(a[i - 1]), q = lower(b[j - 1]);
            row[j] = least(last[j - 1] + (p != q), least(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && p == lower(b[j - 2]) && lower(a[i - 2]) == q)
                row[j] = least(row[j], before[j - 2] + 1);
        }
        uint32_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b_length];
}

void near_begin(struct near *near, const char *word)
{
    *near = (struct near){.word = word};
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcasecmp(word, synonyms[i].word) == 0)
            near->word = synonyms[i].name;
}

void near_try(struct near *near, const char *name)
{
    const size_t length = strlen(near->word);
    if (length >= WORD_BYTES || strlen(name) >= WORD_BYTES)
        return;
    const uint32_t most = length < 3 ? 1 : (uint32_t)(length + 1) / 3;
    uint32_t edits = edits_between(near->word, name);
    if (length >= 3 && strncasecmp(name, near->word, length) == 0)
        edits = least(edits, 1);
    if (edits > most || edits >= length)
        return;
    uint32_t at = near->count;
    while (at > 0 && near->best[at - 1].edits > edits)
        at--;
    if (at == NEAR_MOST)
        return;
    near->count += near->count < NEAR_MOST;
    memmove(&near->best[at + 1], &near->best[at], (near->count - at - 1) * sizeof *near->best);
    near->best[at] = (struct near_name){name, edits};
}

struct near_text near_text(const struct near *near)
{
    struct near_text text = {""};
    int used = 0;
    for (uint32_t i = 0; i < near->count; i++)
        used += snprintf(text.text + used, sizeof text.text - (size_t)used, "%s%s",
                         i == 0                 ? "; did you mean "
                         : i + 1 == near->count ? " or "
                                                : ", ",
                         near->best[i].name);
    if (used > 0)
        snprintf(text.text + used, sizeof text.text - (size_t)used, "?");
    return text;
}

struct near_text near_mean(const char *name)
{
    const struct near one = {.word = name, .count = 1, .best = {{name, 0}}};
    return near_text(&one);
}
