"""Many requests at a time: Engine."""
from __future__ import annotations

import ctypes as ct
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _c
from ._arrays import DtypeLike, dtype_number, tokens_array
from ._handle import Handle, Owner
from ._lib import decoded, lib, libc, params, texts
from ._options import Sampling
from .errors import CLASSES, ArgumentError, Error
from .sampler import Sampler
from .tokenizer import ids_of, token_list

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model


TEXT_OFFSET = int(getattr(_c.RpEngineEvent, "text").offset) # noqa: B009: mypy takes the descriptor for the value


class EngineEvent(NamedTuple):
    """A token of a request, or its end."""

    request: int
    """The number that Engine.add returned."""
    token: int | None
    text: str
    """Text that is complete now; "" while it is held back."""
    end: str | None
    """At the end: "end token", "stop string", "limit", "context is full", "grammar" or "cancelled"; "failed" with an error."""
    error: Exception | None
    n_prompt: int
    n_cached: int
    """Tokens of the prompt whose keys and values were found in the cache."""
    n_generated: int
    n_drafted: int
    n_accepted: int
    first_token_s: float
    total_s: float


class EngineStats(NamedTuple):
    """Sums since the engine was opened (RpEngineStats)."""

    steps: int
    tokens: int
    generated: int
    prompt_tokens: int
    cached: int
    preempted: int
    evicted: int
    drafted: int
    accepted: int
    running: int
    waiting: int
    n_blocks: int
    used: int
    kept: int
    n_ctx: int
    n_window_blocks: int
    window_used: int
    window_kept: int


class Engine(Handle):
    """Runs many requests at a time, in one pass over the weights for each step: each has the tokens that it has alone. One
    thread at a time may use it.

        engine = model.engine(n_seq=8)
        a, b = engine.add("Once"), engine.add("In the beginning", max_tokens=40, seed=7)
        for event in engine:
            print(event.request, event.text)

    n_ctx         positions of a request; 0: the model's training context, at most 4096
    n_seq         requests that run at the same time, at most 64; 0: 4
    cache_tokens  positions of the KV cache; 0: of n_seq whole requests
    step_tokens   tokens of the longest step; 0: 256
    step_ms       while replies are running, prompts are cut so that a step takes no longer; 0: no limit
    kv_type       of the KV cache: "f16" or "q8_0"
    device        "auto", "cpu", "cuda" or "cuda:N"; None: REPRISE_DEVICE
    require_cuda  fail instead of falling back to the CPU
    require_graph fail if a plan cannot be captured
    repack        as in Session, but None: REPRISE_REPACK, or "auto" if n_seq > 1
    draft         a smaller model of the same vocabulary, which guesses tokens of requests that ask for guesses
    n_mtp         tokens of a step that the model's own layer for multi-token prediction guesses at most, if the file has one
                  (ModelInfo.mtp); 0: 3; -1: it does not guess
    backend       a backend in a shared object (backend.h): a path, or a name in REPRISE_BACKEND_DIR; None: the built-in kernels
    """

    def __init__(self, model: Model, *, n_ctx: int = 0, n_seq: int = 0, cache_tokens: int = 0, block: int = 0,
                 step_tokens: int = 0, step_ms: float = 0.0, n_threads: int = 0, passes: str | None = None,
                 kv_type: DtypeLike = "f16", state_bytes: int = 0, device: str | None = None, require_cuda: bool = False,
                 require_graph: bool = False, repack: str | None = None, draft: Model | None = None, n_mtp: int = 0,
                 backend: str | None = None) -> None:
        options = params(_c.RpEngineOptions, n_ctx=n_ctx, n_seq=n_seq, cache_tokens=cache_tokens, block=block,
                         step_tokens=step_tokens, step_ms=step_ms, n_threads=n_threads, passes=passes,
                         kv_type=dtype_number(kv_type), state_bytes=state_bytes, device=device, require_cuda=require_cuda,
                         require_graph=require_graph, repack=repack, draft=draft._pointer if draft is not None else None, n_mtp=n_mtp, backend=backend)
        out = ct.c_void_p()
        lib.rp_engine_open_sized(model, ct.byref(options), ct.sizeof(options), ct.byref(out))
        samplers: dict[int, Owner] = {} # of requests that are pending

        def free(pointer: int) -> None:
            lib.rp_engine_free(pointer)
            for owner in samplers.values():
                owner.release()

        super().__init__(out.value or 0, free, (model._owner,) if draft is None else (model._owner, draft._owner))
        self.model, self._samplers = model, samplers

    def _ids(self, prompt: str | Any) -> Any:
        if isinstance(prompt, str):
            if self.model.tokenizer is None:
                raise ArgumentError("the model has no tokenizer: give ids")
            prompt = self.model.tokenizer.encode(prompt, add_special=True)
        return tokens_array(prompt, "prompt")

    def add(self, prompt: str | Any, *, max_tokens: int = 0, stop: Sequence[str] = (), ignore_end: bool = False,
            print_special: bool = False, priority: int = 0, draft: int = 0, **sampling: Unpack[Sampling]) -> int:
        """Queues a text or token ids, and returns the number of the request. `draft`: tokens that a step guesses at most, where the
        text repeats itself, or by the engine's draft model; the reply stays the same. The other options are those of Sampler."""
        ids, (stops, n_stop) = self._ids(prompt), texts(stop)
        if self.model.tokenizer is not None:
            sampling.setdefault("tokenizer", self.model.tokenizer)
        sampler = Sampler(self.model.info.n_vocab, **sampling)
        given = params(_c.RpRequest, prompt=ids.ctypes.data, n_prompt=len(ids), sampler=sampler._pointer, max_tokens=max_tokens,
                       stop=ct.addressof(stops), n_stop=n_stop, ignore_end=ignore_end, print_special=print_special,
                       priority=priority, n_draft=draft)
        number = ct.c_uint64()
        with self._use():
            lib.rp_engine_add_sized(self, ct.byref(given), ct.sizeof(given), ct.byref(number))
            self._samplers[number.value] = sampler._owner.hold()
        return number.value

    def cancel(self, request: int) -> None:
        """Ends a request before the next step."""
        with self._use():
            lib.rp_engine_cancel(self, request)

    @property
    def pending(self) -> int:
        """Requests that are queued or running."""
        with self._use():
            return int(lib.rp_engine_pending(self))

    def _event(self, raw: _c.RpEngineEvent) -> EngineEvent:
        failed = raw.end and raw.status != 0
        end = None if not raw.end else "failed" if failed else str(lib.rp_stop_reason_name(raw.reason))
        address = ct.c_void_p.from_buffer(raw, TEXT_OFFSET).value # the text may have zero bytes
        text = ct.string_at(address, raw.n_text).decode("utf-8", "replace") if address and raw.n_text else ""
        error = CLASSES.get(raw.status, Error)(decoded(raw.error), raw.status) if failed else None
        if raw.end:
            self._samplers.pop(raw.id).release()
        return EngineEvent(raw.id, raw.token if raw.token >= 0 else None, text, end, error, raw.n_prompt, raw.n_cached,
                     raw.n_generated, raw.n_drafted, raw.n_accepted, raw.first_token_s, raw.total_s)

    def step(self) -> list[EngineEvent]:
        """Runs one step, and returns what it brought. A step without requests brings nothing."""
        out, raw = [], _c.RpEngineEvent()
        with self._use():
            lib.rp_engine_step(self)
            while lib.rp_engine_poll_sized(self, ct.byref(raw), ct.sizeof(raw)):
                out.append(self._event(raw))
        return out

    def __iter__(self) -> Iterator[EngineEvent]:
        """Runs steps until no request is pending. Requests may be added and cancelled meanwhile."""
        while self.pending > 0:
            yield from self.step()

    def save(self, path: str | os.PathLike[str], prompt: str | Any, note: str = "") -> None:
        """Writes what the cache has of a text or of token ids to a file, with a text of yours: whole blocks from its beginning, such as
        those of a prompt that has run. An engine or a session of the same model reads it with restore. No file but such a one is
        replaced."""
        with token_list() as tokens:
            for token in self._ids(prompt).tolist():
                lib.rp_token_list_push(ct.byref(tokens), token)
            with self._use():
                lib.rp_engine_save(self, ct.byref(tokens), note, path)

    def restore(self, path: str | os.PathLike[str]) -> tuple[list[int], int, str]:
        """Puts the context of a file into the cache, where requests that begin with it find it. Returns its token ids, how many of them
        the cache has now, and the text that save got."""
        note, n_kept = ct.c_void_p(), ct.c_int32()
        with token_list() as tokens:
            with self._use():
                lib.rp_engine_restore(self, path, ct.byref(tokens), ct.byref(n_kept), ct.byref(note))
            try:
                return ids_of(tokens), n_kept.value, ct.string_at(note.value or 0).decode("utf-8", "replace")
            finally:
                libc.free(note)

    @property
    def stats(self) -> EngineStats:
        raw = _c.RpEngineStats()
        with self._use():
            lib.rp_engine_stats_sized(self, ct.byref(raw), ct.sizeof(raw))
        return EngineStats(*(getattr(raw, name) for name in EngineStats._fields))
