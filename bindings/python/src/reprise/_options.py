"""Keyword options that several calls take. Editors complete them and mypy checks them, also where a method passes them on. The
calls that read an option name its default; tests/test_options.py compares both lists."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._arrays import DtypeLike
from ._callback import Progress

if TYPE_CHECKING:
    from .chat import ToolCallLog, ToolChoice
    from .grammar import Grammar
    from .model import Model
    from .sampler import Sampler
    from .tokenizer import Tokenizer

Mode = Literal["auto", "eager", "replay", "loop"]
Pooling = Literal["default", "none", "mean", "cls", "last", "rank"]
Norm = int | str | None
Schedule = Literal["constant", "cosine"]
Note = tuple[str, float, float] # text, heat of 0 to 1 or -1, microseconds


class Sampling(TypedDict, total=False):
    """Options of Sampler. None: the default."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repeat_penalty: float | None
    repeat_last_n: int | None
    seed: int | None
    typical_p: float | None
    top_n_sigma: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    dry_penalty_last_n: int | None
    dry_breakers: Sequence[str] | None
    xtc_probability: float | None
    xtc_threshold: float | None
    min_keep: int | None
    mirostat: int | None
    mirostat_tau: float | None
    mirostat_eta: float | None
    dynatemp_range: float | None
    dynatemp_exponent: float | None
    logit_bias: Mapping[int, float] | None
    samplers: str | Sequence[str] | None
    tokenizer: Tokenizer | None


class GenerateOptions(Sampling, total=False):
    """Options of Session.generate."""

    max_tokens: int | None
    stop: str | Sequence[str]
    ignore_end: bool
    print_special: bool
    parse_special: bool
    sampler: Sampler | None
    logprobs: int | None
    grammar: Grammar | None
    schema: Mapping[str, Any] | bool | str | None
    regex: str | None


class ChatOptions(Sampling, total=False):
    """Options of Session.chat_events and Model.chat."""

    tools: Sequence[Mapping[str, Any]] | None
    tool_choice: ToolChoice
    response_format: Mapping[str, Any] | None
    stop: str | Sequence[str]
    max_tokens: int | None
    reasoning_budget: int
    id_seed: int
    log: ToolCallLog | None
    variables: Mapping[str, Any] | None
    sampler: Sampler | None


class DeviceOptions(TypedDict, total=False):
    """Where and how a graph runs."""

    n_threads: int
    device: str | None
    require_cuda: bool
    require_graph: bool
    mode: Mode


class MemoryOptions(DeviceOptions, total=False):
    """Options of a session on which its memory depends."""

    n_ctx: int
    prefill_chunk: int
    passes: str | None
    kv_type: DtypeLike
    count_experts: bool
    repack: str | None
    backend: str | None
    window_tokens: int


class SessionOptions(MemoryOptions, total=False):
    """Options of Session."""

    progress: Progress | None


class EngineOptions(TypedDict, total=False):
    """Options of Engine, and of Model.engine."""

    n_ctx: int
    n_seq: int
    cache_tokens: int
    block: int
    step_tokens: int
    step_ms: float
    n_threads: int
    passes: str | None
    kv_type: DtypeLike
    state_bytes: int
    device: str | None
    require_cuda: bool
    require_graph: bool
    repack: str | None
    draft: Model | None
    n_mtp: int
    backend: str | None


class EmbedOptions(TypedDict, total=False):
    """Options of Embedder."""

    n_ctx: int
    n_threads: int
    pooling: Pooling
    normalize: Norm
    dimensions: int
    prefill_chunk: int
    passes: str | None
    device: str | None
    require_cuda: bool
    require_graph: bool
    mode: Mode
    repack: str | None
    backend: str | None


class TrainOptions(DeviceOptions, total=False):
    """Options of Trainer (RpTrainOptions in reprise/train.h)."""

    batch: int
    seq: int
    accumulate: int
    n_steps: int
    lr: float
    lr_end: float
    schedule: Schedule
    warmup: int
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    max_norm: float
    aux_loss: float
    recompute: bool
    compute: DtypeLike
    lora_rank: int
    lora_alpha: float
    seed: int
    change_options: bool
    checkpoint: str | os.PathLike[str] | None
    adapter: str | os.PathLike[str] | None


class DrawOptions(TypedDict, total=False):
    """Options of a drawing (Graph.dump), without notes."""

    fold: bool
    layer: int | None
    title: str | None


class DumpOptions(DrawOptions, total=False):
    """Options of Graph.dump."""

    notes: Mapping[int, Note] | None
