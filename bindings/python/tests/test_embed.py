"""Embeddings and scores, compared with what llama.cpp computed (tests/golden/embed)."""
import pathlib

import numpy as np
import pytest

import reprise

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "tests/golden/embed"


def golden(name):
    """The ids, and {(source, pooling): rows}."""
    rows, ids = {}, []
    for line in (GOLDEN / f"{name}.txt").read_text().splitlines():
        if line.startswith("ids"):
            ids = [int(x) for x in line.split()[1:]]
        elif not line.startswith("#"):
            source, pooling, *numbers = line.split()
            rows.setdefault((source, pooling), []).append([float(x) for x in numbers])
    return ids, {key: np.array(value, np.float32) for key, value in rows.items()}


@pytest.fixture
def model():
    with reprise.Model(GOLDEN / "bert-f32.gguf") as opened:
        yield opened


def test_tokens_have_the_embeddings_of_llama_cpp(model):
    ids, rows = golden("bert-f32")
    for pooling in ("mean", "cls", "last"):
        with model.embedder(pooling=pooling, normalize=None) as embedder:
            np.testing.assert_allclose(embedder.embed_tokens(ids), rows["exact", pooling][0], atol=0.01)
    with model.embedder(pooling="none", normalize="none") as embedder:
        np.testing.assert_allclose(embedder.embed_tokens(ids), rows["exact", "none"], atol=0.01)


def test_several_texts_are_rows_of_unit_length(model):
    texts = ["abc", "a b c!", "hello"]
    rows = model.embed(texts)
    assert rows.shape == (3, 32) and rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(model.embed("a b c!"), rows[1])
    short = model.embed(texts, dimensions=8)
    np.testing.assert_allclose(short, rows[:, :8] / np.linalg.norm(rows[:, :8], axis=1, keepdims=True), rtol=1e-5)


def test_pooling_none_gives_a_row_for_each_token(model):
    rows = model.embed(["ab", "abc!"], pooling="none", normalize=None)
    assert [len(r) for r in rows] == [4, 6]  # [CLS] ... [SEP]
    np.testing.assert_allclose(rows[0].mean(axis=0), model.embed("ab", normalize=None), rtol=1e-5, atol=1e-6)


def test_documents_are_ranked():
    with reprise.Model(GOLDEN / "bert-rank.gguf") as model:
        documents = ["abc", "b c", "xyz!"]
        ranked = model.rerank("a", documents)
        assert sorted(d.number for d in ranked) == [0, 1, 2]
        assert [d.score for d in ranked] == sorted((d.score for d in ranked), reverse=True)
        assert all(d.text == documents[d.number] for d in ranked)
        with model.embedder() as embedder:
            assert embedder.pooling == "rank" and embedder.n_out == 1 and embedder.n_ctx == 64
            assert embedder.score("a", "b c") == next(d.score for d in ranked if d.number == 1)


def test_bad_arguments_are_errors(model):
    with pytest.raises(reprise.ArgumentError, match="pooling 'max'"):
        model.embed("a", pooling="max")
    with pytest.raises(reprise.ArgumentError, match="normalize 'l2': must be"):
        model.embed("a", normalize="l2")
    with pytest.raises(reprise.ArgumentError, match="p of a p-norm must be 1 or more"):
        model.embed("a", normalize=0)
    with pytest.raises(reprise.ArgumentError, match="an empty text has no embedding"):
        model.embed("")
    with pytest.raises(reprise.ContextFullError, match="a text of 65 tokens is longer than the context of 64"):
        model.embedder().embed_tokens([1] * 65)
    with pytest.raises(reprise.UnsupportedError, match="no classification head"):
        model.rerank("a", ["b"])
    with pytest.raises(reprise.UnsupportedError, match="it has no next token"):
        model.session()
