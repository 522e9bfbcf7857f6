"""Logits to the next token."""
from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np

from . import _c
from ._arrays import Array, exact
from ._handle import Handle
from ._lib import lib, params
from .errors import ShapeError


class Sampler(Handle):
    """Chooses tokens: Sampler(n_vocab, temperature=0.8, seed=7). The same seed gives the same tokens. None: the default of
    rp_sampler_defaults, with which the token with the highest logit is chosen."""

    def __init__(self, n_vocab: int, *, temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
                 min_p: float | None = None, repeat_penalty: float | None = None, repeat_last_n: int | None = None,
                 seed: int | None = None) -> None:
        values = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repeat_penalty": repeat_penalty,
                  "repeat_last_n": repeat_last_n, "seed": seed}
        values = {name: value for name, value in values.items() if value is not None}
        given = _c.RpSamplerParams()
        lib.rp_sampler_defaults_sized(ct.byref(given), ct.sizeof(given))
        checked = params(_c.RpSamplerParams, **values)
        for name in values:
            setattr(given, name, getattr(checked, name))
        out = ct.c_void_p()
        lib.rp_sampler_new_sized(ct.byref(given), ct.sizeof(given), n_vocab, ct.byref(out))
        super().__init__(out.value or 0, lib.rp_sampler_free)

    @property
    def n_vocab(self) -> int:
        return int(lib.rp_sampler_n_vocab(self))

    def sample(self, logits: Any) -> int:
        """The next token from logits f32 [n_vocab]; it is accepted."""
        array = exact(logits, np.float32, "logits")
        if array.shape != (self.n_vocab,):
            raise ShapeError(f"logits {array.shape}: must be ({self.n_vocab},)")
        token = ct.c_int32()
        with self._use():
            lib.rp_sampler_sample(self, array.ctypes.data, ct.byref(token))
        return token.value

    def accept(self, token: int) -> None:
        """Tells the sampler about a token of the context, for the repetition penalty."""
        with self._use():
            lib.rp_sampler_accept(self, token)

    def reset(self) -> None:
        """Forgets the accepted tokens and starts the random sequence again."""
        with self._use():
            lib.rp_sampler_reset(self)

    def follow(self, token: int) -> None:
        """Brings the sampler up to date with an executor that sampled `token` from a copy of `state`."""
        with self._use():
            lib.rp_sampler_follow(self, token)

    @property
    def state(self) -> Array:
        """A copy of the step state (step.h), i32, for Executor.reply."""
        n = ct.c_uint64()
        with self._use():
            address = lib.rp_sampler_state(self, ct.byref(n))
            return np.frombuffer(ct.string_at(address, 4 * n.value), np.int32).copy()


def random_uniform(seed: int, counter: int) -> float:
    """Random number `counter` of `seed`, in [0, 1)."""
    return float(lib.rp_random_uniform(seed, counter))
