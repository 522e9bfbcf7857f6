"""`reprise embed` and `reprise rerank`: formats, norms, files, refusals. Numbers are compared with llama.cpp's by test_embed.c.

    test_embed.py PROGRAM SOURCE_DIR

The last line counts."""

import json
import math
import os
import struct

from cli_program import SOURCE, TMP, expect, expect_refusal, ok, run, run_tests

EMBED = os.path.join(SOURCE, "tests/golden/embed")
BERT = os.path.join(EMBED, "bert-f32.gguf")
RANK = os.path.join(EMBED, "bert-rank.gguf")
TEXTS = b"abc\n\na b c!\r\nhello"


def vectors(text):
    return [[float(x) for x in line.split()] for line in text.splitlines()]


def near(a, b, by=1e-6):
    return len(a) == len(b) and all(abs(x - y) <= by for x, y in zip(a, b))


def test_each_line_has_a_vector_of_unit_length():
    r = ok(run("embed", BERT, stdin=TEXTS))
    rows = vectors(r.text)
    expect([len(v) for v in rows] == [32] * 3 and r.err == "", "", r)
    expect(all(abs(math.hypot(*v) - 1.0) < 1e-6 for v in rows), "", r)
    path = os.path.join(TMP.name, "texts")
    with open(path, "wb") as f:
        f.write(TEXTS)
    expect(run("embed", "-m", BERT, "-f", path).out == r.out, "", r)
    expect(vectors(ok(run("embed", BERT, "-p", "a b c!")).text) == rows[1:2], "", r)


def test_formats_have_the_same_numbers():
    rows = vectors(ok(run("embed", BERT, stdin=TEXTS)).text)
    o = json.loads(ok(run("embed", BERT, "--format", "json", stdin=TEXTS)).text)
    expect(o["pooling"] == "mean" and o["dimensions"] == 32 and o["embeddings"] == rows, "", o)
    path = os.path.join(TMP.name, "rows.npy")
    ok(run("embed", BERT, "--format", "npy", "-o", path, stdin=TEXTS))
    with open(path, "rb") as f:
        data = f.read()
    size = 10 + struct.unpack("<H", data[8:10])[0]
    expect(data[:8] == b"\x93NUMPY\x01\x00" and size % 64 == 0 and data[size - 1] == 10, "", data[:80])
    head = eval(data[10:size])  # a literal of Python, as the format has it
    expect(head == {"descr": "<f4", "fortran_order": False, "shape": (3, 32)}, "", head)
    numbers = struct.unpack("<96f", data[size:])
    expect(near(numbers, [x for row in rows for x in row], 1e-8), "", numbers)


def test_norms_and_dimensions():
    plain = vectors(ok(run("embed", BERT, "-p", "abc", "--normalize", "-1")).text)[0]
    for p in (1, 2, 3):
        got = vectors(ok(run("embed", BERT, "-p", "abc", "--normalize", str(p), "--dimensions", "8")).text)[0]
        norm = sum(abs(x) ** p for x in plain[:8]) ** (1 / p)
        expect(near(got, [x / norm for x in plain[:8]]), p, (got, plain))
    most = vectors(ok(run("embed", BERT, "-p", "abc", "--normalize", "0")).text)[0]
    expect(abs(max(abs(x) for x in most) - 32760) < 0.01, "", most)


def test_pooling_none_has_a_row_for_each_token():
    o = json.loads(ok(run("embed", BERT, "--pooling", "none", "--normalize", "-1", "--format", "json", stdin=b"ab\nabc!")).text)
    expect([len(rows) for rows in o["embeddings"]] == [4, 6] and o["pooling"] == "none", "", o)  # with [CLS] and [SEP]
    mean = vectors(ok(run("embed", BERT, "-p", "ab", "--normalize", "-1")).text)[0]
    expect(near(mean, [sum(c) / 4 for c in zip(*o["embeddings"][0])], 1e-5), "", mean)


def test_cosines_are_those_of_the_vectors():
    rows = vectors(ok(run("embed", BERT, stdin=TEXTS)).text)
    want = [[sum(a * b for a, b in zip(x, y)) for y in rows] for x in rows]
    o = json.loads(ok(run("embed", BERT, "--cosine", "--format", "json", stdin=TEXTS)).text)
    expect(all(near(a, b) for a, b in zip(o["cosines"], want)) and len(o["cosines"]) == 3, "", o)
    shown = vectors(ok(run("embed", BERT, "--cosine", stdin=TEXTS)).text)
    expect(all(near(a, b, 6e-5) for a, b in zip(shown, want)), "", shown)


def test_documents_are_ranked():
    documents = b"abc\nb c\nxyz!\n"
    o = json.loads(ok(run("rerank", RANK, "-q", "a", "-f", "-", "--json", stdin=documents)).text)
    scores = [d["score"] for d in o]
    expect(scores == sorted(scores, reverse=True) and sorted(d["index"] for d in o) == [0, 1, 2], "", o)
    expect(all(d["text"] == documents.decode().splitlines()[d["index"]] for d in o), "", o)
    table = ok(run("rerank", RANK, "-q", "a", "-f", "-", "--top", "2", stdin=documents)).text.splitlines()
    expect(table[0].split() == ["score", "document", "text"] and len(table) == 3, "", table)
    expect(table[1].split()[:2] == [f"{scores[0]:.5f}", str(o[0]["index"] + 1)], "", table)


def test_refusals():
    expect_refusal(run("embed", BERT, "-p", ""), 1, "an empty text has no embedding")
    expect_refusal(run("embed", BERT, stdin=b"\n\n"), 1, "-: there is no text")
    expect_refusal(run("embed", BERT, "-p", "a" * 70), 1, "a text of 72 tokens is longer than the context of 64")
    expect_refusal(run("embed", BERT, "-p", "a", "--pooling", "max"), 1, "must be default, none, mean, cls, last or rank")
    expect_refusal(run("embed", BERT, "-p", "a", "--dimensions", "33"), 1, "33 dimensions: must be from 0 to 32")
    expect_refusal(run("rerank", BERT, "-q", "a", "-f", "-", stdin=b"b"), 1, "there is no classification head")
    expect_refusal(run("rerank", RANK, "-q", "a", "-f", "-", stdin=b"\n"), 1, "-: there is no document")
    expect_refusal(run("rerank", RANK, "-q", "", "-f", "-", stdin=b"b"), 1, "an empty query has no score")
    expect_refusal(run("generate", BERT, "-p", "a"), 1, "bert makes embeddings of texts (reprise embed, embed.h): it has no next token")
    expect_refusal(run("embed", BERT, "-p", "a", "-f", "x"), 2, "-p and -f exclude each other")
    expect_refusal(run("embed", BERT, "-p", "a", "--format", "xml"), 2, "--format 'xml': must be text, json or")
    expect_refusal(run("rerank", RANK, "-f", "-"), 2, "-q QUERY is needed")


if __name__ == "__main__":
    run_tests(globals())
