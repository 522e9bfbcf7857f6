/* attention_table.cuh - attention over a cache of blocks (op attention of reprise/ops.h): the tokens of a thread block,
 * and where the positions of their sequence lie. Keys and values of a tile are those of one sequence, so a thread block
 * takes one token, or a run of consecutive tokens of one sequence out of `together` tokens:
 *
 *     sequences of the tokens     0 0 0 0  0 2 2 2  2 2 1 1         together = 4
 *     runs                        0 0 0 0 |0|2 2 2 |2 2|1 1         one or two of four tokens here
 *
 * Sequences are data, so each `together` tokens get as many thread blocks, one for each run that there may be; those
 * without a run end at once. (With a loop over the runs the compiler computes what does not depend on the run before
 * it, and spills registers.) The bits of a row do not depend on the others of its thread block (attention.cu), and so
 * not on the runs. */
#ifndef KERNELS_DEVICE_ATTENTION_ATTENTION_TABLE_CUH
#define KERNELS_DEVICE_ATTENTION_ATTENTION_TABLE_CUH

#include "kernels/device/attention/attention_block.cuh"

namespace {

/* With up to this number of tokens each has its own thread blocks: most are of different sequences. */
enum { MOST_SEQUENCES = 16 };

struct BlockTable {
    const int32_t *table, *seq; /* [sequences][width] blocks; [tokens] */
    int            width, sequences, tokens, last;
    int            together;    /* most tokens of a thread block */
    unsigned       runs, magic; /* KvBlocks */
};

/* A source of attention_rows: the sequence whose blocks begin at `blocks`. */
template <int SIZE = 0, bool PLAIN = false> struct BlockCache {
    const BlockTable   &t;
    const int32_t      *blocks;
    bool                aligned;
    __device__ KvBlocks operator()(const RpTensorView &v, int64_t hk, const BlockRange &seen) const {
        return {
            {(const char *)v.data + hk * v.nb[2], (unsigned)v.nb[1], seen.from, seen.end, PLAIN ? SIZE : (int)v.ne[0],
             PLAIN || aligned},
            blocks,
            t.last,
            t.runs,
            t.magic
        };
    }
};

/* Calls f(first token, tokens, first row, blocks) for the run of the thread block, if there is one. A thread block has
 * `rows` rows, and per_kv of each token. A sequence that the table does not have must not become an address. */
template <class F> __device__ void with_run(const BlockTable &t, int per_kv, int rows, F f) {
    const int parts = t.together > 1 ? t.together : (per_kv + rows - 1) / rows; /* thread blocks of `together` tokens */
    const int z = (int)(gridDim.z - 1 - blockIdx.z), end = min((z / parts + 1) * t.together, t.tokens);
    int       first = z / parts * t.together, n = 1;
    for (int before = t.together > 1 ? z % parts : 0; before > 0 && first < end; first++)
        before -= first + 1 == end || t.seq[first + 1] != t.seq[first];
    if (first >= end) return;
    while (first + n < end && t.seq[first + n] == t.seq[first]) n++;
    f(first, n, t.together > 1 ? 0 : z % parts * rows,
      t.table + (int64_t)min(max(t.seq[first], 0), t.sequences - 1) * t.width);
}

/* ---- the host's side ---- */

/* For a cache of n_rows rows in blocks of `block`; `together` is the caller's. */
BlockTable table_of(const RpTensorView &table, const RpTensorView &seq, int32_t block, int64_t n_rows) {
    BlockTable t = {};
    t.table = (const int32_t *)table.data, t.seq = (const int32_t *)seq.data;
    t.width = (int)(table.nb[1] / sizeof(int32_t)), t.sequences = (int)table.ne[1], t.tokens = (int)seq.ne[0];
    t.last = (int)(n_rows / block) - 1, t.together = 1, t.runs = (unsigned)block / 32;
    t.magic = t.runs > 1 ? (unsigned)((((uint64_t)1 << 32) + t.runs - 1) / t.runs) : 0;
    return t;
}

} // namespace
#endif
