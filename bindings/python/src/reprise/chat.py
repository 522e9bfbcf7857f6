"""Chats with tools: the reply of a model as events, while it is generated."""
from __future__ import annotations

import ctypes as ct
import json
import queue
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Union

from . import _c
from ._handle import Handle
from ._lib import lib, params
from ._options import Sampling
from .errors import ArgumentError
from .sampler import Sampler
from .tokenizer import ids_of, token_list

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .session import Session


class Text(NamedTuple):
    """A piece of the answer."""

    text: str


class Reasoning(NamedTuple):
    """A piece of the reasoning."""

    text: str


class CallBegin(NamedTuple):
    """A tool call begins; its arguments follow. `call` counts the calls of the reply from 0."""

    call: int
    id: str
    name: str


class CallArguments(NamedTuple):
    """A piece of the arguments; together they are one JSON object."""

    call: int
    text: str


class CallEnd(NamedTuple):
    """The call is complete. `written` is how the model wrote it."""

    call: int
    id: str
    name: str
    written: str


class Malformed(NamedTuple):
    """A piece of what began as a call and is none. `call` is that of a CallBegin that is void, or -1."""

    call: int
    text: str


class End(NamedTuple):
    """The reply has ended. `reason` is that of rp_stop_reason_name; the others count tokens, and calls that are complete. n_held: calls that
    were held to the tools. describes_tools: the chat template has none, so that a message describes them."""

    reason: str
    n_prompt: int
    n_kept: int
    n_generated: int
    n_reasoning: int
    n_calls: int
    n_replayed: int
    n_held: int = 0
    describes_tools: bool = False


class NamedFunction(TypedDict):
    name: str


class NamedTool(TypedDict):
    type: Literal["function"]
    function: NamedFunction


ToolChoice = Union[Literal["auto", "none", "required"], NamedTool]

Event = Union[Text, Reasoning, CallBegin, CallArguments, CallEnd, Malformed, End]


class ToolCallLog(Handle):
    """Calls of earlier replies as the model wrote them, up to max_bytes; 0: 16 MiB. With it, a call that comes back in the messages has
    the tokens that were sampled."""

    def __init__(self, max_bytes: int = 0) -> None:
        out = ct.c_void_p()
        lib.rp_tool_call_log_new(max_bytes, ct.byref(out))
        super().__init__(out.value or 0, lib.rp_tool_call_log_free)

    def find(self, call_id: str) -> str | None:
        """How the model wrote a call; None: it is not kept."""
        n = ct.c_uint64()
        with self._owner.used("log"):
            text = lib.rp_tool_call_log_find(self, call_id, ct.byref(n))
            return None if text is None else str(text)


TEXT_OFFSET = int(getattr(_c.RpReplyEvent, "text").offset) # noqa: B009: mypy takes the descriptor for the value


def event_of(e: Any) -> Event | None:
    """The event; None for RP_REPLY_END, behind which the result comes."""
    kind, address = e.kind, ct.c_void_p.from_buffer(e, TEXT_OFFSET).value # the text may have zero bytes
    text = ct.string_at(address, e.len).decode("utf-8", "replace") if address else ""
    if kind == _c.RpReplyEventKind.RP_REPLY_TEXT:
        return Text(text)
    if kind == _c.RpReplyEventKind.RP_REPLY_REASONING:
        return Reasoning(text)
    if kind == _c.RpReplyEventKind.RP_REPLY_CALL_BEGIN:
        return CallBegin(e.call, e.id.decode(), e.name.decode("utf-8", "replace"))
    if kind == _c.RpReplyEventKind.RP_REPLY_CALL_ARGUMENTS:
        return CallArguments(e.call, text)
    if kind == _c.RpReplyEventKind.RP_REPLY_CALL_END:
        return CallEnd(e.call, e.id.decode(), e.name.decode("utf-8", "replace"), text)
    return Malformed(e.call, text) if kind == _c.RpReplyEventKind.RP_REPLY_MALFORMED else None


class Run:
    """One call of rp_chat_generate, on a thread of its own. Events wait in a queue. Any other use of the session ends it."""

    def __init__(self, session: Session, sampler: Sampler, log: ToolCallLog | None, request: bytes, options: dict[str, int]) -> None:
        self.session, self.sampler, self.log, self.request, self.options = session, sampler, log, request, options
        self.events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self.cancelled = False
        self.thread = threading.Thread(target=self.body, name="reprise chat", daemon=True)

    def start(self) -> None:
        self.session._idle()
        for handle in self.handles():
            handle._hold().release() # it is not closed
        self.thread.start()
        self.session._replying = weakref.ref(self)

    def close(self) -> None:
        """Ends the reply; its events so far can still be taken."""
        self.cancelled = True
        self.thread.join()

    def handles(self) -> list[Handle]:
        return [self.session, self.sampler] if self.log is None else [self.session, self.sampler, self.log]

    def on_event(self, address: Any, user: Any) -> bool:
        event = event_of(ct.cast(address, ct.POINTER(_c.RpReplyEvent)).contents)
        if event is not None:
            self.events.put(event)
        return not self.cancelled

    def call(self) -> None:
        kinds = {field[0]: field[1] for field in _c.RpChatOptions._fields_}
        session, result = self.session, _c.RpChatResult()
        on_event = kinds["on_event"](self.on_event)
        on_prefill = kinds["prefill_progress"](lambda done, total, user: not self.cancelled)
        with ExitStack() as used, session.tokenizer._own_template() as template, token_list() as context:
            for handle in self.handles():
                used.enter_context(handle._owner.used(type(handle).__name__))
            for token in session._history:
                lib.rp_token_list_push(ct.byref(context), token)
            given = params(_c.RpChatOptions, json=self.request, json_bytes=len(self.request), chat_template=template.value,
                           context=ct.addressof(context), log=None if self.log is None else self.log._owner.pointer,
                           prefill_progress=on_prefill, on_event=on_event, **self.options)
            try:
                lib.rp_chat_generate_sized(session, self.sampler, ct.byref(given), ct.sizeof(given), ct.byref(result),
                                           ct.sizeof(result))
            finally:
                session._history[:] = ids_of(context, 0)
        self.events.put(End(str(lib.rp_stop_reason_name(result.reason)), result.n_prompt, result.n_kept, result.n_generated,
                            result.n_reasoning, result.n_calls, result.n_replayed, result.n_held,
                            result.describes_tools))

    def body(self) -> None:
        try:
            self.call()
        except BaseException as error: # noqa: B036: raised where the events are taken
            self.events.put(error)
        self.events.put(None)


def chat_events(session: Session, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None,
                tool_choice: ToolChoice = "auto", response_format: Mapping[str, Any] | None = None, stop: str | Sequence[str] = (),
                max_tokens: int | None = None, reasoning_budget: int = 0, id_seed: int = 0,
                log: ToolCallLog | None = None, variables: Mapping[str, Any] | None = None, sampler: Sampler | None = None,
                **sampling: Unpack[Sampling]) -> Iterator[Event]:
    """The events of Session.chat_events."""
    if sampler is not None and sampling:
        raise ArgumentError(f"chat_events: a sampler and {', '.join(sampling)}: only one of them must be given")
    request = {**(variables or {}), "messages": list(messages), "tool_choice": tool_choice}
    if tools is not None:
        request["tools"] = list(tools)
    if response_format is not None:
        request["response_format"] = response_format
    if stop:
        request["stop"] = stop if isinstance(stop, str) else list(stop)
    if sampler is None:
        sampling.setdefault("tokenizer", session.tokenizer)
        sampler = Sampler(session._n_vocab, **sampling)
    run = Run(session, sampler, log, json.dumps(request, ensure_ascii=False).encode("utf-8"),
              {"max_tokens": max_tokens or 0, "reasoning_budget": reasoning_budget, "id_seed": id_seed})
    run.start()
    try:
        while (event := run.events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        run.close()
