#!/usr/bin/env python3
"""Golden logits of the reference model, computed by NumPy in double precision, for a file of the preset `tiny`.

    build/reprise synth tiny --type F32 --seed 5 -o /tmp/tiny.gguf
    tools/golden/golden_nn.py /tmp/tiny.gguf OUT.txt SUMS.txt

Written from the model's description, not from Reprise's code: RMSNorm, RoPE of neighbouring pairs with base *
alpha^(d/(d-2)), grouped-query attention, a softmax router whose TOP best weights are normalised to a sum of 1, SwiGLU
experts, an output matrix that is not tied to the embedding. Keys and values are rounded to half precision, as in the KV
cache. OUT.txt: batch and length, the ids, then a line of logits for each token. SUMS.txt: for each weight of a layer, each
of its experts, and the output matrix, the number of tokens that it is multiplied with, and the sum of the squares of each element of these."""
import sys

import gguf
import numpy as np

BATCH, SEQ, EPS, BASE, ALPHA = 3, 11, 1e-5, 10000.0, 8.0
HEADS, HEADS_KV, DIM, TOP = 4, 1, 16, 2


SUMS = {}  # (name, expert): [tokens, sums of squares]


def note(name, x, expert=0):
    """x [tokens, elements] is what the weight is multiplied with."""
    of = SUMS.setdefault((name, expert), [0, 0.0])
    of[0] += len(x)
    of[1] = of[1] + (x * x).sum(0)


def norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rope(x):
    """x [seq, heads, dim]"""
    base = BASE * ALPHA ** (DIM / (DIM - 2))
    angle = np.arange(x.shape[0])[:, None] * base ** (-np.arange(0, DIM, 2) / DIM)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    y = np.empty_like(x)
    y[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    y[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return y


def attention(x, w, p):
    n = x.shape[0]
    for name in "attn_q.weight", "attn_k.weight", "attn_v.weight":
        note(p + name, x)
    q = rope((x @ w[p + "attn_q.weight"].T).reshape(n, HEADS, DIM))
    k = rope((x @ w[p + "attn_k.weight"].T).reshape(n, HEADS_KV, DIM))
    v = (x @ w[p + "attn_v.weight"].T).reshape(n, HEADS_KV, DIM)
    k, v = (y.astype(np.float16).astype(np.float64) for y in (k, v))  # as in the KV cache
    out = np.zeros((n, HEADS, DIM))
    for h in range(HEADS):
        g = h // (HEADS // HEADS_KV)
        scores = np.where(np.tril(np.ones((n, n), bool)), q[:, h] @ k[:, g].T / np.sqrt(DIM), -np.inf)
        out[:, h] = softmax(scores) @ v[:, g]
    note(p + "attn_output.weight", out.reshape(n, -1))
    return out.reshape(n, -1) @ w[p + "attn_output.weight"].T


def experts(x, w, p):
    out = np.zeros_like(x)
    note(p + "ffn_gate_inp.weight", x)
    for t, row in enumerate(x):
        probs = softmax(w[p + "ffn_gate_inp.weight"] @ row)
        chosen = np.argsort(-probs, kind="stable")[:TOP]
        for e in chosen:
            gate = w[p + "ffn_gate_exps.weight"][e] @ row
            up = w[p + "ffn_up_exps.weight"][e] @ row
            inner = gate / (1 + np.exp(-gate)) * up
            y = w[p + "ffn_down_exps.weight"][e] @ inner
            for name, source in ("gate", row), ("up", row), ("down", inner):
                note(f"{p}ffn_{name}_exps.weight", source[None], int(e))
            out[t] += probs[e] / probs[chosen].sum() * y
    return out


def forward(ids, w):
    x = w["token_embd.weight"][ids]
    layer = 0
    while f"blk.{layer}.attn_norm.weight" in w:
        p = f"blk.{layer}."
        x = x + attention(norm(x, w[p + "attn_norm.weight"]), w, p)
        x = x + experts(norm(x, w[p + "ffn_norm.weight"]), w, p)
        layer += 1
    x = norm(x, w["output_norm.weight"])
    note("output.weight", x)
    return x @ w["output.weight"].T


def main(path, out_path, sums_path):
    weights = {t.name: np.array(t.data, np.float64).reshape([int(n) for n in reversed(t.shape)])
               for t in gguf.GGUFReader(path).tensors}
    ids = np.random.default_rng(11).integers(0, weights["token_embd.weight"].shape[0], (BATCH, SEQ))
    with open(out_path, "w", encoding="ascii") as out:
        print(f"# numpy {np.__version__}", file=out)
        print("shape", BATCH, SEQ, file=out)
        print("ids", *ids.reshape(-1), file=out)
        for row in ids:
            for logits in forward(row, weights):
                print("logits", *(f"{x:.7g}" for x in logits), file=out)


    with open(sums_path, "w", encoding="ascii") as out:
        print(f"# numpy {np.__version__}", file=out)
        for (name, expert), (tokens, sums) in sorted(SUMS.items()):
            print(name, expert, tokens, *(f"{x:.7g}" for x in sums), file=out)


main(*sys.argv[1:4])
