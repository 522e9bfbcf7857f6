"""The gate of a mixture of experts as a custom op, with a CUDA kernel that is compiled at run time and a function of NumPy for the CPU;
as examples/moe_gate.c does it in C.

    p[t,e]    = softmax over e of scores[t,e]
    gate[t,e] = p[t,e] / (sum of p over the k chosen experts)    if e is one of the k largest; ties: the lower index
                0                                                otherwise

REPRISE_DEVICE selects the device (default: a GPU if there is one)."""
import numpy as np

import reprise

N_TOKENS, N_EXPERTS, TOP_K = 3, 40, 4

# One warp a token. `before` is an order of the experts: by score, then by index. Each round finds the first expert behind the one
# of the round before.
KERNEL = """
struct Pick { float score; int e; };
__device__ bool before(Pick a, Pick b) { return a.score > b.score || (a.score == b.score && a.e < b.e); }

__global__ void moe_gate(const __grid_constant__ RpArgs a) {
    const float *x = (const float *)rp_row(a.unary.x, blockIdx.x);
    float       *y = (float *)rp_row(a.dst, blockIdx.x);
    const int    n = (int)a.dst.ne[0], lane = threadIdx.x;
    Pick         last = {INFINITY, -1}, first = last;
    float        sum = 0.0f;
    for (int k = 0; k < TOP_K; k++) {
        Pick best = {-INFINITY, n};
        for (int e = lane; e < n; e += 32)
            if (before(last, {x[e], e}) && before({x[e], e}, best)) best = {x[e], e};
        for (int d = 16; d > 0; d /= 2) {
            const Pick other = {__shfl_xor_sync(~0u, best.score, d), __shfl_xor_sync(~0u, best.e, d)};
            if (before(other, best)) best = other;
        }
        if (k == 0) first = best;
        last = best;
        sum += expf(best.score - first.score);
    }
    for (int e = lane; e < n; e += 32)
        y[e] = before(last, {x[e], e}) ? 0.0f : expf(x[e] - first.score) / sum;
}
"""


def gate(scores):
    chosen = np.argsort(-scores, axis=-1, kind="stable")[:, :TOP_K]
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    kept = np.zeros_like(e)
    np.put_along_axis(kept, chosen, np.take_along_axis(e, chosen, -1), -1)
    return kept / kept.sum(axis=-1, keepdims=True)


# Block b computes row b.
reprise.custom_op("moe_gate", gate, source_names=["scores"], cuda=KERNEL, grid="rows", block=32, options=[f"-DTOP_K={TOP_K}"])

g = reprise.Graph()
scores = g.input("scores", (N_TOKENS, N_EXPERTS))
g.finish(g.op("moe_gate", scores).named("gates"))
with reprise.Executor(g) as executor:
    print(executor.info.device, executor.info.kernels)
    gates, = executor.run(scores=2 * np.sin(1.7 * np.arange(N_TOKENS * N_EXPERTS)).reshape(N_TOKENS, N_EXPERTS))
    for t, row in enumerate(gates):
        print(f"token {t}:", *(f"  expert {e} {row[e]:.4f}" for e in np.flatnonzero(row)), sep="")
    difference = max(largest for _, largest in executor.verify())
    print(f"largest difference to NumPy: {difference:.1e}")
