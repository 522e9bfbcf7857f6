/* expert_columns.cuh - the columns of one expert, found by a block in their order. A column is the pair of choice j and
 * token t, number j + k*t; ids that are no expert count as expert n_expert. The ids are data (I4): nothing else depends
 * on them.
 *
 *     for (int at = 0, n; (n = rp_next_columns(ids, e, &at, found)) > 0;) use the columns found.list[0..n)
 *
 * Each warp of the block looks at 32 ids at a time; ballots give each of them its place in the list. */
#ifndef KERNELS_DEVICE_EXPERT_COLUMNS_CUH
#define KERNELS_DEVICE_EXPERT_COLUMNS_CUH

#include "kernels/device/device.cuh"

enum { RP_COLUMNS_THREADS = 256, RP_COLUMNS_MOST = 64 };

struct ExpertIds {
    const int32_t *ids; /* [k * t] */
    int            n, n_expert;
};

/* In shared memory. */
struct FoundColumns {
    int list[RP_COLUMNS_MOST];
    int of_warp[RP_COLUMNS_THREADS / RP_WARP];
    int next; /* the first id that has not been listed */
};

/* Lists the next columns of expert e from id *at on, at most RP_COLUMNS_MOST, for a block of RP_COLUMNS_THREADS
 * threads. Begins with a barrier, so that the list before may be read until the call. */
__device__ static inline int rp_next_columns(const ExpertIds &of, int e, int *at, FoundColumns &found) {
    const int tid = (int)threadIdx.x, warp = tid / RP_WARP;
    int       count = 0;
    while (*at < of.n && count < RP_COLUMNS_MOST) {
        const int      column = *at + tid;
        const int32_t  id     = column < of.n ? of.ids[column] : -1;
        const bool     mine   = column < of.n && (id >= 0 && id < of.n_expert ? id : of.n_expert) == e;
        const unsigned lanes  = __ballot_sync(RP_ALL_LANES, mine);
        __syncthreads(); /* the list before, `next` and the counts of the warps have been read */
        if (tid % RP_WARP == 0) found.of_warp[warp] = __popc(lanes);
        if (tid == 0) found.next = *at + RP_COLUMNS_THREADS;
        __syncthreads();
        int place = count + __popc(lanes & ((1u << tid % RP_WARP) - 1)), all = count;
        for (int w = 0; w < RP_COLUMNS_THREADS / RP_WARP; w++) {
            place += w < warp ? found.of_warp[w] : 0;
            all += found.of_warp[w];
        }
        if (mine && place < RP_COLUMNS_MOST) found.list[place] = column;
        if (mine && place == RP_COLUMNS_MOST) found.next = column;
        __syncthreads();
        *at   = found.next;
        count = all < RP_COLUMNS_MOST ? all : (int)RP_COLUMNS_MOST;
    }
    return count;
}

#endif
