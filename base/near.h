/* "did you mean accuracy?": names that a mistyped word is near to. */
#pragma once

#include <stdint.h>

/* Names to show at most; candidates may be many more. */
enum { NEAR_MOST = 3 };

struct near {
    const char *word; /* borrowed, as names are */
    uint32_t count;
    struct near_name {
        const char *name;
        uint32_t edits;
    } best[NEAR_MOST]; /* the nearest first */
};

/* Begin with the word that was given. */
void near_begin(struct near *near, const char *word);

/* Is this name near to it, or meant by it ("dx": spacing)? Names differ by few letters that are
 * wrong, missing, too many or swapped (fewer for short words), or the word is the beginning of the
 * name. Case does not count. */
void near_try(struct near *near, const char *name);

/* "; did you mean a, b or c?", or "" where none was near. */
struct near_text {
    char text[128];
};
struct near_text near_text(const struct near *near);

/* "; did you mean name?" */
struct near_text near_mean(const char *name);
