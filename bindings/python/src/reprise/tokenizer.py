"""Text to token ids and back."""
from __future__ import annotations

import ctypes as ct
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Mapping, Union

from . import _c
from ._arrays import tokens_array
from ._handle import Borrowed, Handle
from ._lib import lib, libc
from .errors import ArgumentError, UnsupportedError

Message = Union[Mapping[str, str], "tuple[str, str]"]


@contextmanager
def token_list() -> Iterator[_c.RpTokenList]:
    out = _c.RpTokenList()
    try:
        yield out
    finally:
        lib.rp_token_list_free(ct.byref(out))


def ids_of(tokens: _c.RpTokenList, first: int = 0) -> list[int]:
    if tokens.n <= first:
        return []
    return list((ct.c_int32 * (tokens.n - first)).from_address((tokens.ids or 0) + 4 * first))


def chat_messages(messages: str | Sequence[Message]) -> tuple[Any, int]:
    """RpChatMessage[n]. A message is {"role": ..., "content": ...} or (role, content); a text is one of the user."""
    listed: Sequence[Message] = [("user", messages)] if isinstance(messages, str) else messages
    out = (_c.RpChatMessage * max(1, len(listed)))()
    for i, message in enumerate(listed):
        if isinstance(message, Mapping):
            if set(message) != {"role", "content"}:
                raise ArgumentError(f"message {i} has {sorted(message)}: must have role and content")
            role, text = message["role"], message["content"]
        else:
            role, text = message
        for value in (role, text):
            if not isinstance(value, str) or "\0" in value:
                raise ArgumentError(f"message {i}: its texts must have no NUL characters")
        out[i].role, out[i].text = role.encode(), text.encode("utf-8", "surrogateescape")
    return out, len(listed)


class Tokenizer(Borrowed):
    """The tokenizer of a model. Any number of threads may use it."""

    def __init__(self, owner: Handle, pointer: int, file: int) -> None:
        super().__init__(owner, pointer)
        self._file = file

    def __repr__(self) -> str:
        return f"<Tokenizer {self.kind} {self.pre} of {len(self)} tokens>"

    def __len__(self) -> int:
        return int(lib.rp_tokenizer_n_vocab(self))

    @property
    def kind(self) -> str:
        """"gpt2" (byte-level BPE) or "llama" (SentencePiece)."""
        return str(lib.rp_tokenizer_kind(self))

    @property
    def pre(self) -> str:
        """The pre-tokenizer, "" for none."""
        return str(lib.rp_tokenizer_pre(self))

    @property
    def bos(self) -> int | None:
        return _optional(lib.rp_tokenizer_bos(self))

    @property
    def eos(self) -> int | None:
        return _optional(lib.rp_tokenizer_eos(self))

    @property
    def adds_bos(self) -> bool:
        return bool(lib.rp_tokenizer_adds_bos(self))

    def is_end(self, token: int) -> bool:
        """Whether the token ends a reply."""
        return bool(lib.rp_tokenizer_is_end(self, token))

    @property
    def fim(self) -> dict[str, int]:
        """The tokens of prompts for code in the middle of a file that the vocabulary has, of "pre", "suf", "mid", "pad", "rep" and
        "sep" (rp_tokenizer_fim)."""
        found = {which.name[7:].lower(): lib.rp_tokenizer_fim(self, which) for which in _c.RpFimToken}
        return {name: token for name, token in found.items() if token >= 0}

    @property
    def suppressed(self) -> list[int]:
        """The tokens that replies of the model never have (rp_tokenizer_suppressed)."""
        n, owner = ct.c_uint64(), self._hold() # the ids are read behind the call
        try:
            address = lib.rp_tokenizer_suppressed(self, ct.byref(n))
            return list((ct.c_int32 * n.value).from_address(address)) if n.value else []
        finally:
            owner.release()

    def is_control(self, token: int) -> bool:
        """Whether the token prints as nothing."""
        return bool(lib.rp_tokenizer_is_control(self, token))

    def find(self, text: str) -> int | None:
        """The token of this text as the file stores it."""
        return _optional(lib.rp_tokenizer_find(self, text))

    def encode(self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False,
               control: Iterable[bool] | None = None) -> list[int]:
        """The ids of a text. add_special: BOS in front, as the file asks. parse_special: control tokens such as <|im_end|> are
        found in the text. control: for each byte whether it may be part of a control token (rp_tokenize_masked)."""
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
        flags = add_special * _c.RP_TOK_ADD_SPECIAL | parse_special * _c.RP_TOK_PARSE_SPECIAL
        with token_list() as out:
            if control is None:
                lib.rp_tokenize(self, data, len(data), flags, ct.byref(out))
            else:
                mask = bytes(bool(c) for c in control)
                if len(mask) != len(data):
                    raise ArgumentError(f"control has {len(mask)} values, the text {len(data)} bytes")
                lib.rp_tokenize_masked(self, data, mask, len(data), flags, ct.byref(out))
            return ids_of(out)

    def token_bytes(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token, perhaps a part of a character. special: also the text of control tokens."""
        found = _c.RpGgufString()
        lib.rp_token_bytes(self, token, special, ct.byref(found))
        return ct.string_at(found.ptr, found.len) if found.ptr and found.len else b""

    def decode(self, tokens: Any, *, special: bool = False) -> str:
        """The text of tokens; bytes that are not UTF-8 become U+FFFD."""
        data = b"".join(self.token_bytes(int(token), special=special) for token in tokens_array(tokens))
        return data.decode("utf-8", "replace")

    @property
    def chat_format(self) -> str | None:
        """The chat format whose marks the model's template contains: chatml, llama3, ...; None if it has none that is known.
        The template itself is run by encode_chat."""
        kind = ct.c_int32()
        owner = self._hold()
        try:
            lib.rp_chat_detect(self._file, ct.byref(kind))
            return str(lib.rp_chat_name(kind.value))
        except UnsupportedError:
            return None
        finally:
            owner.release()

    @contextmanager
    def _own_template(self) -> Iterator[ct.c_void_p]:
        """The model's template, while the model is held."""
        out, owner = ct.c_void_p(), self._hold()
        try:
            lib.rp_chat_template_of(self._file, self, ct.byref(out))
            yield out
        finally:
            lib.rp_chat_template_free(out)
            owner.release()

    def encode_chat(self, messages: str | Sequence[Message], *, template: str | None = None, add_special: bool = True,
                    parse_special: bool = False) -> list[int]:
        """The ids of a conversation, up to where the reply begins. Messages are plain text: none can spell a control token,
        unless parse_special. The model's template is run; template: chatml, llama3, mistral, gemma or llama2 instead."""
        data, control = self.format_chat_masked(messages, template=template)
        flags = add_special * _c.RP_TOK_ADD_SPECIAL | parse_special * _c.RP_TOK_PARSE_SPECIAL
        with token_list() as out:
            lib.rp_tokenize_masked(self, data, control, len(data), flags, ct.byref(out))
            return ids_of(out)

    def format_chat(self, messages: str | Sequence[Message], *, template: str | None = None) -> str:
        """The conversation as text, to be shown. To tokenise it, use encode_chat."""
        return self.format_chat_masked(messages, template=template)[0].decode("utf-8", "replace")

    def format_chat_masked(self, messages: str | Sequence[Message], *, template: str | None = None) -> tuple[bytes, bytes]:
        """The conversation as UTF-8, and for each of its bytes 1 if it may be part of a control token: for encode(control=...)."""
        listed, n = chat_messages(messages)
        text, control, kind = ct.c_void_p(), ct.c_void_p(), ct.c_int32()
        rest = (ct.byref(listed), ct.sizeof(_c.RpChatMessage), n, ct.byref(text), ct.byref(control))
        if template is not None:
            lib.rp_chat_from_name(template, ct.byref(kind))
            lib.rp_chat_format_masked_sized(kind.value, *rest)
        else:
            with self._own_template() as own:
                lib.rp_chat_template_format_sized(own, *rest)
        return _take_text(text, control)

    def render_chat(self, variables: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """The model's template with all that it can take: {"messages": [...], "tools": [...], "enable_thinking": False, ...}. The
        result is that of format_chat_masked."""
        data = json.dumps(variables, ensure_ascii=False).encode("utf-8")
        text, control = ct.c_void_p(), ct.c_void_p()
        with self._own_template() as own:
            lib.rp_chat_template_render(own, data, len(data), ct.byref(text), ct.byref(control))
        return _take_text(text, control)


def _take_text(text: ct.c_void_p, control: ct.c_void_p) -> tuple[bytes, bytes]:
    try:
        data = ct.string_at(text.value or 0)
        return data, ct.string_at(control.value or 0, len(data))
    finally:
        libc.free(text)
        libc.free(control)


def format_chat(messages: str | Sequence[Message], template: str | int = "chatml") -> str:
    """The conversation as text, without a model."""
    kind = ct.c_int32(template) if isinstance(template, int) else ct.c_int32()
    if isinstance(template, str):
        lib.rp_chat_from_name(template, ct.byref(kind))
    listed, n = chat_messages(messages)
    out = ct.c_void_p()
    lib.rp_chat_format_sized(kind.value, ct.byref(listed), ct.sizeof(_c.RpChatMessage), n, ct.byref(out))
    try:
        return ct.string_at(out.value or 0).decode("utf-8", "replace")
    finally:
        libc.free(out)


def _optional(token: int) -> int | None:
    return None if token < 0 else token
