"""Engine: each request has the reply that it has alone."""
import pytest

import reprise
from conftest import TINY


@pytest.fixture
def model():
    with reprise.Model(reprise.demo_path()) as opened:
        yield opened


PROMPTS = ["In the beginning", "And God said", "Jesus", "And it came to pass in those days, that"]


def alone(model, i, prompt):
    with model.session(n_ctx=128) as session:
        reply = session.generate(prompt, max_tokens=20, temperature=1.0, seed=i)
        return reply.text, reply.tokens


def test_requests_have_the_replies_that_they_have_alone(model):
    expected = [alone(model, i, prompt) for i, prompt in enumerate(PROMPTS)]
    with model.engine(n_ctx=128, n_seq=3, step_tokens=16) as engine:
        numbers = [engine.add(prompt, max_tokens=20, temperature=1.0, seed=i, draft=i) for i, prompt in enumerate(PROMPTS)]
        text, tokens, ends = dict.fromkeys(numbers, ""), {n: [] for n in numbers}, {}
        for event in engine:
            text[event.request] += event.text
            tokens[event.request] += [event.token] if event.token is not None else []
            if event.end:
                ends[event.request] = event
        for number, (want, ids) in zip(numbers, expected):
            assert text[number] == want and tokens[number] == list(ids)
            assert ends[number].end in ("limit", "end token") and ends[number].n_generated == len(ids)
        stats = engine.stats
        assert stats.running == stats.waiting == stats.used == 0 and stats.generated == sum(len(ids) for _, ids in expected)


def test_prefixes_are_found_and_requests_cancelled(model):
    prompt = list(range(3, 83))
    with model.engine(n_ctx=128, n_threads=1) as engine:
        first = engine.add(prompt, max_tokens=2, ignore_end=True)
        assert [e.end for e in engine if e.request == first][-1] == "limit"
        second, third = engine.add(prompt, max_tokens=2, ignore_end=True), engine.add(prompt, max_tokens=100, ignore_end=True)
        engine.step()
        engine.cancel(third)
        ended = {event.request: event for event in engine if event.end}
        assert ended[second].n_cached == 64 and ended[third].end == "cancelled" and ended[third].token is None
        with pytest.raises(reprise.ArgumentError, match="request 3 is not pending"):
            engine.cancel(third)


def test_a_prefix_is_saved_and_restored(model, tmp_path):
    path, prompt = tmp_path / "a.context", list(range(3, 83))
    with model.engine(n_ctx=128, n_threads=1) as a, model.engine(n_ctx=128, n_threads=1) as b:
        a.add(prompt, max_tokens=2, ignore_end=True)
        want = [event.token for event in a]
        a.save(path, prompt, "Genesis \u00e9")
        assert b.restore(str(path)) == (prompt[:64], 64, "Genesis \u00e9") and b.stats.kept == 2 and b.stats.n_ctx == 128
        b.add(prompt, max_tokens=2, ignore_end=True)
        events = list(b)
        assert [event.token for event in events] == want and events[-1].n_cached == 64
        with model.session(n_ctx=128) as session:
            assert session.restore(path) == "Genesis \u00e9" and session.tokens == prompt[:64]
        with pytest.raises(reprise.ArgumentError, match="the file is no context: it was not replaced"):
            a.save(reprise.demo_path(), prompt)
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(reprise.FormatError):
            b.restore(path)


def test_bad_requests_are_refused(model):
    with pytest.raises(reprise.ArgumentError, match="n_seq of an engine is 65: must be from 1 to 64"):
        model.engine(n_seq=65)
    with pytest.raises(reprise.ArgumentError, match="device 'gpu': must be auto, cpu, cuda or cuda:N"):
        model.engine(device="gpu")
    with model.engine(n_ctx=64) as engine:
        with pytest.raises(reprise.ContextFullError, match="a prompt of 65 tokens does not fit: a sequence holds 64"):
            engine.add([5] * 65)
        with pytest.raises(reprise.ArgumentError, match="guesses of 16 tokens: must be from 0 to 15"):
            engine.add([5], draft=16)
        engine.add([5], max_tokens=3)  # dropped when the engine is closed
        assert engine.pending == 1
    with pytest.raises(reprise.ClosedError, match="the Engine is closed"):
        engine.step()


def test_a_draft_model_changes_no_token(demo):
    texts = []
    for draft in (None, demo):
        with demo.engine(n_ctx=64, n_seq=2, n_threads=1, draft=draft) as engine:
            numbers = [engine.add(prompt, max_tokens=16, draft=4) for prompt in ("In the beginning", "And God said")]
            replies = dict.fromkeys(numbers, "")
            for event in engine:
                replies[event.request] += event.text
            texts.append([replies[n] for n in numbers])
            assert draft is None or engine.stats.accepted == engine.stats.drafted > 0
    assert texts[0] == texts[1]
    with reprise.Model(TINY) as tiny, pytest.raises(reprise.ArgumentError, match="the draft model has another vocabulary"):
        demo.engine(n_ctx=64, draft=tiny)


def test_a_layer_of_the_model_guesses_and_changes_no_token():
    with reprise.Model(TINY.parent / "qwen35-mix.gguf") as model:
        replies = []
        for n_mtp in (0, -1):
            with model.engine(n_ctx=64, n_threads=1, n_mtp=n_mtp) as engine:
                engine.add([3, 4, 5], max_tokens=24, ignore_end=True, temperature=0.8, seed=1)
                replies.append([event.token for event in engine])
                assert (engine.stats.drafted > 0) == (n_mtp == 0)
        assert model.info.mtp and replies[0] == replies[1] and len(replies[0]) == 24
        with pytest.raises(reprise.ArgumentError, match="n_mtp of an engine is 16: must be from -1 to 15"):
            model.engine(n_ctx=64, n_mtp=16)
    with reprise.Model(TINY) as other:
        assert not other.info.mtp
