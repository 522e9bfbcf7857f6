"""Embeddings of texts, and scores of documents for a query."""
from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _c
from ._arrays import Array, tokens_array
from ._handle import Handle
from ._lib import lib, params
from ._options import Mode, Norm, Pooling
from .errors import ArgumentError
from .executor import mode_number

if TYPE_CHECKING:
    from .model import Model

NORMS = {"default": 0, "none": -1, "max": -2}


class Ranked(NamedTuple):
    """A document, its place among those that were given, and its score: higher is better."""

    number: int
    score: float
    text: str


def norm_number(normalize: Norm) -> int:
    if normalize is None:
        return NORMS["none"]
    if isinstance(normalize, str):
        if normalize not in NORMS:
            raise ArgumentError(f"normalize {normalize!r}: must be None, 'default', 'none', 'max' or p of a p-norm")
        return NORMS[normalize]
    if normalize < 1:
        raise ArgumentError(f"normalize {normalize}: p of a p-norm must be 1 or more")
    return normalize


class Embedder(Handle):
    """Computes the embeddings of texts with `model`. One thread at a time may use it.

    n_ctx        tokens of the longest text; 0: the model's training context, at most 4096
    pooling      "none", "mean", "cls", "last" or "rank"; "default": as the file says
    normalize    p of a p-norm; "default": 2, and no norm of scores; "max": the largest number becomes 32760; None: as they are
    backend      a backend in a shared object (backend.h): a path, or a name in REPRISE_BACKEND_DIR; None: the built-in kernels
    dimensions   keep only this many numbers of a vector, the first ones, before it is normalised; 0: all
    """

    def __init__(self, model: Model, *, n_ctx: int = 0, n_threads: int = 0, pooling: Pooling = "default",
                 normalize: Norm = "default", dimensions: int = 0, prefill_chunk: int = 0, passes: str | None = None, device: str | None = None,
                 require_cuda: bool = False, require_graph: bool = False, mode: Mode = "auto", repack: str | None = None,
                 backend: str | None = None) -> None:
        kind = ct.c_int32()
        lib.rp_pooling_from_name(pooling, ct.byref(kind))
        options = params(
            _c.RpEmbedderOptions, n_ctx=n_ctx, n_threads=n_threads, pooling=kind.value, dimensions=dimensions,
            normalize=norm_number(normalize), prefill_chunk=prefill_chunk, passes=passes,
            device=device, require_cuda=require_cuda, require_graph=require_graph, mode=mode_number(mode), repack=repack,
            backend=backend)
        out = ct.c_void_p()
        lib.rp_embedder_open_sized(model, ct.byref(options), ct.sizeof(options), ct.byref(out))
        super().__init__(out.value or 0, lib.rp_embedder_free, (model._owner,))
        self.model = model

    def _info(self) -> _c.RpEmbedderInfo:
        raw = _c.RpEmbedderInfo()
        lib.rp_embedder_info_sized(self, ct.byref(raw), ct.sizeof(raw))
        return raw

    @property
    def n_out(self) -> int:
        """Numbers of a vector, or scores."""
        return int(self._info().n_out)

    @property
    def n_ctx(self) -> int:
        return int(self._info().n_ctx)

    @property
    def pooling(self) -> str:
        return str(lib.rp_pooling_name(self._info().pooling))

    def embed_tokens(self, tokens: Any) -> Array:
        """f32 [n_out] for ids, or [n, n_out] of pooling "none"."""
        ids = tokens_array(tokens, "tokens")
        shape = (len(ids), self.n_out) if self.pooling == "none" else (self.n_out,)
        out = np.empty(shape, np.float32)
        with self._use():
            lib.rp_embed(self, ids.ctypes.data, len(ids), out.ctypes.data)
        return out

    def embed(self, texts: str | Sequence[str]) -> Array | list[Array]:
        """f32 [n_out] for a text, [len(texts), n_out] for several. Of pooling "none" [n, n_out] for a text of n tokens, and a list of
        them for several."""
        several = [texts] if isinstance(texts, str) else list(texts)
        if self.pooling == "none":
            tokenizer = self.model.tokenizer
            if tokenizer is None:
                raise ArgumentError("the model has no tokenizer: give ids to embed_tokens")
            rows = [self.embed_tokens(tokenizer.encode(text, add_special=True)) for text in several]
            return rows[0] if isinstance(texts, str) else rows
        out = np.empty((len(several), self.n_out), np.float32)
        with self._use():
            for text, row in zip(several, out):
                data = text.encode()
                lib.rp_embed_text(self, data, len(data), row.ctypes.data)
        return out[0] if isinstance(texts, str) else out

    def score(self, query: str, document: str) -> float:
        """The score of one document (pooling "rank")."""
        out, q, d = ct.c_float(), query.encode(), document.encode()
        with self._use():
            lib.rp_rerank(self, q, len(q), d, len(d), ct.byref(out))
        return out.value

    def rerank(self, query: str, documents: Sequence[str]) -> list[Ranked]:
        """The documents with their scores, best first (pooling "rank")."""
        scored = [Ranked(i, self.score(query, text), text) for i, text in enumerate(documents)]
        return sorted(scored, key=lambda d: (-d.score, d.number))
