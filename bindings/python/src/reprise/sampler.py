"""Logits to the next token."""
from __future__ import annotations

import ctypes as ct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _c
from ._arrays import Array, exact
from ._handle import Handle
from ._lib import encoded, integer, lib, params, real, texts
from .errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


class TokenLogprob(NamedTuple):
    """A token, the natural logarithm of its probability before any sampling, and the most probable tokens with theirs."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def biases(values: Mapping[int, float]) -> Any:
    """An array of RpLogitBias."""
    check = integer("i32")
    out = (_c.RpLogitBias * max(1, len(values)))()
    for item, (token, bias) in zip(out, values.items()): # noqa: B905: one more, where there is none
        item.token, item.bias = check("logit_bias", token), real("logit_bias", bias)
    return out


class Sampler(Handle):
    """Chooses tokens: Sampler(n_vocab, temperature=0.8, seed=7). The same seed gives the same tokens. None: the default of
    rp_sampler_defaults, with which the token with the highest logit is chosen. The steps and their order are those of llama.cpp
    (reprise/sampler.h).

    logit_bias   {token: bias}; -inf: never sampled
    samplers     the steps in another order, a list or "top_k;top_p;temperature"; those that are not named are off
    tokenizer    finds the tokens of dry_breakers; without it DRY has none
    """

    def __init__(self, n_vocab: int, *, temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
                 min_p: float | None = None, repeat_penalty: float | None = None, repeat_last_n: int | None = None,
                 seed: int | None = None, typical_p: float | None = None, top_n_sigma: float | None = None,
                 frequency_penalty: float | None = None, presence_penalty: float | None = None,
                 dry_multiplier: float | None = None, dry_base: float | None = None, dry_allowed_length: int | None = None,
                 dry_penalty_last_n: int | None = None, dry_breakers: Sequence[str] | None = None,
                 xtc_probability: float | None = None, xtc_threshold: float | None = None, min_keep: int | None = None,
                 mirostat: int | None = None, mirostat_tau: float | None = None, mirostat_eta: float | None = None,
                 dynatemp_range: float | None = None, dynatemp_exponent: float | None = None,
                 logit_bias: Mapping[int, float] | None = None, samplers: str | Sequence[str] | None = None,
                 tokenizer: Tokenizer | None = None) -> None:
        values = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repeat_penalty": repeat_penalty,
                  "repeat_last_n": repeat_last_n, "seed": seed, "typical_p": typical_p, "top_n_sigma": top_n_sigma,
                  "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty, "dry_multiplier": dry_multiplier,
                  "dry_base": dry_base, "dry_allowed_length": dry_allowed_length, "dry_penalty_last_n": dry_penalty_last_n,
                  "xtc_probability": xtc_probability, "xtc_threshold": xtc_threshold, "min_keep": min_keep, "mirostat": mirostat,
                  "mirostat_tau": mirostat_tau, "mirostat_eta": mirostat_eta, "dynatemp_range": dynatemp_range,
                  "dynatemp_exponent": dynatemp_exponent}
        values = {name: value for name, value in values.items() if value is not None}
        given = _c.RpSamplerParams()
        lib.rp_sampler_defaults_sized(ct.byref(given), ct.sizeof(given))
        checked = params(_c.RpSamplerParams, **values)
        for name in values:
            setattr(given, name, getattr(checked, name))
        order = samplers if samplers is None or isinstance(samplers, str) else ";".join(samplers)
        given.samplers = encoded("samplers", order)
        bias, (breakers, n_breakers) = biases(logit_bias or {}), texts(dry_breakers or ())
        given.logit_bias, given.n_logit_bias = ct.addressof(bias), len(logit_bias or {})
        if dry_breakers is not None:
            given.dry_breakers, given.n_dry_breakers = ct.addressof(breakers), n_breakers
        held = None if tokenizer is None else tokenizer._hold()
        try:
            if tokenizer is not None:
                given.tokenizer = tokenizer._pointer
            out = ct.c_void_p()
            lib.rp_sampler_new_sized(ct.byref(given), ct.sizeof(given), n_vocab, ct.byref(out))
        finally:
            if held is not None:
                held.release()
        super().__init__(out.value or 0, lib.rp_sampler_free)

    @property
    def host_only(self) -> str:
        """The parameters for which a GPU cannot sample by itself, "typical_p, min_keep"; "" if it can."""
        with self._use():
            return str(lib.rp_sampler_host_only(self))

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
        """Tells the sampler about a token of the context, for the penalties and DRY."""
        with self._use():
            lib.rp_sampler_accept(self, token)

    def suppress(self, tokenizer: Tokenizer | None) -> None:
        """Never samples the tokens of `tokenizer.suppressed` from now on; None: samples all. Sessions and engines call it."""
        with self._use():
            lib.rp_sampler_suppress(self, tokenizer)

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


def logprobs(logits: Any, token: int, n_top: int = 0) -> TokenLogprob:
    """The log probability of a token, and the n_top most probable tokens: log-softmax of logits f32 [n_vocab], before any
    sampling."""
    array = exact(logits, np.float32, "logits")
    if array.ndim != 1:
        raise ShapeError(f"logits {array.shape}: must be a vector")
    if n_top < 0:
        raise ArgumentError(f"n_top = {n_top}: must be at least 0")
    chosen, top = _c.RpTokenLogprob(), (_c.RpTokenLogprob * max(1, min(n_top, array.size)))()
    lib.rp_logprobs(array.ctypes.data, array.size, token, ct.byref(chosen), ct.byref(top), n_top)
    return TokenLogprob(chosen.token, chosen.logprob, tuple((of.token, of.logprob) for of in top[:n_top]))


def random_uniform(seed: int, counter: int) -> float:
    """Random number `counter` of `seed`, in [0, 1)."""
    return float(lib.rp_random_uniform(seed, counter))
