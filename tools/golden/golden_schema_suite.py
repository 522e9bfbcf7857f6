#!/usr/bin/env python3
"""Writes tests/golden/grammar/schema_suite.txt from the JSON-Schema-Test-Suite (github.com/json-schema-org, MIT license): schemas
of drafts 2020-12 and 7, and texts of values that are valid (+) and invalid (-) by the suite.

    golden_schema_suite.py SUITE REPRISE_LIBRARY

SUITE is a clone. The library says which schemas it refuses, which are left out, and which valid values it does not generate (~): their
members come in another order than in the schema, their numbers are written in another way than in enum and const, or they have a form
of a format that is left out. Invalid values are never marked."""
import ctypes
import json
import pathlib
import subprocess
import sys

suite, library = pathlib.Path(sys.argv[1]), ctypes.CDLL(sys.argv[2])
library.rp_last_error.restype = ctypes.c_char_p
FOLDERS = ["draft2020-12", "draft2020-12/optional/format", "draft7"]
ONLY_DRAFT7 = {"additionalItems.json", "dependencies.json", "definitions.json", "items.json", "ref.json", "contains.json"}
LEFT_OUT = {"format.json", "vocabulary.json"} # format as an annotation; meta-schemas


class String(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("n", ctypes.c_uint64)]


def grammar_of(schema):
    g = ctypes.c_void_p()
    st = library.rp_grammar_json_schema(schema, ctypes.c_size_t(len(schema)), 0, ctypes.byref(g))
    return g if st == 0 else None


tokens = (String * 1)(String(b"a", 1))
vocab = ctypes.c_void_p()
assert library.rp_grammar_vocab_of(tokens, ctypes.c_size_t(1), None, ctypes.c_size_t(0), ctypes.byref(vocab)) == 0


def has(g, text):
    m = ctypes.c_void_p()
    assert library.rp_matcher_new(g, vocab, ctypes.byref(m)) == 0
    ok = library.rp_matcher_accept_text(m, text, ctypes.c_size_t(len(text))) == 0 and library.rp_matcher_complete(m) & 1
    library.rp_matcher_free(m)
    return bool(ok)


commit = subprocess.run(["git", "-C", suite, "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
out = pathlib.Path(__file__).parents[2] / "tests/golden/grammar/schema_suite.txt"
lines, schemas, values, unlike = [f"# JSON-Schema-Test-Suite {commit}"], 0, 0, 0
for folder in FOLDERS:
    for path in sorted((suite / "tests" / folder).glob("*.json")):
        if path.name in LEFT_OUT or (folder == "draft7" and path.name not in ONLY_DRAFT7):
            continue
        for group in json.loads(path.read_text()):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema.pop("$comment", None)
                if folder == "draft7":
                    schema.setdefault("$schema", "http://json-schema.org/draft-07/schema#")
            text = json.dumps(schema, separators=(",", ":"))
            g = grammar_of(text.encode())
            if g is None or library.rp_grammar_n_notes(g) > 0:
                continue
            schemas += 1
            lines.append(f"s {text}")
            for test in group["tests"]:
                value = json.dumps(test["data"], ensure_ascii=False)
                if len(value) > 400 or any(0xd800 <= ord(c) < 0xe000 for c in value):
                    continue
                mark = "-" if not test["valid"] else "+" if has(g, value.encode()) else "~"
                values += 1
                unlike += mark == "~"
                lines.append(f"{mark} {value}")
out.parent.mkdir(exist_ok=True)
out.write_text("\n".join(lines) + "\n")
print(f"{schemas} schemas, {values} values, {unlike} valid ones not generated")
