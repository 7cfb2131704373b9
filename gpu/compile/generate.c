/* generate NUMBER FILE [padded | upwind]: the build's kernels of one common stencil, in both types,
 * for rows of whole packs and for any, and their table (gpu/cuda/stencil_kernels.h). Tests alone
 * have the build make others: padded, those that read a padding; upwind, those of the stencil's
 * points that lie on no high side. */
#include "gpu/compile/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 4 }; /* of a shape */

static void put_launch(FILE *file, const struct kernel_key *key, const char *name)
{
    const struct kernel_tile tile = kernel_tile_of(key);
    fprintf(file,
            "static cudaError_t launch_%s(unsigned blocks, void **arguments, cudaStream_t stream)\n"
            "{\n    static const int64_t shared = kernel_asks(%d, %lld);\n"
            "    static const cudaError_t allowed = cudaFuncSetAttribute(\n"
            "        %s, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);\n"
            "    return allowed != cudaSuccess ? cudaErrorInvalidConfiguration\n"
            "        : cudaLaunchKernel(%s, dim3(blocks), dim3(%d), arguments, (size_t)shared, "
            "stream);\n}\n",
            name, tile.wide * tile.high, (long long)tile.shared_bytes, name, name,
            tile.wide * tile.high);
}

static void put_row(FILE *file, const struct kernel_key *key, const char *name)
{
    fprintf(file, "    {{%d, %d, %d, %d, %d, {", key->dtype, key->axes, key->aligned, key->padded,
            key->points);
    for (int k = 0; k < key->points; k++)
        fprintf(file, "{%d, %d, %d}, ", key->offsets[k][0], key->offsets[k][1], key->offsets[k][2]);
    fprintf(file, "}, 0}, launch_%s},\n", name);
}

static void keep_upwind(struct kernel_key *key)
{
    const struct kernel_key whole = *key;
    memset(key->offsets, 0, sizeof key->offsets);
    key->points = 0;
    for (int k = 0; k < whole.points; k++) {
        const int8_t *const at = whole.offsets[k];
        if (at[AXIS_X] <= 0 && at[AXIS_Y] <= 0 && at[AXIS_Z] <= 0)
            memcpy(key->offsets[key->points++], at, sizeof whole.offsets[k]);
    }
}

int main(int count, char **arguments)
{
    const char *const variant = count == 4 ? arguments[3] : "";
    const bool padded = strcmp(variant, "padded") == 0, upwind = strcmp(variant, "upwind") == 0;
    const int number = count == 3 + (padded || upwind) ? atoi(arguments[1]) : -1;
    FILE *file = number >= 0 && number < KERNEL_COMMON / KEYS ? fopen(arguments[2], "w") : NULL;
    char *text = malloc(KERNEL_SOURCE_BYTES);
    static struct kernel_key keys[KEYS];
    char names[KEYS][KERNEL_NAME_BYTES];
    bool good = file && text;
    if (good)
        fprintf(file, "#include \"gpu/cuda/stencil_kernels.h\"\n");
    for (int i = 0; good && i < KEYS; i++) {
        kernel_common_key(&keys[i], KEYS * number + i);
        keys[i].padded = padded;
        if (upwind)
            keep_upwind(&keys[i]);
        snprintf(names[i], sizeof names[i], "stencil_%d_%d%s", number, i, variant);
        good = kernel_key_check(&keys[i]) &&
               kernel_source(&keys[i], names[i], text, KERNEL_SOURCE_BYTES);
        if (!good)
            break;
        fputs(text, file);
        put_launch(file, &keys[i], names[i]);
    }
    if (good) {
        fprintf(file, "extern \"C\" const struct stencil_kernel stencil_kernels_%s%s%d[] = {\n",
                variant, padded || upwind ? "_" : "", number);
        for (int i = 0; i < KEYS; i++)
            put_row(file, &keys[i], names[i]);
        fprintf(file, "};\n");
    }
    free(text);
    return good && fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
