/* kernels/device/mma.cuh: products of random matrices against sums in double, in all orders of blocks and warps, and
 * the errors of its functions. The suite ptx_mma runs the same from PTX. */
#include "sim/device/sim.h"
#include "tests/sim/device/mma_kernels.h"
#include "tests/support/case.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 32, COLUMNS = 24, DEPTH = 96, N_ORDERS = 3 };

typedef enum Type { F16, BF16, S8, F16_TRANS } Type;

/* Matrices on the device, and the values of their elements. d holds what is added to. */
typedef struct Product {
    Type     type;
    double   a[ROWS][DEPTH], b[COLUMNS][DEPTH], d[ROWS][COLUMNS], size[ROWS][COLUMNS];
    void    *device[3];
    uint32_t result[ROWS][COLUMNS];
} Product;

static uint32_t rnd(uint32_t *state) {
    *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
    return *state;
}

/* A random element: its bits, and its value in *v. The floats have 4 fraction bits and exponents from -8 to 7. */
static uint16_t element(Type type, uint32_t *state, double *v) {
    const uint32_t r        = rnd(state);
    const unsigned fraction = r >> 8 & 15, sign = r >> 12 & 1;
    const int      exponent = (int)(r >> 16 & 15) - 8;
    if (type == S8) {
        *v = (int)(r >> 8 & 255) - 128;
        return (uint16_t)((int)*v & 255);
    }
    *v = ldexp(1 + fraction / 16.0, exponent) * (sign ? -1 : 1);
    if (type == BF16) return (uint16_t)(sign << 15 | (unsigned)(exponent + 127) << 7 | fraction << 3);
    return (uint16_t)(sign << 15 | (unsigned)(exponent + 15) << 10 | fraction << 6);
}

/* Copies a matrix of n vectors along the depth to the device; transposed: element k of vector i is at [k][i]. */
static void *upload(Type type, double *values, int n, uint32_t *state) {
    const size_t bytes = type == S8 ? 1 : 2, count = (size_t)n * DEPTH;
    char        *host = malloc(count * bytes);
    void        *device;
    cr_assert_not_null(host);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < DEPTH; k++) {
            const uint16_t e  = element(type, state, &values[i * DEPTH + k]);
            const size_t   at = (size_t)(type == F16_TRANS ? k * n + i : i * DEPTH + k);
            memcpy(host + at * bytes, &e, bytes);
        }
    cr_assert_eq(cudaMalloc(&device, count * bytes), cudaSuccess);
    cr_assert_eq(cudaMemcpy(device, host, count * bytes, cudaMemcpyHostToDevice), cudaSuccess);
    free(host);
    return device;
}

static void open_product(Product *p, Type type) {
    uint32_t state = 12345 + (uint32_t)type;
    *p             = (Product){.type = type};
    p->device[0]   = upload(type, &p->a[0][0], ROWS, &state);
    p->device[1]   = upload(type, &p->b[0][0], COLUMNS, &state);
    cr_assert_eq(cudaMalloc(&p->device[2], sizeof p->result), cudaSuccess);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            const int32_t first = (int32_t)(rnd(&state) % 2000) - 1000;
            p->d[i][j] = p->size[i][j] = first;
            for (int k = 0; k < DEPTH; k++) {
                p->d[i][j] += p->a[i][k] * p->b[j][k];
                p->size[i][j] += fabs(p->a[i][k] * p->b[j][k]);
            }
            const float as_float = (float)first;
            memcpy(&p->result[i][j], type == S8 ? (const void *)&first : (const void *)&as_float, 4);
        }
}

static void launch(Product *p, const void *kernel, int order) {
    int                depth  = DEPTH;
    void              *args[] = {&p->device[0], &p->device[1], &p->device[2], &depth, NULL};
    cudaLaunchConfig_t c      = {
             .gridDim  = {COLUMNS / 8, ROWS / 16, 1},
             .blockDim = {32,          1,         1},
    };
    sim_sched(order, 1);
    cr_assert_eq(cudaMemcpy(p->device[2], p->result, sizeof p->result, cudaMemcpyHostToDevice), cudaSuccess);
    cr_assert_eq(cudaLaunchKernelExC(&c, kernel, args), cudaSuccess);
    cr_assert_eq(cudaMemcpy(p->result, p->device[2], sizeof p->result, cudaMemcpyDeviceToHost), cudaSuccess);
}

static void close_product(Product *p) {
    for (int i = 0; i < 3; i++) cr_assert_eq(cudaFree(p->device[i]), cudaSuccess, CASE(i));
}

/* Each step rounds a sum once (twice before sm_80), so the error is at most that many roundings of the sum of sizes. */
static void multiplies(Type type, const void *kernel) {
    static Product  p;
    static uint32_t first[ROWS][COLUMNS];
    for (int order = 0; order < N_ORDERS; order++) {
        open_product(&p, type);
        launch(&p, kernel, order);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) {
                float   f;
                int32_t n;
                memcpy(&f, &p.result[i][j], 4), memcpy(&n, &p.result[i][j], 4);
                const double got       = type == S8 ? (double)n : (double)f;
                const double tolerance = type == S8 ? 0 : p.size[i][j] * DEPTH * 0x1p-24;
                cr_assert(fabs(got - p.d[i][j]) <= tolerance, "row %d column %d: %g, expected %g", i, j, got,
                          p.d[i][j]);
            }
        if (order == 0) memcpy(first, p.result, sizeof first);
        cr_expect_arr_eq(first, p.result, sizeof first, "bits depend on the order of blocks and warps");
        close_product(&p);
    }
}

Test(mma, multiplies_f16) { multiplies(F16, mma_test_f16()); }
Test(mma, multiplies_bf16) { multiplies(BF16, mma_test_bf16()); }
Test(mma, multiplies_s8) { multiplies(S8, mma_test_s8()); }
Test(mma, multiplies_transposed_matrices) { multiplies(F16_TRANS, mma_test_f16_trans()); }

/* The kernel ends the process with status 99 and one of the texts on stderr: of the simulated device or of PTX. */
static void ends_with(const void *kernel, const char *text, const char *text_of_ptx) {
    static Product p;
    int            fd[2], status = 0;
    char           all[2048] = "";
    size_t         n         = 0;
    open_product(&p, F16);
    cr_assert_eq(pipe(fd), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 2);
        launch(&p, kernel, 0);
        _exit(0);
    }
    close(fd[1]);
    for (ssize_t r; n < sizeof all - 1 && (r = read(fd[0], all + n, sizeof all - 1 - n)) > 0;) n += (size_t)r;
    close(fd[0]);
    waitpid(child, &status, 0);
    const bool ptx = getenv("REPRISE_SIM") != NULL;
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 99, "status %d", status);
    cr_expect_not_null(strstr(all, ptx ? text_of_ptx : text), "%s", all);
    close_product(&p);
}

Test(mma, needs_all_lanes) {
    ends_with(mma_test_without_a_lane(), "deadlock in mma_test_kernel<F16, LANE>",
              "needs all 32 lanes of the warp, but lanes 0x00000080");
}
Test(mma, reads_aligned_rows) {
    ends_with(mma_test_misaligned(), "misaligned ldmatrix", "16 bytes at the misaligned address");
}

/* Before sm_80 a copy has landed when it is issued. */
Test(mma, reads_nothing_before_the_wait) {
    const char *capability = getenv("SIM_CAPABILITY");
    if (capability != NULL && atoi(capability) < 80) cr_skip_test("copies are not asynchronous");
#ifdef SIM_RACE
    const char *text = "read of memory that was never written";
#else
    const char *text = "cp.async copies that it never waited for";
#endif
    ends_with(mma_test_without_a_wait(), text, "of shared memory at 0x400 that were not written");
}
