"""A reply that is generated: iterate over it to stream, or read `text` and `tokens` to have all of it."""
from __future__ import annotations

import ctypes as ct
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _c
from ._lib import lib, params
from .sampler import Sampler, TokenLogprob
from .tokenizer import ids_of, token_list

if TYPE_CHECKING:
    from ._handle import Owner
    from .session import Session


class Part(NamedTuple):
    """Text that is complete, and the tokens that were sampled since the part before. Text that may begin a stop string, and bytes
    of an unfinished character, are held back, so the text of a part may be empty."""

    text: str
    tokens: tuple[int, ...]

    def __str__(self) -> str:
        return self.text


class Options(NamedTuple):
    """What a call of rp_generate gets. `prompt` is a copy, and `stop` an array of C with its length: arrays and texts of the caller
    could refer to the reply."""

    prompt: npt.NDArray[np.int32]
    max_tokens: int
    stop: tuple[Any, int]
    ignore_end: bool
    print_special: bool
    logprobs: int | None
    matcher: Owner | None = None # released with the call


def note_tokens(history: list[int], session: int, before: int, tokens: list[int]) -> None:
    """Notes the tokens of the context: those of `tokens` that were appended after position `before`."""
    history[before:] = tokens
    del history[int(lib.rp_session_n_past(session)):]


class Call:
    """One call of rp_generate. It refers to C objects and to no Session or Sampler: its thread waits between two parts, and would
    keep them, and what they refer to, for ever."""

    def __init__(self, session: Session, sampler: Sampler, options: Options) -> None:
        self.session, self.sampler, self.options = session._owner, sampler._owner, options
        self.history = session._history
        self.parts: list[Part] = []
        self.tokens: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.result = _c.RpGenerateResult()
        self.host_sampling: bytes | None = None
        self.errors: list[BaseException] = [] # taken out where they are raised: their frames refer to the reply
        self.cancelled = False
        if options.matcher is not None:
            weakref.finalize(self, options.matcher.release)

    def _on_text(self, put: Callable[[Part], bool], into: _c.RpTokenList, text: int | None, length: int) -> bool:
        new = ids_of(into, len(self.tokens))
        self.tokens += new
        part = Part(ct.string_at(text, length).decode("utf-8", "replace") if text and length else "", tuple(new))
        self.parts.append(part)
        return put(part) and not self.cancelled

    def _on_logprobs(self, chosen: int, top: int | None, n_top: int) -> bool:
        of = _c.RpTokenLogprob.from_address(chosen)
        listed = (_c.RpTokenLogprob * n_top).from_address(top) if top else ()
        self.logprobs.append(TokenLogprob(of.token, of.logprob, tuple((t.token, t.logprob) for t in listed)))
        return not self.cancelled

    def _guarded(self, function: Callable[..., bool], *arguments: Any) -> bool:
        """An exception in a callback ends the call and is raised behind it."""
        try:
            return function(*arguments)
        except BaseException as error: # noqa: B036: KeyboardInterrupt too
            self.errors[:] = [error]
            return False

    def run(self, put: Callable[[Part], bool]) -> None:
        """`put` receives the parts and returns False to end the call."""
        o, kinds = self.options, {field[0]: field[1] for field in _c.RpGenerateOptions._fields_}
        stops, n_stop = o.stop
        with token_list() as tokens, self.session.used("Session"):
            on_text = kinds["on_text"](lambda text, length, user: self._guarded(self._on_text, put, tokens, text, length))
            prefill = kinds["prefill_progress"](lambda done, total, user: self._guarded(lambda: not self.cancelled))
            on_logprobs = kinds["on_logprobs"](lambda chosen, top, n, user: self._guarded(self._on_logprobs, chosen, top, n))
            given = params(_c.RpGenerateOptions, max_tokens=o.max_tokens, stop=ct.addressof(stops), n_stop=n_stop,
                           ignore_end=o.ignore_end, print_special=o.print_special, on_text=on_text, prefill_progress=prefill,
                           tokens=ct.addressof(tokens))
            if o.logprobs is not None:
                given.on_logprobs, given.n_logprobs = on_logprobs, o.logprobs
            if o.matcher is not None:
                given.matcher = o.matcher.pointer
            session = self.session.pointer
            before = int(lib.rp_session_n_past(session))
            try:
                with self.sampler.used("Sampler"):
                    lib.rp_generate_sized(session, self.sampler.pointer, o.prompt.ctypes.data if o.prompt.size else None,
                                          o.prompt.size, ct.byref(given), ct.sizeof(given), ct.byref(self.result),
                                          ct.sizeof(self.result))
                    self.host_sampling = self.result.host_sampling # the sampler owns it
            finally:
                rest = ids_of(tokens, len(self.tokens)) # an end token has no text
                self.tokens += rest
                if rest:
                    self.parts.append(Part("", tuple(rest)))
                note_tokens(self.history, session, before, [*o.prompt.tolist(), *self.tokens])
        if self.errors:
            raise self.errors.pop()


class Channel:
    """A call on a thread of its own, which waits in its callback until the next part is wanted: between two parts the session
    stands still. The thread knows the channel and not the Reply, so that a Reply that nobody needs ends the call. Signals reach
    the main thread only, so Ctrl-C is raised where a part is waited for, never in a callback."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.part: Part | None = None
        self.failures: list[BaseException] = [] # taken out where they are raised, as Call.errors
        self.wanted, self.ready = threading.Semaphore(0), threading.Semaphore(0)
        self.done = self.free = False
        self.thread = threading.Thread(target=self.body, name="reprise reply", daemon=True)
        self.thread.start()

    def put(self, part: Part) -> bool:
        if self.free:
            return not self.call.cancelled
        self.part = part
        self.ready.release()
        self.wanted.acquire()
        return not self.call.cancelled

    def body(self) -> None:
        self.wanted.acquire()
        try:
            if not self.call.cancelled:
                self.call.run(self.put)
        except BaseException as error: # noqa: B036
            self.failures.append(error)
        last = self.call.parts[-1] if self.call.parts else None
        self.part = last if last is not self.part and not self.call.cancelled else None # the end token
        self.done = True
        self.ready.release()

    def next(self) -> Part | None:
        """The next part; None after the last."""
        if self.done:
            return None
        self.wanted.release()
        self.ready.acquire()
        if self.done:
            self.finish()
        return self.part

    def finish(self) -> None:
        self.thread.join()
        if self.failures:
            raise self.failures.pop()

    def run_out(self) -> None:
        """The rest, without a stop at each part."""
        if not self.done:
            self.free = True
            self.wanted.release()
            self.ready.acquire()
            self.finish()

    def cancel(self) -> None:
        if not self.done and threading.current_thread() is not self.thread:
            self.call.cancelled = True
            self.wanted.release()
            self.thread.join()


class Reply(Iterator[Part]):
    """What Session.generate returns. Nothing is computed before it is used.

        for part in reply: print(part, end="")       streams; the session stands still between two parts
        reply.text, reply.tokens, str(reply)           computes what is missing
        reply.close()                                  ends it early, as any other use of the session does
    """

    def __init__(self, session: Session, sampler: Sampler, options: Options) -> None:
        self._call, self._session, self._sampler = Call(session, sampler, options), session, sampler
        self._channel: Channel | None = None
        self._finished = False

    def __iter__(self) -> Iterator[Part]:
        return self

    def __next__(self) -> Part:
        if self._finished:
            raise StopIteration
        part = self._advance(Channel.next)
        if part is None:
            raise StopIteration
        return part

    def _advance(self, step: Callable[[Channel], Part | None]) -> Part | None:
        if self._channel is None:
            self._session._idle()
            for handle in (self._session, self._sampler):
                handle._hold().release() # it is not closed
            self._channel = Channel(self._call)
            self._session._replying = weakref.ref(self)
            weakref.finalize(self, self._channel.cancel)
        try:
            part = step(self._channel)
        except BaseException:
            self.close() # KeyboardInterrupt while it waited; after a failure there is nothing to end
            raise
        self._finished = self._channel.done
        return part

    def close(self) -> None:
        """Ends the reply; tokens that were appended to the context stay."""
        if self._channel is not None:
            self._channel.cancel()
        elif not self._finished:
            self._call.cancelled = True
        self._finished = True

    def _complete(self) -> Call:
        if not self._finished:
            self._advance(Channel.run_out)
        return self._call

    @property
    def text(self) -> str:
        return "".join(part.text for part in self._complete().parts)

    @property
    def tokens(self) -> list[int]:
        """Every sampled token, the end token too."""
        return list(self._complete().tokens)

    @property
    def logprobs(self) -> list[TokenLogprob]:
        """Of every sampled token, if generate(logprobs=n) asked for them; else empty."""
        return list(self._complete().logprobs)

    @property
    def host_sampling(self) -> str | None:
        """Why a GPU that can sample did not, so that the logits of each token were copied to the host; None: it did, or cannot."""
        reason = self._complete().host_sampling
        return None if reason is None else reason.decode()

    @property
    def reason(self) -> str:
        """"end token", "stop string", "limit", "context is full" or "cancelled"."""
        call = self._complete()
        return "cancelled" if call.cancelled else str(lib.rp_stop_reason_name(call.result.reason))

    @property
    def n_prompt(self) -> int:
        return self._complete().result.n_prompt

    @property
    def prefill_s(self) -> float:
        return self._complete().result.prefill_s

    @property
    def decode_s(self) -> float:
        """Seconds of the steps after the first token. Streaming counts the time between parts too."""
        return self._complete().result.decode_s

    @property
    def first_token_s(self) -> float:
        return self._complete().result.first_token_s

    @property
    def tokens_per_s(self) -> float:
        """Of decode: the tokens after the first, by decode_s."""
        result = self._complete().result
        return (result.n_generated - 1) / result.decode_s if result.decode_s > 0 else 0.0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        state = "finished" if self._finished else "under way" if self._channel else "not started"
        return f"<Reply, {state}, {len(self._call.tokens)} tokens>"
