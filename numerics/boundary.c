#include "numerics/boundary.h"

#include "numerics/weights.h"

#include <stdio.h>
#include <string.h>

#define BOUNDARY_NUMBER(name, ...) BOUNDARY_##name,
static const uint8_t told[] = {BOUNDARY_LIST(BOUNDARY_NUMBER)};
#undef BOUNDARY_NUMBER

const struct boundary_traits *boundary_traits(uint32_t kind)
{
    static const struct boundary_traits unknown = {"?", 0, WEIGHTS_KINDS, WEIGHTS_KINDS};
    static const struct boundary_traits traits[BOUNDARY_KINDS] = {
        [BOUNDARY_ENDPOINT] = {"endpoint", BOUNDARY_WRAPS, WEIGHTS_ENDPOINT, WEIGHTS_ENDPOINT},
#define BOUNDARY_ROW(name, number, word, numbers, has, rows, conducts)                             \
    [BOUNDARY_##name] = {word, has, WEIGHTS_##rows, WEIGHTS_##conducts},
        BOUNDARY_LIST(BOUNDARY_ROW)
#undef BOUNDARY_ROW
    };
    return kind < BOUNDARY_KINDS ? &traits[kind] : &unknown;
}

int boundary_find(const char *word, size_t length, unsigned has)
{
    for (size_t k = 0; k < sizeof told; k++) {
        const struct boundary_traits *traits = boundary_traits(told[k]);
        if ((traits->has & has) == has && strlen(traits->word) == length &&
            memcmp(traits->word, word, length) == 0)
            return told[k];
    }
    return -1;
}

struct boundary_words boundary_words(unsigned has, const char *last)
{
    struct boundary_words words = {""};
    const char *before = NULL; /* a word that is not written yet: it may be the last one */
    size_t used = 0;
    for (size_t k = 0; k < sizeof told; k++) {
        const struct boundary_traits *traits = boundary_traits(told[k]);
        if ((traits->has & has) != has)
            continue;
        if (before)
            used += (size_t)snprintf(words.text + used, sizeof words.text - used, "%s%s",
                                     used ? ", " : "", before);
        before = traits->word;
    }
    snprintf(words.text + used, sizeof words.text - used, "%s%s", last, before);
    return words;
}

bool boundary_is_held(const struct boundary *boundary)
{
    return boundary_traits(boundary->kind)->has & BOUNDARY_HOLDS && !boundary->at_face;
}

bool boundary_is_periodic(const struct boundary *boundary)
{
    return boundary_traits(boundary->kind)->has & BOUNDARY_WRAPS;
}

bool boundary_is_zero(const struct boundary *boundary)
{
    return boundary->value == 0 && boundary->value_array == NUMBER_CONSTANT;
}
