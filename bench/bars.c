#include "bench/bars.h"

#include "bench/row.h"
#include "bench/rows.h"

/* What a step, or an application, may take, as a share of the copy of what it must move. float64
 * has 0.9 of float32's, shapes that nothing divides 0.8. */
static void lines_and_flows(uint64_t cube, uint64_t plane)
{
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        const enum dtype type = (enum dtype)dtype;
        const double share = type == DTYPE_F32 ? 1 : 0.9;
        rows_adi(3, cube, cube, cube, type, false, "derivative", 0.173 * share);
        rows_adi(3, cube, cube, cube, type, false, "periodic", 0.173 * share);
        rows_adi(3, cube - 3, cube - 1, cube + 1, type, false, "derivative", 0.138 * share);
        rows_adi(2, plane, plane, 1, type, false, "derivative", 0);
        rows_adi(3, cube, cube, cube, type, true, "derivative", 0.097 * share);
        rows_adi(3, cube, cube, cube, type, true, "periodic", 0);
        rows_adi(3, cube - 3, cube - 1, cube + 1, type, true, "derivative", 0.078 * share);
        rows_flows(cube, cube, cube, type, 2, 0.9 * share);
        rows_flows(cube, cube, cube, type, 4, 0.7 * share);
        rows_flows(cube, cube, cube, type, 8, 0.217 * share);
        rows_flows(cube - 3, cube - 1, cube + 1, type, 2, 0.72 * share);
        rows_biharmonic(cube, cube, cube, type, 2, 0.43 * share);
        rows_biharmonic(cube, cube, cube, type, 8, 0.24 * share);
    }
}

static void stencils(uint64_t cube, uint64_t plane)
{
    static const char *const sides[] = {"value", "one-sided", "mirror", "nearest", "constant"};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        const double share = dtype == DTYPE_F32 ? 1 : 0.9;
        rows_stencil(3, cube, dtype, 1, true, "periodic", share * 0.88);
        rows_stencil(3, cube, dtype, 1, false, "periodic", share * 0.88);
        rows_stencil(3, cube, dtype, 4, true, "periodic", share * 0.88);
        rows_stencil(3, cube, dtype, 2, false, "periodic", share * 0.40);
        rows_stencil(2, plane, dtype, 1, true, "periodic", share * 0.88);
        rows_stencil(2, plane, dtype, 1, false, "periodic", share * 0.87);
        rows_stencil(2, plane, dtype, 4, false, "periodic", share * 0.6);
    }
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        rows_stencil(3, cube, DTYPE_F32, 1, true, sides[i], 0.75);
        rows_stencil(3, cube, DTYPE_F32, 1, false, sides[i], 0.75);
        rows_stencil(3, cube, DTYPE_F32, 4, true, sides[i], 0.75);
    }
}

void bars_cuda(void)
{
    const uint64_t cube = bench.small ? 64 : 512, steps = bench.small ? CHECK_STEPS : 1000;
    const uint64_t steps_3d = bench.small ? CHECK_STEPS : 100;
    const uint64_t plane = bench.small ? 256 : 4096, wide = bench.small ? 320 : 16384;
    /* float32, accuracy 8; then the other accuracies and float64 */
    for (uint64_t n = cube / 2; n <= 2 * cube; n *= 2)
        rows_cubes(n, DTYPE_F32, 1, 8, "periodic", 0.92);
    for (int accuracy = 2; accuracy <= 6; accuracy += 2)
        rows_cubes(cube, DTYPE_F32, 1, accuracy, "periodic", 0.92);
    for (int accuracy = 2; accuracy <= 8; accuracy += 2)
        rows_cubes(cube, DTYPE_F64, 1, accuracy, "periodic", 0.92);
    /* the other boundaries, and shapes that no vector or tile divides */
    rows_cubes(cube, DTYPE_F32, 1, 8, "endpoint", 0.85);
    rows_cubes(cube, DTYPE_F32, 1, 8, "one-sided", 0.85);
    rows_cubes(cube, DTYPE_F64, 1, 8, "one-sided", 0.85);
    rows_derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "periodic", 0.85);
    rows_derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "endpoint", 0.85);
    rows_derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "one-sided", 0.85);
    rows_derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 2, "one-sided", 0.85);
    rows_derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F64, 1, 8, "one-sided", 0.85);
    /* axes shorter than a window */
    rows_derivatives(plane, plane, 5, DTYPE_F32, 1, 8, "periodic", 0.80);
    rows_derivatives(plane, 7, plane, DTYPE_F32, 1, 6, "one-sided", 0.65);
    /* resident in L2 */
    for (uint64_t n = 64; n <= 128; n += 32) {
        rows_small_cubes(n);
        rows_cubes(n, DTYPE_F32, 1, 8, "periodic", 0);
    }
    /* the operators of a chain, with whole packs and without */
    rows_cubes(66, DTYPE_F32, 1, 8, "periodic", 0);
    for (uint64_t n = 64; n <= 66; n++)
        rows_laplacian(n, n, n, DTYPE_F32, 8, "periodic", 0);
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        rows_cubes(cube, (enum dtype)dtype, 2, 8, "periodic", 0.85);
        for (int accuracy = 2; accuracy <= 8; accuracy += 2)
            rows_laplacian(cube, cube, cube, (enum dtype)dtype, accuracy, "periodic", 0.85);
        rows_laplacian(cube, cube, cube, (enum dtype)dtype, 8, "one-sided", 0);
        rows_laplacian(cube + 1, cube - 1, cube - 3, (enum dtype)dtype, 8, "periodic", 0);
        rows_laplacian(cube + 1, cube - 1, cube - 3, (enum dtype)dtype, 8, "one-sided", 0);
        for (int accuracy = 2; accuracy <= 8; accuracy += 6)
            rows_laplacian(2 * plane, 2 * plane, 1, (enum dtype)dtype, accuracy, "periodic", 0);
        rows_laplacian(2 * plane - 3, 2 * plane - 1, 1, (enum dtype)dtype, 8, "periodic", 0);
    }
    rows_vector_operators(cube, cube, cube, DTYPE_F32, 8, "periodic", 0.85);
    for (int accuracy = 2; accuracy <= 6; accuracy += 2)
        rows_vector_operators(cube, cube, cube, DTYPE_F32, accuracy, "periodic", 0.85);
    rows_vector_operators(cube, cube, cube, DTYPE_F64, 8, "periodic", 0.85);
    rows_vector_operators(cube, cube, cube, DTYPE_F32, 8, "one-sided", 0);
    rows_vector_operators(cube + 1, cube - 1, cube - 3, DTYPE_F32, 8, "periodic", 0);
    /* sides with numbers */
    rows_laplacian(cube, cube, cube, DTYPE_F32, 2, "value", 0.80);
    rows_laplacian(cube, cube, cube, DTYPE_F32, 8, "value", 0.67);
    rows_laplacian(cube, cube, cube, DTYPE_F32, 8, "mixed", 0.65);
    rows_laplacian(cube, cube, cube, DTYPE_F32, 8, "curvature", 0.65);
    rows_laplacian(cube, cube, cube, DTYPE_F64, 8, "value", 0);
    rows_laplacian(cube + 1, cube - 1, cube - 3, DTYPE_F32, 8, "value", 0);
    rows_cubes(cube, DTYPE_F32, 1, 8, "value", 0);
    rows_vector_operators(cube, cube, cube, DTYPE_F32, 8, "value", 0.65);
    rows_vector_operators(cube, cube, cube, DTYPE_F32, 8, "mixed", 0);
    rows_diffusion(3, cube, DTYPE_F32, 8, steps_3d, "mixed", 0);
    static const double bars_16384[] = {3.4, 1.9, 1.2}, bars_4096[] = {2.2, 1.3, 0.9};
    for (int i = 0; i < 3; i++) {
        rows_diffusion(2, wide, DTYPE_F32, 2 << i, steps, "periodic", bars_16384[i]);
        rows_diffusion(2, wide, DTYPE_F32, 2 << i, steps, "halo", bars_16384[i]);
    }
    for (int i = 0; i < 3; i++) {
        rows_diffusion(2, plane, DTYPE_F32, 2 << i, steps, "periodic", bars_4096[i]);
        rows_diffusion(2, plane, DTYPE_F32, 2 << i, steps, "halo", bars_4096[i]);
        rows_diffusion(2, plane, DTYPE_F32, 2 << i, steps, "value", bars_4096[i]);
        rows_diffusion(2, plane, DTYPE_F32, 2 << i, steps, "derivative", bars_4096[i]);
    }
    rows_diffusion(2, plane, DTYPE_F64, 2, steps, "periodic", 0);
    rows_diffusion(2, plane - 1, DTYPE_F32, 2, steps, "value", 0);
    static const char *const of_3d[] = {"periodic", "value"};
    for (int b = 0; b < 2; b++) {
        rows_diffusion(3, cube, DTYPE_F32, 2, steps_3d, of_3d[b], 1.3);
        rows_diffusion(3, cube, DTYPE_F64, 2, steps_3d, of_3d[b], 1.2);
        rows_diffusion(3, cube, DTYPE_F32, 4, steps_3d, of_3d[b], 0.95);
        rows_diffusion(3, cube, DTYPE_F32, 8, steps_3d, of_3d[b], 0.85);
    }
    stencils(cube, 2 * plane);
    lines_and_flows(cube, 2 * plane);
    /* What a pass adds to its centred rows. */
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        rows_rk4(3, cube, (enum dtype)dtype, 2, "periodic", 2);
        rows_rk4(3, cube, (enum dtype)dtype, 8, "periodic", 0.79);
        rows_rk4(3, cube - 3, (enum dtype)dtype, 8, "periodic", 0.63);
        rows_rk4(2, 2 * plane, (enum dtype)dtype, 8, "periodic", 0.79);
        rows_diffusion_with_source(3, cube, (enum dtype)dtype, 2, "periodic", 0.87);
        rows_diffusion_with_source(3, cube, (enum dtype)dtype, 8, "periodic", 0);
        rows_diffusion_with_source(2, 2 * plane, (enum dtype)dtype, 2, "periodic", 0.87);
        for (int order = 3; order <= 4; order++) {
            rows_cubes(cube, (enum dtype)dtype, order, 8, "periodic", 0.88);
            rows_derivatives(cube - 3, cube - 1, cube + 1, (enum dtype)dtype, order, 8, "periodic",
                             0.7);
        }
    }
    rows_cubes(cube, DTYPE_F32, 4, 8, "one-sided", 0.88);
    for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++) {
        for (int axis = 0; axis < AXIS_COUNT; axis++)
            rows_by_coordinates(axis, cube, (enum dtype)dtype, 8, "periodic", 0.85);
        rows_by_coordinates(AXIS_COUNT, cube, (enum dtype)dtype, 2, "periodic", 0);
        rows_by_coordinates(AXIS_COUNT, cube, (enum dtype)dtype, 8, "periodic", 0.6);
        rows_by_coordinates(AXIS_COUNT, cube - 3, (enum dtype)dtype, 8, "periodic", 0.48);
    }
    rows_by_coordinates(AXIS_X, cube, DTYPE_F32, 8, "one-sided", 0.85);
    rows_by_coordinates(AXIS_COUNT, cube, DTYPE_F32, 8, "one-sided", 0.6);
}

void bars_host(void)
{
    const uint64_t cube = bench.quick ? 128 : 512, square = bench.quick ? 1024 : 4096;
    const uint64_t steps = bench.quick ? 5 : 10;
    rows_cubes(cube, DTYPE_F32, 1, 8, "periodic", 0.85);
    rows_cubes(cube, DTYPE_F64, 1, 8, "periodic", 0.85);
    rows_cubes(cube, DTYPE_F32, 1, 2, "periodic", 0.85);
    rows_derivatives(cube + 1, cube - 1, cube - 3, DTYPE_F32, 1, 8, "one-sided", 0.85);
    for (int accuracy = 2; accuracy <= 8; accuracy += 6)
        for (int dtype = DTYPE_F32; dtype <= DTYPE_F64; dtype++)
            rows_laplacian(cube, cube, cube, (enum dtype)dtype, accuracy, "periodic", 0.85);
    rows_vector_operators(cube, cube, cube, DTYPE_F32, 8, "periodic", 0.85);
    for (int accuracy = 2; accuracy <= 8; accuracy *= 2)
        rows_diffusion(2, square, DTYPE_F32, accuracy, steps, "halo", 0.85);
    rows_diffusion(2, square, DTYPE_F32, 8, steps, "periodic", 0.85);
    rows_diffusion(2, square, DTYPE_F32, 8, steps, "value", 0.85);
    for (int accuracy = 2; accuracy <= 8; accuracy += 6)
        rows_diffusion(3, cube, DTYPE_F32, accuracy, steps, "periodic", 0.85);
    rows_diffusion(3, cube, DTYPE_F64, 2, steps, "derivative", 0.85);
    for (uint64_t n = cube / 2; n >= 64; n /= 2) {
        rows_cubes(n, DTYPE_F32, 1, 8, "periodic", 0);
        rows_laplacian(n, n, n, DTYPE_F32, 8, "periodic", 0);
        rows_vector_operators(n, n, n, DTYPE_F32, 8, "periodic", 0);
    }
    /* General operators: their shares are written down; bench/host_peers.py has their bars. */
    rows_stencil(3, cube, DTYPE_F32, 1, true, "periodic", 0);
    rows_stencil(3, cube, DTYPE_F32, 1, false, "periodic", 0);
    rows_stencil(3, cube, DTYPE_F32, 2, false, "periodic", 0);
    rows_stencil(2, 2 * square, DTYPE_F32, 1, false, "periodic", 0);
    for (int accuracy = 2; accuracy <= 8; accuracy += 6) {
        rows_laplacian(cube, cube, cube, DTYPE_F32, accuracy, "value", 0);
        rows_diffusion(3, cube, DTYPE_F32, accuracy, steps, "value", 0);
        rows_rk4(3, cube, DTYPE_F32, accuracy, "periodic", 0);
        rows_flows(cube, cube, cube, DTYPE_F32, accuracy, 0);
    }
    for (int field = 0; field < 2; field++)
        rows_adi(3, cube, cube, cube, DTYPE_F32, field, "derivative", 0);
}
