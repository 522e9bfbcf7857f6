"""The builder functions of graph.h as methods. Written by generate.py from the headers; do not edit.

Comments give shapes as C does, innermost dimension first; node.shape is the other way round, as in NumPy.
"""
from __future__ import annotations

import ctypes as ct
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from . import _c
from ._arrays import DtypeLike, dtype_number
from ._lib import choice, params

if TYPE_CHECKING:
    from .graph import Node


class Ops:
    @abstractmethod
    def _node(self, function: str, *arguments: Any) -> Node: ...

    @abstractmethod
    def _source(self, node: Node | None) -> int | None: ...

    def get_rows(self, w: Node, ids: Node) -> Node:
        """table w [n,rows] of any weight type, ids i32 [t] -> [n,t]"""
        return self._node("rp_get_rows", self._source(w), self._source(ids))

    def rms_norm(self, x: Node, w: Node | None = None, *, eps: float) -> Node:
        """x any, w [n] or NULL -> like x"""
        return self._node("rp_rms_norm", self._source(x), self._source(w), eps)

    def mul_mat(self, w: Node, x: Node) -> Node:
        """w [k,m,h_w,b_w] of any weight type, x [k,t,h,b] -> [m,t,h,b]; h_w divides h, b_w divides b"""
        return self._node("rp_mul_mat", self._source(w), self._source(x))

    def mul_mat_bound(self, w: Node, x: Node, pos: Node, bound: Literal["none", "rows", "inner"]) -> Node:
        """The same, limited to the positions in use: pos i32 [t], and a bound that is not RP_BOUND_NONE."""
        return self._node("rp_mul_mat_bound", self._source(w), self._source(x), self._source(pos),
                choice("bound", bound, {"none": 0, "rows": 1, "inner": 2}))

    def rope(self, x: Node, pos: Node, factors: Node | None = None, *, n_dims: int,
            mode: Literal["norm", "neox"] = "norm", freq_base: float = 10000.0, freq_scale: float = 1.0,
            ext_factor: float = 0.0, attn_factor: float = 1.0, beta_fast: float = 32.0, beta_slow: float = 1.0,
            n_ctx_orig: int = 0) -> Node:
        """x [n,h,t], pos i32 [t], frequency factors [n_dims/2] or NULL -> like x"""
        return self._node("rp_rope", self._source(x), self._source(pos), self._source(factors),
                ct.byref(params(_c.RpRopeParams, mode=choice("mode", mode, {"norm": 0, "neox": 1}), n_dims=n_dims, freq_base=freq_base, freq_scale=freq_scale, ext_factor=ext_factor, attn_factor=attn_factor, beta_fast=beta_fast, beta_slow=beta_slow, n_ctx_orig=n_ctx_orig)))

    def soft_max(self, x: Node, mask: Node | None = None, pos: Node | None = None, *, scale: float = 1.0,
            window: int = 0) -> Node:
        """x [n,t,h], mask f32 or f16 [n,t] or NULL, pos i32 [t] or NULL -> like x"""
        return self._node("rp_soft_max", self._source(x), self._source(mask), self._source(pos),
                ct.byref(params(_c.RpSoftMaxParams, scale=scale, window=window)))

    def soft_max_sinks(self, x: Node, mask: Node | None = None, pos: Node | None = None, sinks: Node | None = None,
            *, scale: float = 1.0, window: int = 0) -> Node:
        """The same with attention sinks [h], one per head, or NULL."""
        return self._node("rp_soft_max_sinks", self._source(x), self._source(mask), self._source(pos),
                self._source(sinks), ct.byref(params(_c.RpSoftMaxParams, scale=scale, window=window)))

    def attention(self, q: Node, k: Node, v: Node, pos: Node, sinks: Node | None = None, *, scale: float,
            window: int = 0, dtype: DtypeLike = "f32", causal: int = 0, block: int = 0) -> Node:
        """q [d,t,h], k and v f16, q8_0 or f32 [d,n_ctx,h_kv], pos i32 [t], sinks [h] or NULL -> [d,h,t], or q8_act
        [d*h,t]. Online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867). With f16 keys and values the
        attention pass makes this op out of mul_mat, soft_max and mul_mat. q8_0 keys and values can only be used
        through it. f32 keys and values allow a batch, no positions and a mask, as the row of the op in ops.h says;
        the mask is source 5 of rp_graph_op."""
        return self._node("rp_attention", self._source(q), self._source(k), self._source(v), self._source(pos),
                self._source(sinks),
                ct.byref(params(_c.RpAttentionParams, scale=scale, window=window, dtype=dtype_number(dtype), causal=causal, block=block)))

    def silu(self, x: Node) -> Node:
        """x any -> like x"""
        return self._node("rp_silu", self._source(x))

    def sigmoid(self, x: Node) -> Node:
        """x any -> like x"""
        return self._node("rp_sigmoid", self._source(x))

    def swiglu_oai(self, gate: Node, up: Node, alpha: float, limit: float) -> Node:
        """gate any, up like gate -> like gate; limit > 0"""
        return self._node("rp_swiglu_oai", self._source(gate), self._source(up), alpha, limit)

    def gelu(self, x: Node, kind: Literal["tanh", "erf"]) -> Node:
        """x any -> like x"""
        return self._node("rp_gelu", self._source(x), choice("kind", kind, {"tanh": 0, "erf": 1}))

    def mul(self, a: Node, b: Node) -> Node:
        """a any, b: each of its dimensions divides that of a and repeats -> like a"""
        return self._node("rp_mul", self._source(a), self._source(b))

    def add(self, a: Node, b: Node) -> Node:
        """a any, b: each of its dimensions divides that of a and repeats -> like a"""
        return self._node("rp_add", self._source(a), self._source(b))

    def scale(self, x: Node, scale: float, bias: float = 0.0) -> Node:
        """x any -> like x"""
        return self._node("rp_scale", self._source(x), scale, bias)

    def top_k(self, x: Node, bias: Node | None = None, *, k: int, n_group: int = 0, n_group_used: int = 0) -> Node:
        """x [n,t], bias [n] or NULL -> ids i32 [k,t]"""
        return self._node("rp_top_k", self._source(x), self._source(bias),
                ct.byref(params(_c.RpTopKParams, k=k, n_group=n_group, n_group_used=n_group_used)))

    def route(self, probs: Node, ids: Node, *, soft_max: bool = False, normalize: bool = False, scale: float = 1.0) -> Node:
        """probs [n,t], ids i32 [k,t] -> [k,t]"""
        return self._node("rp_route", self._source(probs), self._source(ids),
                ct.byref(params(_c.RpRouteParams, soft_max=soft_max, normalize=normalize, scale=scale)))

    def mul_mat_id(self, w: Node, x: Node, ids: Node) -> Node:
        """w [n,m,experts] of any weight type, x [n,1,t] or [n,k,t], ids i32 [k,t] -> [m,k,t]"""
        return self._node("rp_mul_mat_id", self._source(w), self._source(x), self._source(ids))

    def add_id(self, x: Node, b: Node, ids: Node) -> Node:
        """x [m,k,t], b [m,experts], ids i32 [k,t] -> like x"""
        return self._node("rp_add_id", self._source(x), self._source(b), self._source(ids))

    def combine(self, x: Node, weights: Node) -> Node:
        """x [n,k,t], weights [k,t] -> [n,t]"""
        return self._node("rp_combine", self._source(x), self._source(weights))

    def cast(self, x: Node, dtype: DtypeLike) -> Node:
        """Op copy: x any shape and strides, f32, f16 or bf16 (for q8_0: f32) -> the same shape in dtype, contiguous"""
        return self._node("rp_cast", self._source(x), dtype_number(dtype))

    def store(self, x: Node, dst: Node, pos: Node | None = None) -> Node:
        """Op copy into rows of `dst`, a state or a node: row pos[i] takes row i of x; rows with pos < 0 are not
        stored. x [n,t,..], dst [n,rows,..], pos i32 [t] or NULL for rows 0, 1, ... The result is `dst` after the
        store: read it through the result, so that the graph holds the order."""
        return self._node("rp_store", self._source(x), self._source(dst), self._source(pos))

    def sample(self, logits: Node, step: Node, scratch: Node) -> Node:
        """logits [n], step: a state of i32 words that begins with an RpStepState (step.h), scratch: a state [2n].
        Samples the next token into `step`; the result is `step` after sampling."""
        return self._node("rp_sample", self._source(logits), self._source(step), self._source(scratch))
