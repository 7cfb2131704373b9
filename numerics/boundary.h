/* The kinds of boundaries: what is assumed of f beyond a side of an axis. No other file switches on
 * a kind: words, checks, weights and maps come from the traits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/cdefs.h>

__BEGIN_DECLS

enum { SIDE_LOW, SIDE_HIGH, SIDE_COUNT }; /* index 0, index n − 1 */

enum boundary_has {
    BOUNDARY_HAS_VALUE = 1,    /* a number; struct boundary.value */
    BOUNDARY_HAS_CONSTANT = 2, /* another one; struct job_more.constant */
    BOUNDARY_HAS_PLACE = 4,    /* the node or the face; its numbers may be arrays over the face */
    BOUNDARY_HOLDS = 8,        /* stated at the node, its value is the node's own */
    BOUNDARY_IS_HALO = 16,     /* the outermost points are data */
    BOUNDARY_WRAPS = 32,       /* both sides of an axis have it, or none */
    BOUNDARY_MIRRORS = 64, /* ∂n f alone: it may be taken as the mirror image about its place */
    BOUNDARY_OF_STENCILS = 128, /* for user-defined stencils alone: no rows of weights assume it */
    BOUNDARY_STATES = BOUNDARY_HAS_VALUE | BOUNDARY_HAS_PLACE
};

/* The kinds that have a word, in the order of messages and manuals; ∂n is the derivative along the
 * outward normal.
 *
 *   PERIODIC       f(i) = f(i mod n)
 *   ONE_SIDED      no assumption: closures look inwards
 *   SYMMETRIC      f(−1 − i) = f(i): NumPy's pad "symmetric"
 *   MIRROR         f(−i) = f(i): NumPy's pad "reflect"
 *   ANTISYMMETRIC  f(−1 − i) = −f(i)
 *   VALUE          f = `value` at the node or the face
 *   DERIVATIVE     ∂n f = `value`
 *   MIXED          ∂n f + `value` f = the side's job_more.constant
 *   CURVATURE      ∂n² f = `value`
 *   HALO           the outermost radius layers are data, multiplied by `value` each step
 *   NEAREST        f beyond the side is f at its edge node
 *   CONSTANT       f beyond the side is `value`
 *
 * X(name, its number in a job, word, how an option writes its numbers, enum boundary_has, enum
 *   weights_kind of the points next to it, … where the diffusivity is a field) */
#define BOUNDARY_LIST(X)                                                                           \
    X(PERIODIC, 0, "periodic", "", BOUNDARY_WRAPS, PERIODIC, PERIODIC)                             \
    X(ONE_SIDED, 2, "one-sided", "", 0, ONE_SIDED, ONE_SIDED)                                      \
    X(SYMMETRIC, 8, "symmetric", "", 0, SYMMETRIC, SYMMETRIC)                                      \
    X(MIRROR, 9, "mirror", "", 0, MIRROR, MIRROR)                                                  \
    X(ANTISYMMETRIC, 10, "antisymmetric", "", 0, ANTISYMMETRIC, ANTISYMMETRIC)                     \
    X(VALUE, 3, "value", ":V", BOUNDARY_STATES | BOUNDARY_HOLDS, VALUE, ODD)                       \
    X(DERIVATIVE, 4, "derivative", ":V", BOUNDARY_STATES | BOUNDARY_MIRRORS, DERIVATIVE, EVEN)     \
    X(MIXED, 6, "mixed", ":V:CONST", BOUNDARY_STATES | BOUNDARY_HAS_CONSTANT, DERIVATIVE, EVEN)    \
    X(CURVATURE, 7, "curvature", ":V", BOUNDARY_STATES, CURVATURE, CURVATURE)                      \
    X(HALO, 5, "halo", ":FACTOR", BOUNDARY_HAS_VALUE | BOUNDARY_IS_HALO, HALO, HALO)               \
    X(NEAREST, 11, "nearest", "", BOUNDARY_OF_STENCILS, NEAREST, NEAREST)                          \
    X(CONSTANT, 12, "constant", ":V", BOUNDARY_HAS_VALUE | BOUNDARY_OF_STENCILS, CONSTANT, CONSTANT)

#define BOUNDARY_ENUMERATOR(name, number, ...) BOUNDARY_##name = (number),
enum boundary_kind {
    BOUNDARY_LIST(BOUNDARY_ENUMERATOR) BOUNDARY_ENDPOINT =
        1, /* periodic, and the last point repeats the first: `endpoint` asks */
    BOUNDARY_KINDS = 13
};
#undef BOUNDARY_ENUMERATOR

/* How an index beyond a side is brought back: f(i) = ±f(the image). */
enum side_map {
    SIDE_MAP_NONE,          /* never asked for: rows or held points keep reads inside */
    SIDE_MAP_PERIODIC,      /* i mod n */
    SIDE_MAP_ENDPOINT,      /* i mod (n − 1) */
    SIDE_MAP_GHOST,         /* stencils: no image, the side's rows give the value */
    SIDE_MAP_NEAREST,       /* stencils: the edge node */
    SIDE_MAP_FACE,          /* about half a cell outside */
    SIDE_MAP_NODE,          /* about the edge node */
    SIDE_MAP_ANTISYMMETRIC, /* − the image about half a cell outside */
    SIDE_MAP_ODD_FACE,      /* twice the side's value − the image; images of k are its own */
    SIDE_MAP_ODD_NODE
};

/* Where a number of a boundary comes from. */
enum boundary_number {
    NUMBER_CONSTANT,   /* the number itself */
    NUMBER_FACE,       /* an operand array over the face: one number for each of its points */
    NUMBER_FACE_BATCH, /* … and each field of the batch */
    NUMBER_KINDS
};

struct boundary {
    double value;           /* as its kind says; 0 where it has none or an array in its place */
    uint32_t kind;          /* enum boundary_kind */
    uint8_t at_face;        /* stated half a cell outside */
    uint8_t value_array;    /* enum boundary_number */
    uint8_t constant_array; /* enum boundary_number */
    uint8_t reserved;       /* 0 */
};

struct boundary_traits {
    const char *word;
    uint8_t has;      /* enum boundary_has, or'ed */
    uint8_t rows;     /* enum weights_kind */
    uint8_t conducts; /* … where job_conducts() */
};

/* Of a kind; of a number that is none, those of a kind without a word or anything else. */
const struct boundary_traits *boundary_traits(uint32_t kind);

/* The kind of that word which has all of `has`; −1: none. */
int boundary_find(const char *word, size_t length, unsigned has);

/* The words of all kinds that have all of `has`, with ", " between them and `last` before the last
 * one: "value, derivative and mixed". */
struct boundary_words {
    char text[128];
};
struct boundary_words boundary_words(unsigned has, const char *last);

/* Does the side's node hold its value, and need no row? */
bool boundary_is_held(const struct boundary *boundary);
/* Of both sides or of none. */
bool boundary_is_periodic(const struct boundary *boundary);
/* Is the number that it states 0 everywhere? */
bool boundary_is_zero(const struct boundary *boundary);

__END_DECLS
