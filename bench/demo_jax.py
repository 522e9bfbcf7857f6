"""The demo model and its loss in JAX, and its texts: chapters of the King James Bible, from Debian's package bible-kjv-text.

The architecture is qwen3moe: RMSNorm, grouped-query attention with RMS-normalised queries and keys, RoPE, and in each layer a
softmax router that selects 2 of 8 SwiGLU experts per token. Weights are {"embd", "norm", "layers"}; matrices are [in, out]."""
import re
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import optax

BATCH, CONTEXT = 16, 256
DIM, HEADS, HEADS_KV, HEAD_DIM, EXPERTS, TOP, ROPE_BASE, EPS = 256, 4, 2, 64, 8, 2, 10000.0, 1e-6
LAYERS, AUX = 4, 0.01
CAPACITY = 3 * TOP * BATCH * CONTEXT // (2 * EXPERTS)


def chapters():
    text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    out, last = [], None
    for line in text.splitlines():
        reference, verse = re.match(r"(\S+:)\d+ (.*)", line).groups()
        if reference != last:
            out.append([])
            last = reference
        out[-1].append(verse.strip())
    return [" ".join(verses) for verses in out]


def rms_norm(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * w


def rope(x):
    angle = jnp.arange(x.shape[1])[:, None] * ROPE_BASE ** (-jnp.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = x[..., : HEAD_DIM // 2], x[..., HEAD_DIM // 2:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(x, l):
    b, t, _ = x.shape
    q = rope(rms_norm((x @ l["q"]).reshape(b, t, HEADS, HEAD_DIM), l["q_norm"]))
    k = rope(rms_norm((x @ l["k"]).reshape(b, t, HEADS_KV, HEAD_DIM), l["k_norm"]))
    v = (x @ l["v"]).reshape(b, t, HEADS_KV, HEAD_DIM)
    k, v = (jnp.repeat(y, HEADS // HEADS_KV, 2) for y in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(HEAD_DIM)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v).reshape(b, t, -1) @ l["o"]


def experts(x, l):
    """Output of the experts, and the load-balancing loss of the router. An expert takes at most 1.5 times the mean number of
    tokens (CAPACITY); further ones are dropped."""
    shape, x = x.shape, x.reshape(-1, DIM)
    probs = jax.nn.softmax(x @ l["router"], -1)
    weight, chosen = jax.lax.top_k(probs, TOP)
    weight = (weight / weight.sum(-1, keepdims=True)).reshape(-1)
    chosen = chosen.reshape(-1)
    one_hot = jax.nn.one_hot(chosen, EXPERTS, dtype=jnp.int32)
    place = jnp.take_along_axis(jnp.cumsum(one_hot, 0) - 1, chosen[:, None], 1)[:, 0]
    token = jnp.arange(chosen.shape[0]) // TOP
    y = jnp.zeros((EXPERTS, CAPACITY, DIM)).at[chosen, place].set(x[token], mode="drop")
    y = jax.nn.silu(jnp.einsum("ecd,edf->ecf", y, l["gate"])) * jnp.einsum("ecd,edf->ecf", y, l["up"])
    y = jnp.einsum("ecf,efd->ecd", y, l["down"]).at[chosen, place].get(mode="fill", fill_value=0.0)
    balance = EXPERTS * jnp.sum(jnp.mean(one_hot.astype(jnp.float32), 0) * jnp.mean(probs, 0))
    return jnp.sum((y * weight[:, None]).reshape(-1, TOP, DIM), 1).reshape(shape), balance


def losses(p, ids):
    x, balance = p["embd"][ids[:, :-1]], 0.0
    for l in p["layers"]:
        x = x + attention(rms_norm(x, l["attn_norm"]), l)
        y, more = experts(rms_norm(x, l["ffn_norm"]), l)
        x, balance = x + y, balance + more
    logits = rms_norm(x, p["norm"]) @ p["embd"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean(), balance / LAYERS


def objective(p, ids):
    loss, balance = losses(p, ids)
    return loss + AUX * balance, loss
