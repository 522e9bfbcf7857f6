"""Structured output: which texts a reply may be."""
from __future__ import annotations

import ctypes as ct
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _c
from ._handle import Handle, Owner
from ._lib import lib
from .errors import ArgumentError

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

WEAKEN, COMPACT = 1, 2 # RP_GRAMMAR_*


def _made(function: Any, *arguments: Any) -> int:
    out = ct.c_void_p()
    function(*arguments, ct.byref(out))
    assert out.value is not None
    return out.value


class Grammar(Handle):
    """The texts that a reply may be: Session.generate(grammar=...). Threads may share one.

        Grammar.json_schema({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
        Grammar.regex("yes|no"), Grammar.choices(["left", "right"]), Grammar.gbnf('root ::= "a"+'), Grammar.json()
    """

    def __init__(self, pointer: int) -> None:
        super().__init__(pointer, lib.rp_grammar_free)

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | bool | str, *, weaken: bool = False, compact: bool = False) -> Grammar:
        """Texts of JSON that satisfy a JSON Schema, given as an object or as text.

        weaken   a keyword that cannot be kept is dropped (notes), not refused
        compact  no whitespace between tokens
        """
        text = (schema if isinstance(schema, str) else json.dumps(schema)).encode()
        return cls(_made(lib.rp_grammar_json_schema, text, len(text), WEAKEN * weaken | COMPACT * compact))

    @classmethod
    def json(cls, *, compact: bool = False) -> Grammar:
        """Any JSON object."""
        return cls(_made(lib.rp_grammar_json, COMPACT * compact))

    @classmethod
    def gbnf(cls, text: str) -> Grammar:
        """A grammar in the format of llama.cpp."""
        given = text.encode()
        return cls(_made(lib.rp_grammar_gbnf, given, len(given)))

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Texts that match a regular expression of ECMAScript as a whole."""
        given = pattern.encode()
        return cls(_made(lib.rp_grammar_regex, given, len(given)))

    @classmethod
    def choices(cls, texts: Sequence[str]) -> Grammar:
        """One of the texts."""
        given = [t.encode() for t in texts]
        if not given:
            raise ArgumentError("Grammar.choices: no texts")
        array = (_c.RpGgufString * len(given))()
        for item, text in zip(array, given): # noqa: B905
            item.ptr, item.len = ct.cast(ct.c_char_p(text), ct.c_void_p).value, len(text)
        return cls(_made(lib.rp_grammar_choices, ct.addressof(array), len(given)))

    @property
    def notes(self) -> list[str]:
        """What json_schema(weaken=True) dropped, one text for each keyword."""
        return [str(lib.rp_grammar_note_at(self, i)) for i in range(int(lib.rp_grammar_n_notes(self)))]


def vocabulary(tokenizer: Tokenizer, model: Owner) -> Owner:
    """The tokens as a trie, which uses the tokenizer of the model."""
    return Owner(_made(lib.rp_grammar_vocab_new, tokenizer), lib.rp_grammar_vocab_free, (model,))


def matcher(grammar: Grammar, vocab: Owner) -> Owner:
    return Owner(_made(lib.rp_matcher_new, grammar, vocab.pointer), lib.rp_matcher_free, (grammar._owner, vocab))


def chosen(grammar: Grammar | None, schema: Mapping[str, Any] | bool | str | None, regex: str | None) -> Grammar | None:
    """The one of the options of Session.generate that is given."""
    if (grammar is not None) + (schema is not None) + (regex is not None) > 1:
        raise ArgumentError("generate: only one of grammar, schema and regex may be given")
    if schema is not None:
        return Grammar.json_schema(schema)
    return Grammar.regex(regex) if regex is not None else grammar
