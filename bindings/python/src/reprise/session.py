"""One sequence of a model with its KV cache."""
from __future__ import annotations

import ctypes as ct
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _c
from ._arrays import Array, DtypeLike, dtype_number, tokens_array
from ._callback import Progress, Stopped, field_type
from ._handle import Handle, Owner
from ._lib import integer, lib, libc, params, texts
from ._options import ChatOptions, GenerateOptions, MemoryOptions, Mode, Sampling
from .chat import Event, Run, chat_events
from .errors import ArgumentError, UnsupportedError
from .executor import BorrowedPlan, ExecutorInfo, filled, info_of, mode_number
from .grammar import Grammar, chosen, matcher, vocabulary
from .reply import Options, Reply, note_tokens
from .sampler import Sampler
from .tokenizer import Message, Tokenizer, ids_of, token_list

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model

Prompt = Any # a text, or ids


class SessionMemory(NamedTuple):
    """Bytes of a session (RpSessionMemory)."""

    weights: int
    kv: int
    arena: int
    total: int
    n_ctx: int

    @classmethod
    def of(cls, model: Model, **options: Unpack[MemoryOptions]) -> SessionMemory:
        given = session_options(**options)
        raw = _c.RpSessionMemory()
        lib.rp_session_memory_sized(model, ct.byref(given), ct.sizeof(given), ct.byref(raw), ct.sizeof(raw))
        return cls(*[getattr(raw, name) for name in cls._fields])


def session_options(*, n_ctx: int = 0, n_threads: int = 0, prefill_chunk: int = 0, passes: str | None = None,
                    kv_type: DtypeLike = "f16", device: str | None = None, require_cuda: bool = False, require_graph: bool = False,
                    mode: Mode = "auto", count_experts: bool = False, repack: str | None = None, backend: str | None = None,
                    window_tokens: int = 0, **more: Any) -> _c.RpSessionOptions:
    return params(_c.RpSessionOptions, n_ctx=n_ctx, n_threads=n_threads, prefill_chunk=prefill_chunk, passes=passes,
                  kv_type=dtype_number(kv_type), device=device, require_cuda=require_cuda, require_graph=require_graph,
                  mode=mode_number(mode), count_experts=count_experts, repack=repack, backend=backend,
                  window_tokens=window_tokens, **more)


class Session(Handle):
    """A sequence of `model`: what was appended is its context. One thread at a time may use it.

    n_ctx          positions of the KV cache; 0: the model's training context, at most 4096
    n_threads      0: REPRISE_THREADS, or one per core
    prefill_chunk  tokens of the longest chunk of a prefill; 0: 256, on a GPU 512
    passes         such as "-attention"; None: REPRISE_PASSES
    kv_type        "f16" or "q8_0"
    device         "auto", "cpu", "cuda" or "cuda:N"; None: REPRISE_DEVICE
    count_experts  fill expert_counts
    repack         copy the weights to a faster layout on the CPU: "on", "off", "auto" (if it is faster and fits) or "codebook"
                   (auto, for IQ1, IQ2, IQ3 and TQ1_0); None: REPRISE_REPACK or "codebook"
    backend        a backend in a shared object (backend.h): a path, or a name in REPRISE_BACKEND_DIR; None: the built-in kernels
    window_tokens  positions that layers with a window keep in their caches on a CPU; 0: all. Less memory in long contexts, but
                   rewind() goes back only to where the window is there
    progress       called with the number of kernels done and in all while kernels are compiled for a GPU
    """

    def __init__(self, model: Model, *, n_ctx: int = 0, n_threads: int = 0, prefill_chunk: int = 0, passes: str | None = None,
                 kv_type: DtypeLike = "f16", device: str | None = None, require_cuda: bool = False, require_graph: bool = False,
                 mode: Mode = "auto", count_experts: bool = False, repack: str | None = None, backend: str | None = None,
                 window_tokens: int = 0, progress: Progress | None = None) -> None:
        out = ct.c_void_p()
        with Stopped(progress, field_type(_c.RpSessionOptions, "compile_progress")) as stopped:
            options = session_options(
                n_ctx=n_ctx, n_threads=n_threads, prefill_chunk=prefill_chunk, passes=passes, kv_type=kv_type, device=device,
                require_cuda=require_cuda, require_graph=require_graph, mode=mode, count_experts=count_experts,
                repack=repack, backend=backend, window_tokens=window_tokens, compile_progress=stopped.callback)
            lib.rp_session_open_sized(model, ct.byref(options), ct.sizeof(options), ct.byref(out))
        super().__init__(out.value or 0, lib.rp_session_free, (model._owner,))
        self.model = model
        self._n_vocab = model.info.n_vocab
        self._n_expert, self._n_layer = model.info.n_expert, model.info.n_layer
        self._replying: weakref.ref[Reply] | weakref.ref[Run] | None = None
        self._history: list[int] = []
        self._vocab: Owner | None = None

    # ---- one call at a time ----

    def _idle(self) -> None:
        """Ends a reply that is under way."""
        reply = self._replying() if self._replying is not None else None
        self._replying = None
        if reply is not None:
            reply.close()

    @contextmanager
    def _calling(self) -> Iterator[None]:
        self._idle()
        with self._use():
            yield

    def _appended(self, before: int, tokens: list[int]) -> None:
        """Notes the tokens of the context: those of `tokens` that were appended after position `before`."""
        note_tokens(self._history, self._pointer, before, tokens)

    def close(self) -> None:
        self._idle()
        super().close()

    # ---- tokens ----

    @property
    def n_past(self) -> int:
        """Tokens in the context."""
        return int(lib.rp_session_n_past(self))

    @property
    def n_ctx(self) -> int:
        return int(lib.rp_session_n_ctx(self))

    @property
    def n_threads(self) -> int:
        return int(lib.rp_session_n_threads(self))

    @property
    def tokens(self) -> list[int]:
        """The tokens in the context."""
        return list(self._history)

    @property
    def tokenizer(self) -> Tokenizer:
        model = lib.rp_session_model(self)
        found = lib.rp_model_tokenizer(model)
        if not found:
            raise UnsupportedError("the model has no tokenizer: give ids")
        return Tokenizer(self, found, lib.rp_model_file(model))

    def encode(self, prompt: Prompt, *, parse_special: bool = False) -> npt.NDArray[np.int32]:
        """A text as ids, with BOS in front of an empty context; ids as they are."""
        if isinstance(prompt, (str, bytes)):
            prompt = self.tokenizer.encode(prompt, add_special=self.n_past == 0, parse_special=parse_special)
        return tokens_array(prompt, "prompt")

    def prefill(self, tokens: Prompt, progress: Progress | None = None) -> None:
        """Appends tokens, or a text. progress(tokens done, in all) may return False to end it with CancelledError."""
        ids = self.encode(tokens)
        with self._calling():
            before = self.n_past
            try:
                with Stopped(progress, ct.CFUNCTYPE(ct.c_bool, ct.c_int64, ct.c_int64, ct.c_void_p)) as stopped:
                    lib.rp_session_prefill(self, ids.ctypes.data, ids.size, ct.cast(stopped.callback, ct.c_void_p), None)
            finally:
                self._appended(before, ids.tolist())

    def step(self, token: int) -> None:
        """Appends one token."""
        with self._calling():
            before = self.n_past
            lib.rp_session_step(self, token)
            self._appended(before, [int(token)])

    def score(self, tokens: Prompt) -> Array:
        """Appends tokens; the logits after each of them, f32 [n, n_vocab]."""
        ids = self.encode(tokens)
        out = np.empty((ids.size, self._n_vocab), np.float32)
        n_bytes = 4 * self._n_vocab

        def take(i: int, logits: int, user: Any) -> None:
            ct.memmove(out.ctypes.data + i * n_bytes, logits, n_bytes)
        callback = ct.CFUNCTYPE(None, ct.c_uint64, ct.c_void_p, ct.c_void_p)(take)
        with self._calling():
            before = self.n_past
            try:
                lib.rp_session_score(self, ids.ctypes.data, ids.size, ct.cast(callback, ct.c_void_p), None)
            finally:
                self._appended(before, ids.tolist())
        return out

    @property
    def logits(self) -> Array | None:
        """The logits after the latest token, f32 [n_vocab]: the memory of the session, read only, valid until the next token. None
        before the first token and after a rewind."""
        with self._calling():
            address = lib.rp_session_logits(self)
            if not address:
                return None
            out = np.frombuffer(self._memory(address, 4 * self._n_vocab), np.float32)
        out.flags.writeable = False
        return out

    def rewind_point(self, n_past: int) -> int:
        """The last position at or before n_past that rewind accepts."""
        with self._calling():
            return int(lib.rp_session_rewind_point(self, n_past))

    def rewind(self, n_past: int) -> None:
        """Forgets every token at position n_past and later. A model with recurrent states goes back only to 0 and to the ends of
        prompts whose state is kept; see rewind_point."""
        with self._calling():
            lib.rp_session_rewind(self, n_past)
            del self._history[n_past:]

    # ---- files ----

    def save(self, path: str | os.PathLike[str], note: str = "") -> None:
        """Writes the context to a file, and a text of yours with it. A later session of the same model reads it with restore, which
        takes as long as reading the file. No file but such a one is replaced."""
        with self._calling(), token_list() as tokens:
            for token in self._history:
                lib.rp_token_list_push(ct.byref(tokens), token)
            lib.rp_session_save(self, ct.byref(tokens), note, path)

    def restore(self, path: str | os.PathLike[str]) -> str:
        """Replaces the context by that of a file, and returns the text that save got. A file of another model, adapter or type of the
        KV cache is refused, as is a damaged one: the context is then as before."""
        note = ct.c_void_p()
        with self._calling(), token_list() as tokens:
            lib.rp_session_restore(self, path, ct.byref(tokens), ct.byref(note))
            self._history[:] = ids_of(tokens)
        try:
            return ct.string_at(note.value or 0).decode("utf-8", "replace")
        finally:
            libc.free(note)

    # ---- replies ----

    def generate(self, prompt: Prompt = (), *, max_tokens: int | None = None, stop: str | Sequence[str] = (),
                 ignore_end: bool = False, print_special: bool = False, parse_special: bool = False,
                 sampler: Sampler | None = None, logprobs: int | None = None, grammar: Grammar | None = None,
                 schema: Mapping[str, Any] | bool | str | None = None, regex: str | None = None,
                 **sampling: Unpack[Sampling]) -> Reply:
        """Appends the prompt (a text or ids) and samples a reply, until an end token, a stop string, max_tokens or the end of the
        context. The reply streams: see Reply.

        parse_special  control tokens such as <|im_end|> are found in a text; else it is plain text
        sampler        instead of the parameters of a new one: temperature, top_k, top_p, ..., seed (Sampler)
        logprobs       fills Reply.logprobs: of each token, and of this many most probable ones
        grammar        the reply is one of its texts (Grammar)
        schema         the reply is JSON that satisfies this JSON Schema, an object or its text
        regex          the reply matches this regular expression as a whole
        """
        self._idle()
        held = chosen(grammar, schema, regex)
        if sampler is not None and sampling:
            raise ArgumentError(f"generate: a sampler and {', '.join(sampling)}: only one of them must be given")
        ids = self.encode(prompt, parse_special=parse_special)
        limit = 0 if max_tokens is None else integer("i32")("generate: max_tokens", max_tokens)
        if max_tokens == 0:
            raise ArgumentError("generate: max_tokens = 0: must be at least 1, or None for no limit")
        n_top = None if logprobs is None else integer("i32")("generate: logprobs", logprobs)
        if sampler is None:
            if lib.rp_model_tokenizer(lib.rp_session_model(self)):
                sampling.setdefault("tokenizer", self.tokenizer)
            sampler = Sampler(self._n_vocab, **sampling)
        return Reply(self, sampler, Options(ids.copy(), limit, texts((stop,) if isinstance(stop, str) else stop), ignore_end,
                                            print_special, n_top, None if held is None else matcher(held, self._vocabulary())))

    def _vocabulary(self) -> Owner:
        """The tokens for grammars, made once."""
        if self._vocab is None:
            self._vocab = vocabulary(self.tokenizer, self.model._owner)
            weakref.finalize(self, self._vocab.release)
        return self._vocab

    def chat(self, messages: str | Sequence[Message], *, template: str | None = None,
             **options: Unpack[GenerateOptions]) -> Reply:
        """The reply to a conversation: system? (user assistant)* user. A message is {"role": ..., "content": ...} or a pair; a text
        is one message of the user. What the context already holds of it is not computed again. Messages are plain text, unless
        parse_special. Further options as generate."""
        parse = bool(options.pop("parse_special", False))
        ids = self.tokenizer.encode_chat(messages, template=template, parse_special=parse)
        self._idle()
        same = 0
        while same < min(len(ids) - 1, len(self._history)) and ids[same] == self._history[same]:
            same += 1
        same = self.rewind_point(same)
        if same < self.n_past:
            self.rewind(same)
        reply = self.generate(ids[same:], **options)
        if options.get("sampler") is None: # the reply does not depend on what the context has
            for token in ids[:same]:
                reply._sampler.accept(token)
        return reply

    def chat_events(self, messages: Sequence[Mapping[str, Any]], **options: Unpack[ChatOptions]) -> Iterator[Event]:
        """The reply to a conversation as events, while it is generated: text, reasoning, tool calls (reprise.chat). Messages and tools
        are those of an OpenAI client. What the context already holds is not computed again.

        tools             functions that the model may call
        tool_choice       "auto", "none"; "required" or {"type": "function", "function": {"name": "f"}}: the reply is one call
        response_format   {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": {...}}}: the answer is such JSON;
                          {"type": "grammar", "grammar": "root ::= ..."} (GBNF) or {"type": "regex", "regex": "..."}: such a text
        stop              texts that end the answer
        max_tokens        None: until the context is full
        reasoning_budget  tokens of reasoning, after which it is closed; 0: no limit
        id_seed           the ids of calls are a function of it and of their number
        log               a chat.ToolCallLog: calls that come back are as the model wrote them
        variables         of the template, such as {"enable_thinking": False}
        sampler           instead of the parameters of a new one: temperature, ..., seed (Sampler)

        Any other use of the session ends the reply; the events that it had so far still come.
        """
        self._idle()
        return chat_events(self, messages, **options)

    # ---- reports ----

    @property
    def expert_counts(self) -> dict[int, npt.NDArray[np.uint64]]:
        """How often each expert was selected, by layer; needs count_experts. Layers without experts are left out."""
        found = {}
        with self._calling():
            for layer in range(self._n_layer):
                address = lib.rp_session_expert_counts(self, layer)
                if address:
                    found[layer] = np.frombuffer(ct.string_at(address, 8 * self._n_expert), np.uint64)
        return found

    @property
    def info(self) -> ExecutorInfo:
        """Device and launch mode of the decode step."""
        owner = self._hold()
        try:
            return info_of(filled(_c.RpExecutorInfo, lib.rp_session_info_sized, self))
        finally:
            owner.release()

    @property
    def decode_plan(self) -> BorrowedPlan:
        """The plan of the decode step."""
        return BorrowedPlan(self, lib.rp_session_decode_plan(self))
