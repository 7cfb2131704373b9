/* Stencils that are so common that the build makes their kernels. */
#include "gpu/compile/source.h"

#include <string.h>

/* Offsets in C order, as numpy.ndindex gives them: what most programs write. */
static const struct shape {
    int axes, radius;
    bool star;
} shapes[] = {{3, 1, true}, {3, 1, false}, {3, 4, true},  {3, 2, false},
              {2, 1, true}, {2, 1, false}, {2, 2, false}, {2, 4, false}};

enum { KEYS_EACH = 4 };

_Static_assert(KEYS_EACH * sizeof shapes / sizeof *shapes == KERNEL_COMMON, "a key for each");

void kernel_common_key(struct kernel_key *key, int number)
{
    const struct shape *shape = &shapes[number / KEYS_EACH];
    const int variant = number % KEYS_EACH;
    const int r = shape->radius, of_z = shape->axes == 3 ? r : 0;
    memset(key, 0, sizeof *key);
    key->dtype = variant & 1 ? DTYPE_F64 : DTYPE_F32;
    key->axes = (uint8_t)shape->axes;
    key->aligned = variant < 2;
    for (int z = -of_z; z <= of_z; z++)
        for (int y = -r; y <= r; y++)
            for (int x = -r; x <= r; x++) {
                const int axes = (x != 0) + (y != 0) + (z != 0);
                if (shape->star && axes > 1)
                    continue;
                key->offsets[key->points][AXIS_X] = (int8_t)x;
                key->offsets[key->points][AXIS_Y] = (int8_t)y;
                key->offsets[key->points++][AXIS_Z] = (int8_t)z;
            }
}

bool kernel_is_common(const struct kernel_key *key)
{
    static struct kernel_key keys[KERNEL_COMMON];
    static bool made;
    for (int i = 0; i < KERNEL_COMMON && !made; i++)
        kernel_common_key(&keys[i], i);
    made = true;
    for (int i = 0; i < KERNEL_COMMON; i++)
        if (keys[i].points == key->points && memcmp(&keys[i], key, sizeof *key) == 0)
            return true;
    return false;
}
