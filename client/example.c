/* The x derivative of cos(2πi/n) on a 64³ grid, by a running fdserver. */
#include <fdclient.h>

#include <math.h>
#include <stdio.h>

enum { N = 64 };
static float f[N][N][N], derivative[N][N][N];

int main(void)
{
    const double k = 2 * acos(-1) / N;
    for (int z = 0; z < N; z++)
        for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++)
                f[z][y][x] = (float)cos(k * x);

    struct fdclient_error error;
    struct fdclient *client = fdclient_open(NULL, &error);
    struct fdclient_params params = FDCLIENT_PARAMS;
    params.axis = "x"; /* accuracy 8, spacing 1, periodic */
    const struct fdclient_array input = {FDCLIENT_F32, 3, {N, N, N}, f, 0};
    struct fdclient_result result = {.data = derivative, .capacity = sizeof derivative};
    if (!client || !fdclient_run(client, "derivative", &input, &params, &result, &error)) {
        fprintf(stderr, "%s: %s\n", error.code, error.message);
        return 1;
    }
    double worst = 0;
    for (int x = 0; x < N; x++)
        worst = fmax(worst, fabs(derivative[N / 2][N / 2][x] + k * sin(k * x)));
    printf("maximum error %.2e\n", worst);
    fdclient_close(client);
    return 0;
}
