"""NumPy in place of a function of libreprise_nn that the library lacks. Arguments: the inputs of its row in rules.py and those
outputs that it reads, then the other parameters. Results: the inputs that it changes, then its outputs."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import quants

ERF = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=-1, keepdims=True)


def gelu(x: Any, exact: int) -> Any:
    inside = ERF(x / math.sqrt(2)) if exact else np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + inside)


def rmsnorm(x: Any, weight: Any, eps: float) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * (1.0 if weight is None else weight)


def topk(x: Any, k: int) -> Any:
    ids = np.argsort(-np.where(np.isnan(x), -np.inf, x), axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, ids, -1), ids


def route(logits: Any, k: int, by_sigmoid: int, normalize: int) -> Any:
    probs = sigmoid(logits) if by_sigmoid else softmax(logits)
    weights, ids = topk(probs, k)
    return probs, ids, weights / np.maximum(np.sum(weights, axis=-1, keepdims=True), 2.0**-14) if normalize else weights


# ---- products ----


def gemm(a: Any, b: Any, c: Any, alpha: float, beta: float) -> Any:
    return alpha * (a @ b) + (beta * c if beta else 0)


def gemm_batched(a: Any, b: Any, c: Any, alpha: float, beta: float, transpose_a: int, transpose_b: int) -> Any:
    return gemm(np.swapaxes(a, -1, -2) if transpose_a else a, np.swapaxes(b, -1, -2) if transpose_b else b, c, alpha, beta)


def expert_gemm(blocks: Any, x: Any, ids: Any, dtype: int, experts: int, rows: int, x_each: int) -> Any:
    w = quants.dequantize(blocks, dtype, (experts, rows, x.shape[-1])).astype(np.float64)
    known = (ids >= 0) & (ids < experts)
    chosen = w[np.where(known, ids, 0)] * known[..., None, None]
    return np.einsum("tkrc,tkc->tkr", chosen, x) if x_each else np.einsum("tkrc,tc->tkr", chosen, x.reshape(len(ids), -1))


# ---- attention ----


def rope(q: Any, k: Any, freqs: Any, positions: Any, halves: int, sign: int = 1) -> Any:
    angle = sign * np.maximum(positions, 0)[:, :, None, None] * freqs
    n = freqs.size
    first, second = (slice(0, n), slice(n, 2 * n)) if halves else (slice(0, 2 * n, 2), slice(1, 2 * n, 2))

    def rotated(x: Any) -> Any:
        y, a, b = x.copy(), x[..., first], x[..., second]
        y[..., first], y[..., second] = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
        return y
    return rotated(q), None if k is None else rotated(k)


def probabilities(q: Any, k: Any, scale: float, mask: Any) -> Any:
    """[batch,heads,seq_q,seq_k]; a query that sees no key has only 0."""
    scores = scale * np.einsum("bthd,bihd->bhti", q, np.repeat(k, q.shape[2] // max(k.shape[2], 1), 2))
    scores = scores if mask is None else scores + mask
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(top == -np.inf, 0, top))
    return e / np.where(top == -np.inf, 1, np.sum(e, axis=-1, keepdims=True))


def causal_mask(q: Any, k: Any, is_causal: int) -> Any:
    t, i = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])
    return np.where(i > t + k.shape[1] - q.shape[1], -np.inf, 0) if is_causal else None


def attention(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    return np.einsum("bhti,bihd->bthd", probabilities(q, k, scale, mask), np.repeat(v, q.shape[2] // max(v.shape[2], 1), 2))


def attention_backward(q: Any, k: Any, v: Any, out: Any, dout: Any, scale: float, is_causal: int) -> Any:
    share = q.shape[2] // max(k.shape[2], 1)
    p = probabilities(q, k, scale, causal_mask(q, k, is_causal))
    ds = p * (np.einsum("bthd,bihd->bhti", dout, np.repeat(v, share, 2)) - np.einsum("bthd,bthd->bht", dout, out)[..., None])

    def shared(x: Any) -> Any: # sums over the query heads of a key head
        return x.reshape(*k.shape[:3], share, -1).sum(3)
    return (scale * np.einsum("bhti,bihd->bthd", ds, np.repeat(k, share, 2)),
            scale * shared(np.einsum("bhti,bthd->bihd", ds, q)), shared(np.einsum("bhti,bthd->bihd", p, dout)))


# ---- tokens ----


def philox(seeds: Any) -> Any:
    """The first words of Philox4x32-10 (Salmon et al. 2011) of counter 0 and these keys."""
    low = np.uint64(0xffffffff)
    key = [seeds & low, seeds >> np.uint64(32)]
    c = [np.zeros_like(seeds) for _ in range(4)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ key[0], b & low, (a >> np.uint64(32)) ^ c[3] ^ key[1], a & low]
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return c[0]


def argmax(logits: Any) -> Any:
    return np.argmax(np.where(np.isnan(logits), -np.inf, logits), axis=-1)


def sample(logits: Any, seeds: Any, temperature: float, k: int | None = None, p: float = 1.0) -> Any:
    """With the integers of nn.h: weights of 40 bits, in order; the first of the `k` at which their sum is above u * all."""
    logits = np.where(np.isnan(logits), -np.inf, logits)
    if temperature == 0:
        return np.where(np.max(logits, axis=-1) == -np.inf, -1, argmax(logits))
    values, order = topk(logits, logits.shape[-1] if k is None else k)
    same = values == values[..., :1]
    weights = np.floor(2.0**40 * np.where(same, 1, np.exp((values - values[..., :1]) / temperature)))
    sums = np.cumsum(weights, axis=-1)
    if p < 1:
        n = np.sum(sums < np.ceil(p * sums[..., -1:]), axis=-1, keepdims=True)
        sums = np.minimum(sums, np.take_along_axis(sums, n, -1))
    u = (philox(seeds) >> np.uint64(8)).astype(np.float64)[..., None] * 2.0**-24
    chosen = np.argmax(sums > np.floor(u * sums[..., -1:]), axis=-1)[..., None]
    return np.where(values[..., 0] == -np.inf, -1, np.take_along_axis(order, chosen, -1)[..., 0])


# ---- training ----


def cross_entropy(logits: Any, targets: Any) -> Any:
    shifted = logits - np.max(logits, axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    taken = np.take_along_axis(log_probs, np.maximum(targets, 0)[..., None], -1)[..., 0]
    return np.where(targets < 0, 0, -taken), log_probs


def cross_entropy_backward(logits: Any, targets: Any, dlosses: Any) -> Any:
    hit = np.arange(logits.shape[-1]) == targets[..., None]
    return np.where(targets[..., None] < 0, 0, (softmax(logits) - hit) * dlosses[..., None])


def aux_loss(probs: Any, ids: Any) -> Any:
    experts = probs.shape[-1]
    load = np.array([np.sum(ids == e) for e in range(experts)]) / max(ids.size, 1)
    return load, experts * np.sum(load * np.mean(probs.reshape(-1, experts), axis=0))


def adamw_step(param: Any, grad: Any, m: Any, v: Any, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float,
               step: int) -> Any:
    m, v = m + (1 - beta1) * (grad - m), beta2 * v + (1 - beta2) * grad**2
    update = m / (np.sqrt(v) / math.sqrt(1 - beta2**step) + eps)
    return param * (1 - lr * weight_decay) - lr / (1 - beta1**step) * update, m, v


def grad_norm(grad: Any, sums: Any, first: int) -> Any:
    """Only the norm is kept between calls."""
    out = np.zeros_like(sums)
    out[0] = np.sqrt(np.sum(grad**2) + (0 if first else sums[0] ** 2))
    return out


def gelu_backward(x: Any, dy: Any, exact: int) -> Any:
    if exact:
        return dy * (0.5 * (1 + ERF(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
    t = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x))


def rmsnorm_backward(x: Any, weight: Any, dy: Any, eps: float) -> Any:
    rstd = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    scaled = dy if weight is None else dy * weight
    dx = rstd * scaled - x * rstd**3 * np.mean(scaled * x, axis=-1, keepdims=True)
    return dx, np.sum((dy * x * rstd).reshape(-1, x.shape[-1]), axis=0), rstd[..., 0]


FALLBACK: dict[str, Any] = {
    "silu": lambda x: x * sigmoid(x),
    "gelu": gelu,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "scale": lambda x, factor: factor * x,
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "topk": topk,
    "route": route,
    "combine": lambda x, weights: np.einsum("...kd,...k->...d", x, weights),
    "gemm": gemm,
    "gemm_batched": gemm_batched,
    "gemv_q": lambda w, x, dtype, rows: quants.dequantize(w, dtype, (rows, x.size)).astype(np.float64) @ x,
    "expert_gemm": expert_gemm,
    "dequantize": lambda w, dtype, n: quants.dequantize(w, dtype, n),
    "quantize": lambda x, dtype: quants.quantize(x.astype(np.float32).reshape(-1), dtype),
    "quantized_bytes": quants.row_bytes,
    "rope": rope,
    "mqa_attention": attention,
    "flash_attention": lambda q, k, v, scale, is_causal: attention(q, k, v, causal_mask(q, k, is_causal), scale),
    "argmax": argmax,
    "sample": sample,
    "topk_sample": lambda logits, seeds, k, temperature: sample(logits, seeds, temperature, k),
    "topp_sample": lambda logits, seeds, p, temperature: sample(logits, seeds, temperature, p=p),
    "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy_backward,
    "aux_loss": aux_loss,
    "aux_loss_backward": lambda load, dloss, tokens: load.size * load / tokens * dloss + np.zeros((tokens, 1)),
    "adamw_step": adamw_step,
    "grad_norm": grad_norm,
    "grad_clip": lambda grad, norm, max_norm: grad * np.minimum(1, max_norm / (norm.flat[0] + 1e-6)),
    "silu_backward": lambda x, dy: dy * sigmoid(x) * (1 + x * (1 - sigmoid(x))),
    "gelu_backward": gelu_backward,
    "softmax_backward": lambda y, dy: y * (dy - np.sum(y * dy, axis=-1, keepdims=True)),
    "rmsnorm_backward": rmsnorm_backward,
    "rope_backward": lambda dq, dk, freqs, positions, halves: rope(dq, dk, freqs, positions, halves, -1),
    "attention_backward": attention_backward,
}
