/* Bandwidth of reads alone, the limit of a decode step: a kernel that reads a buffer once, as JSON.
 *
 *   cuda_read [DEVICE [MIB [RUNS]]]      MiB to read, default 4096; exit status 77 without a GPU
 *
 * geometry  8 blocks of 256 threads a multiprocessor; a thread reads 16 bytes, 8 times before it uses them
 * The buffer holds pseudo-random words: zeros take less power, and so run faster than weights. */
#include "bench/cuda_check.h"
#include "kernels/device/portable.cuh"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 256, BLOCKS_PER_SM = 8, AHEAD = 8 };

namespace {

/* Word i = a hash of i (the finaliser of MurmurHash3). */
__global__ void fill_kernel(uint32_t *p, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i;
        h          = (h ^ h >> 16) * 0x85ebca6bu;
        h          = (h ^ h >> 13) * 0xc2b2ae35u;
        p[i]       = h ^ h >> 16;
    }
}

/* Reads n * AHEAD * (threads of the grid) vectors of 16 bytes. The sum is used, so that no read is left out. */
__global__ void read_kernel(const uint4 *p, size_t n, uint32_t *sum) {
    const size_t all = (size_t)gridDim.x * blockDim.x, at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    uint32_t     x = 0;
    for (size_t i = 0; i < n; i++) {
        uint4 v[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) v[k] = rp_ldg16(p + (i * AHEAD + k) * all + at);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) x += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (x == 1) sum[0] = x;
}

} // namespace

static void launch(cudaStream_t s, const void *kernel, unsigned blocks, void **args) {
    CHECK(cudaLaunchKernel(kernel, dim3(blocks), dim3(THREADS), args, 0, s));
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median milliseconds of `runs` reads; the first, not counted, warms up. */
static float median_ms(cudaStream_t s, unsigned blocks, void **args, int runs) {
    cudaEvent_t a, b;
    float      *ms = (float *)calloc((size_t)runs, sizeof *ms);
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    for (int i = -1; i < runs; i++) {
        CHECK(cudaEventRecord(a, s));
        launch(s, RP_KERNEL(read_kernel), blocks, args);
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaEventElapsedTime(&ms[i < 0 ? 0 : i], a, b));
    }
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    const float median = ms[runs / 2];
    free(ms);
    return median;
}

int main(int argc, char *argv[]) {
    int            n = 0;
    cudaStream_t   s;
    cudaDeviceProp prop;
    uint32_t      *p, *sum;
    const int      device = argc > 1 ? atoi(argv[1]) : 0, runs = argc > 3 ? atoi(argv[3]) : 10;
    if (cudaGetDeviceCount(&n) != cudaSuccess || device >= n) {
        fprintf(stderr, "cuda_read: NOT RUN: no GPU\n");
        return 77;
    }
    CHECK(cudaSetDevice(device));
    CHECK(cudaGetDeviceProperties(&prop, device));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    const size_t   wanted = (argc > 2 ? (size_t)atoi(argv[2]) : 4096) << 20;
    const unsigned sms    = (unsigned)prop.multiProcessorCount;
    const size_t   most = wanted / (AHEAD * THREADS * sizeof(uint4)), grid = (size_t)sms * BLOCKS_PER_SM;
    const unsigned blocks = (unsigned)(most < grid ? most : grid);
    size_t         rounds = most / blocks, bytes = rounds * AHEAD * blocks * THREADS * sizeof(uint4);
    size_t         words = bytes / sizeof *p;
    CHECK(cudaMalloc((void **)&p, bytes));
    CHECK(cudaMalloc((void **)&sum, sizeof *sum));
    void *fill[] = {&p, &words}, *read[] = {&p, &rounds, &sum};
    launch(s, RP_KERNEL(fill_kernel), blocks, fill);
    const float ms = median_ms(s, blocks, read, runs);
    printf("{\"device\":\"%s\",\"bytes\":%zu,\"runs\":%d,\"read_bytes_s\":%.0f}\n", prop.name, bytes, runs,
           (double)bytes / (1e-3 * (double)ms));
    return 0;
}
