"""Training: a model is made, learns, is saved, resumed and exported."""
import numpy as np
import pytest

import reprise

SEQ, BATCH, VOCAB = 16, 4, 300
OPTIONS = {"batch": BATCH, "seq": SEQ, "lr": 1e-2, "n_threads": 2, "device": "cpu"}
TEXT = "in the beginning was the word and the word was with light and the light was good " * 40


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    reprise.train_tokenizer([TEXT], folder / "tokenizer.gguf", n_vocab=VOCAB)
    reprise.train_init("tiny", folder / "untrained.gguf", tokenizer=folder / "tokenizer.gguf", seed=3)
    return folder / "untrained.gguf"


def batches(path, n):
    ids = reprise.Model(path).tokenizer.encode(TEXT)
    random = np.random.default_rng(1)
    starts = random.integers(0, len(ids) - SEQ - 1, (n, BATCH))
    return np.array([[ids[s:s + SEQ + 1] for s in row] for row in starts], np.int32)


def test_learns_and_resumes(untrained, tmp_path):
    tokens = batches(untrained, 40)
    losses = []
    with reprise.Trainer(reprise.Model(untrained), **OPTIONS) as trainer:
        assert trainer.info.device == "cpu" and "adamw" in str(trainer.plan)
        for batch in tokens:
            result = trainer.step(batch)
            losses.append(result.loss)
            if result.step == 30:
                trainer.save(tmp_path / "checkpoint.gguf")
        assert trainer.n_steps == 40 and result.n_targets == BATCH * SEQ
        assert losses[-1] < 0.7 * losses[0] and abs(losses[0] - np.log(VOCAB)) < 1.5
        loss = trainer.evaluate(tokens.reshape(-1, SEQ + 1))
        trainer.export(tmp_path / "trained.gguf")
    with reprise.Trainer(reprise.Model(tmp_path / "checkpoint.gguf"), **OPTIONS) as trainer:
        assert trainer.n_steps == 30
        assert [trainer.step(batch).loss for batch in tokens[30:]] == losses[30:]
    with reprise.Trainer(reprise.Model(tmp_path / "trained.gguf"), **OPTIONS) as trainer:
        assert trainer.n_steps == 0
        assert abs(trainer.evaluate(tokens.reshape(-1, SEQ + 1)) - loss) < 1e-6


def test_adapters(untrained, tmp_path):
    tokens = batches(untrained, 20)
    with reprise.Trainer(reprise.Model(untrained), lora_rank=4, seed=5, **OPTIONS) as trainer:
        losses = [trainer.step(batch).loss for batch in tokens]
        loss = trainer.evaluate(tokens[0])
        trainer.save(tmp_path / "checkpoint.gguf")
        trainer.export(tmp_path / "adapter.gguf")
    assert losses[-1] < losses[0] - 0.1
    with reprise.Trainer(reprise.Model(untrained), lora_rank=4, seed=5, adapter=tmp_path / "checkpoint.gguf", **OPTIONS) as trainer:
        assert trainer.n_steps == 20 and trainer.evaluate(tokens[0]) == loss
    model = reprise.Model(untrained)
    plain = np.array(model.logits(tokens[0, :1, :8]))
    model = reprise.Model(untrained)
    model.add_adapter(tmp_path / "adapter.gguf")
    applied = np.array(model.logits(tokens[0, :1, :8]))
    model.merge(tmp_path / "merged.gguf")
    merged = np.array(reprise.Model(tmp_path / "merged.gguf").logits(tokens[0, :1, :8]))
    assert np.abs(applied - merged).max() < 0.01 < np.abs(applied - plain).max()
    assert model.info.adapter_warning is None
    with pytest.raises(reprise.FormatError, match="general.type is ''"):
        model.add_adapter(untrained)
    tuned = tmp_path / "tuned.gguf"
    with reprise.Trainer(reprise.Model(untrained), **OPTIONS) as trainer:
        trainer.step(tokens[0])
        trainer.export(tuned)
    model = reprise.Model(tuned)
    model.add_adapter(tmp_path / "adapter.gguf")
    assert "adapter.gguf was trained on another model" in model.info.adapter_warning


def test_a_checkpoint_has_one_trainer(untrained, tmp_path):
    options = {**OPTIONS, "checkpoint": tmp_path / "one.gguf"}
    model = reprise.Model(untrained)
    with reprise.Trainer(model, **options) as trainer:
        with pytest.raises(reprise.StateError, match="another trainer of this process"):
            reprise.Trainer(model, **options)
        trainer.save(tmp_path / "one.gguf")
    reprise.Trainer(model, **options).close()


def test_memory_is_known_before(untrained):
    memory = reprise.Trainer.memory(reprise.Model(untrained), **OPTIONS)
    assert memory.total == sum(memory[:4]) and memory.optimizer == 2 * memory.weights


def test_refusals(untrained):
    model = reprise.Model(untrained)
    with pytest.raises(reprise.ArgumentError, match="seq"):
        reprise.Trainer(model, batch=1, seq=-1)
    with reprise.Trainer(model, **OPTIONS) as trainer:
        with pytest.raises(reprise.ShapeError, match="must have shape"):
            trainer.step(np.zeros((BATCH, SEQ), np.int32))
        with pytest.raises(reprise.ArgumentError, match=str(VOCAB + 7)):
            trainer.step(np.full((BATCH, SEQ + 1), VOCAB + 7, np.int32))
        assert trainer.n_steps == 0 and not trainer.expert_load() or trainer.model.info.n_expert
    with pytest.raises(reprise.ClosedError):
        trainer.step(np.zeros((BATCH, SEQ + 1), np.int32))
