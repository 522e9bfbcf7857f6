"""NumPy in place of a function of libreprise_nn that the library lacks. Arguments: the inputs of its row in _nn_rules, then the other
parameters; results: its outputs."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

ERF = np.vectorize(math.erf, otypes=[np.float64])


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


def route(logits: Any, k: int, sigmoid: int, normalize: int) -> Any:
    probs = 1 / (1 + np.exp(-logits)) if sigmoid else softmax(logits)
    weights, ids = topk(probs, k)
    return probs, ids, weights / np.maximum(np.sum(weights, axis=-1, keepdims=True), 2.0**-14) if normalize else weights


FALLBACK: dict[str, Any] = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": gelu,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "scale": lambda x, factor: factor * x,
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "topk": topk,
    "route": route,
    "combine": lambda x, weights: np.einsum("...kd,...k->...d", x, weights),
}
