#!/usr/bin/env python3
"""Writes tests/golden/grammar/masks.txt: the tokens that llguidance allows at each byte of texts, for regular expressions, schemas and
GBNF-like grammars.

    pip install llguidance==1.9.1 numpy
    golden_masks.py

    v <hex> ...                  the vocabulary: token i, the last one ends a reply
    r|s <expression or schema>   a grammar; schemas are compact JSON without whitespace
    t <text>                     a text
    m <hash> ...                 for each byte of it, before it, and at the end: FNV-1a (32 bits) of the words of the mask

A mask of one token is left out (-): where only one text can follow, llguidance allows only the first token of its tokenisation. The
bit of byte 7f is left out too, because llguidance does not allow this byte in strings, while JSON does."""
import json
import pathlib

import llguidance
import llguidance.numpy
from llguidance import JsonCompiler, LLMatcher, LLTokenizer, RegexCompiler, TokenizerWrapper

assert llguidance.__version__.startswith("1.9.1"), llguidance.__version__
TOKENS = [bytes([i]) for i in range(256)] + [t.encode() for t in (
    "ab", "abc", "bc", "12", "123", "0.", ".5", "e5", "-1", "foo", "bar", "foobar", "true", "tr", "ue", "null", "false", '"a', '"a"',
    '":', '{"', '{"a":', '"}', '",', '","', "],", "[[", "]]", "]}", "},", "1,", "1]", "1}", "true,", "null}", "name", '"name"', "x y",
    " the", "é", "€", "日本", "2024-", "-0", "00", "A", "z.", "@x", "c\"", "d\",\"")]
EXPRESSIONS = [
    ("a*b+c?", ["aabbc", "b"]), ("(foo|bar){2,3}", ["foobarfoo", "foobar"]), ("[a-z]+@[a-z]+\\.com", ["ab@x.com"]),
    ("[0-9]{4}-[0-9]{2}", ["2024-01"]), ("(a|ab)(c|bcd)*", ["abcd", "acbcd"]), ("[^x]{2,4}", ["é€a", "日本ab"]),
    ("(\\+|-)?[0-9]+(\\.[0-9]+)?", ["-12.5", "123"]), ("\"[^\"]*\"", ["\"foo x y\""]), ("(ab|a)*b", ["aabab"]),
    ("[a-zé]{3}", ["éab"]), ("(12|123)3?", ["123", "1233"]), ("(abc)+|(ab)+", ["ababab", "abcabc"]),
]
SCHEMAS = [
    ({"type": "object", "properties": {"a": {"type": "integer"}, "name": {"type": "string"}}, "required": ["a"],
      "additionalProperties": False}, ['{"a":12,"name":"foo"}', '{"a":-1}']),
    ({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"enum": ["foo", "foobar", "x"]}},
      "additionalProperties": False}, ['{"a":true,"c":"foobar"}', '{"b":null}', "{}"]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, ["[1,12,123]", "[0]"]),
    ({"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "integer"}], "items": False, "minItems": 2}, ["[true,12]"]),
    ({"enum": ["ab", "abc", 12, True, None]}, ['"abc"', "12", "null"]),
    ({"type": "integer", "minimum": 3, "maximum": 127}, ["12", "123", "3"]),
    ({"type": "integer", "minimum": -15, "exclusiveMaximum": 9}, ["-12", "8", "0"]),
    ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "boolean"}}]}, ["12", "[true,false]"]),
    ({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}, ["[[],[[]]]"]),
    ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "boolean"}},
      "required": ["name"], "additionalProperties": False}}}, "required": ["a"], "additionalProperties": False},
     ['{"a":[{"name":true},{"name":false}]}', '{"a":[]}']),
    ({"type": "string", "pattern": "^[a-c]{2,3}$"}, ['"abc"']), ({"type": "string", "format": "date"}, ['"2024-02-28"']),
    ({"const": {"a": [1, True]}}, ['{"a":[1,true]}']), ({"type": "boolean"}, ["true"]),
    ({"allOf": [{"type": "object", "properties": {"a": {"minimum": 2}}}, {"properties": {"a": {"type": "integer", "maximum": 5}},
      "required": ["a"], "additionalProperties": False}]}, ['{"a":4}']),
]


class Tokens:
    tokens, eos_token_id, bos_token_id, special_token_ids = TOKENS + [b"<end>"], len(TOKENS), None, [len(TOKENS)]

    def __call__(self, text):
        return list(text.encode() if isinstance(text, str) else text)


tokenizer = LLTokenizer(TokenizerWrapper(Tokens()))
bits = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)


def masks(grammar, text):
    matcher = LLMatcher(tokenizer, grammar)
    assert not matcher.is_error(), matcher.get_error()
    for byte in [*text.encode(), None]:
        llguidance.numpy.fill_next_token_bitmask(matcher, bits, 0)
        words = [int(w) & 0xffffffff for w in bits[0]]
        words = [w & ~(-1 << max(0, min(32, len(TOKENS) + 1 - 32 * i))) for i, w in enumerate(words)]
        words[3] &= 0x7fffffff
        yield words[:(len(TOKENS) + 32) // 32]
        if byte is not None:
            assert matcher.consume_token(byte), (text, byte)


def fnv1a(words):
    h = 0x811c9dc5
    for w in words:
        for shift in (0, 8, 16, 24):
            h = ((h ^ (w >> shift & 255)) * 0x01000193) & 0xffffffff
    return h


def one(words):
    return sum(bin(w).count("1") for w in words) == 1


def cases():
    for expression, texts in EXPRESSIONS:
        yield "r", expression, RegexCompiler().compile(expression), texts
    compiler = JsonCompiler(whitespace_flexible=False, separators=(",", ":"))
    for schema, texts in SCHEMAS:
        text = json.dumps(schema, separators=(",", ":"))
        yield "s", text, compiler.compile(text), texts


if __name__ == "__main__":
    lines = [f"# llguidance {llguidance.__version__}", "v " + " ".join(t.hex() for t in TOKENS + [b"<end>"])]
    for kind, text, grammar, texts in cases():
        lines.append(f"{kind} {text}")
        for t in texts:
            lines += [f"t {t}", "m " + " ".join("-" if one(w) else f"{fnv1a(w):08x}" for w in masks(grammar, t))]
    (pathlib.Path(__file__).parents[2] / "tests/golden/grammar/masks.txt").write_text("\n".join(lines) + "\n")
