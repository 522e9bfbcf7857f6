"""Models, sessions and replies."""
import json
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import reprise
from conftest import BUILD, HANG_S, SOURCE, TINY
from reprise.reply import Channel

SAMPLING = {"temperature": 0.7, "top_p": 0.9, "seed": 4}


def test_model_and_tokenizer(demo):
    info, tokenizer = demo.info, demo.tokenizer
    assert (info.arch, info.n_layer, info.n_expert, info.n_vocab) == ("qwen3moe", 4, 8, 4096)
    assert demo.metadata["general.architecture"] == "qwen3moe" and demo.metadata["qwen3moe.block_count"] == 4
    assert len(demo.metadata["tokenizer.ggml.tokens"]) == len(tokenizer) == 4096
    ids = tokenizer.encode("In the beginning", add_special=False)
    assert tokenizer.decode(ids) == "In the beginning"
    assert tokenizer.encode("a\0b") and tokenizer.decode(tokenizer.encode("a\0b", add_special=False)) == "a\0b"
    with pytest.raises(KeyError):
        demo.metadata["no.such.key"]
    file = reprise.GgufFile(SOURCE / "assets/demo.gguf")
    of_file = file.tokenizer()
    file.close()
    assert of_file.encode("In the beginning", add_special=False) == ids and of_file.chat_format == tokenizer.chat_format
    assert reprise.dtype_info("q6_k")[1:3] == (256, 210)


def test_the_sampling_that_a_model_recommends(demo, tmp_path):
    assert demo.sampling == {} and demo.tokenizer.fim == {} and demo.tokenizer.suppressed == []
    folder = tmp_path / "model"
    shutil.copytree(SOURCE / "tests/golden/hf_text", folder)
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**config, "do_sample": True, "temperature": 1.5, "top_k": 40}))
    with reprise.Model(folder) as model:
        assert model.sampling == {"temperature": 1.5, "top_k": 40}
        assert str(model.generate("a", max_tokens=12, seed=1, **model.sampling)) == str(
            model.generate("a", max_tokens=12, seed=1, temperature=1.5, top_k=40))
    (folder / "generation_config.json").write_text(json.dumps({**config, "do_sample": True, "top_k": -7}))
    with reprise.Model(folder) as model, pytest.raises(reprise.FormatError, match="general.sampling.top_k is -7"):
        model.sampling


def test_suppressed_tokens_are_never_sampled(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(SOURCE / "tests/golden/hf_text", folder)
    with reprise.Model(folder) as model:
        usual = model.generate("a", max_tokens=12, temperature=0, ignore_end=True).tokens[:2]
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**config, "suppress_tokens": usual}))
    with reprise.Model(folder) as model:
        assert model.tokenizer.suppressed == usual
        reply = model.generate("a", max_tokens=12, temperature=0, ignore_end=True).tokens
        assert len(reply) == 12 and not set(usual) & set(reply)
        sampler, logits = reprise.Sampler(model.info.n_vocab), np.zeros(model.info.n_vocab, np.float32)
        logits[usual[0]] = 1
        assert sampler.sample(logits) == usual[0]
        sampler.suppress(model.tokenizer)
        assert sampler.sample(logits) not in usual
        sampler.suppress(None)
        assert sampler.sample(logits) == usual[0]


def test_tensors_share_the_memory_of_the_file(demo):
    norm = demo.tensors["output_norm.weight"]
    assert norm.dtype == "f32" and norm.shape == (256,) and not norm.data.flags.writeable
    again = demo.tensors["output_norm.weight"].data
    assert again.ctypes.data == norm.data.ctypes.data
    embedding = demo.tensors["token_embd.weight"]
    assert embedding.shape == (4096, 256) and embedding.data.nbytes == embedding.n_bytes
    assert embedding.dequantize().shape == (4096, 256) and np.isfinite(embedding.dequantize()).all()
    assert len(list(demo.tensors)) == len(demo.tensors)


def test_streaming_gives_what_the_program_prints(demo):
    program = BUILD / "reprise"
    if not program.exists():
        pytest.skip(f"the program is not in {BUILD}")
    done = subprocess.run([program, "generate", SOURCE / "assets/demo.gguf", "-p", "In the beginning", "-n", "40", "--temp", "0.7",
                           "--top-p", "0.9", "--seed", "4", "--json"], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    parts = list(demo.generate("In the beginning", max_tokens=40, **SAMPLING))
    assert "".join(part.text for part in parts) == said["text"]
    assert len(parts) == 40 and all(len(part.tokens) == 1 for part in parts)


def test_streamed_and_whole_replies_are_equal(demo, session):
    streamed = session.generate("In the beginning", max_tokens=30, **SAMPLING)
    text = "".join(map(str, streamed))
    with demo.session(n_ctx=128, n_threads=1) as other:
        whole = other.generate("In the beginning", max_tokens=30, **SAMPLING)
        assert (whole.text, whole.tokens, whole.reason) == (text, streamed.tokens, "limit")
        assert other.tokens == session.tokens and other.n_past == len(other.tokens) == 33
        assert whole.tokens_per_s > 0 and whole.n_prompt == 4 and whole.first_token_s > 0
    assert session.tokens[4:] == streamed.tokens[:-1]


def test_a_loop_that_ends_early_leaves_what_it_saw(session):
    for i, part in enumerate(session.generate("In the beginning", max_tokens=30)):
        if i == 4:
            break
    assert session.n_past == 4 + 4 # the last of five tokens is not appended
    reply = session.generate([1], max_tokens=30)
    next(reply)
    assert session.n_past == 9
    session.step(5) # any other use ends the reply
    assert reply.reason == "cancelled" and session.n_past == 10 and list(reply) == []


def test_recurrent_states_go_back_to_the_ends_of_prompts():
    with reprise.Session(reprise.Model(SOURCE / "tests/golden/tiny/qwen35-f32.gguf"), n_ctx=64) as session:
        session.prefill([3, 4, 5, 6, 7])
        session.step(8)
        wanted = session.logits.copy()
        session.step(9)
        assert [session.rewind_point(n) for n in (4, 5, 6, 7, 99)] == [0, 5, 5, 7, 7]
        with pytest.raises(reprise.NotAvailableError, match="not kept there, the nearest before it is 5"):
            session.rewind(6)
        session.rewind(5)
        session.step(8)
        assert np.array_equal(session.logits, wanted)


def test_stop_strings_and_end(session):
    whole = session.generate("In the beginning", max_tokens=30, **SAMPLING).text
    session.rewind(0)
    stop = whole[20:26]
    reply = session.generate("In the beginning", max_tokens=30, stop=stop, **SAMPLING)
    assert reply.text == whole[:whole.index(stop)] and reply.reason == "stop string"


def test_step_by_step(demo, session):
    wanted = session.generate("In the beginning", max_tokens=5).tokens
    session.rewind(0)
    assert session.logits is None
    sampler, got = reprise.Sampler(demo.info.n_vocab), []
    session.prefill("In the beginning")
    for _ in range(5):
        got.append(sampler.sample(session.logits))
        session.step(got[-1])
    assert got == wanted
    assert np.argmax(demo.logits(session.tokens)[3]) == wanted[0]


def test_logits_are_not_copied(session):
    session.prefill("In the")
    logits = session.logits
    assert logits.shape == (4096,) and logits.ctypes.data == session.logits.ctypes.data and not logits.flags.writeable
    before = logits.copy()
    session.step(5)
    assert not np.array_equal(logits, before)
    scored = session.score([7, 9])
    assert scored.shape == (2, 4096) and np.array_equal(scored[1], session.logits)


def test_memory_outlives_close(demo):
    session = demo.session(n_ctx=16, n_threads=1)
    session.prefill([1])
    logits, before = session.logits, session.logits.copy()
    session.close()
    assert np.array_equal(logits, before)
    with pytest.raises(reprise.ClosedError, match="the Session is closed"):
        session.step(1)
    model = reprise.Model(TINY)
    with model.session(n_ctx=16) as s:
        model.close()
        s.prefill([1, 2])
        assert s.logits is not None and s.tokenizer is not None
        with pytest.raises(reprise.ClosedError, match="the Model is closed"):
            model.info


def test_open_from_memory():
    data = TINY.read_bytes()
    model = reprise.Model(data=data, name="in memory")
    del data
    assert model.info.arch == "llama" and np.isfinite(model.logits([[1, 2], [3, 4]])).all()
    with pytest.raises(reprise.FormatError, match="bad one"):
        reprise.Model(data=b"GGUF", name="bad one")


def test_chat_keeps_what_is_in_the_context():
    with reprise.Model(TINY) as model, model.session(n_ctx=256) as s:
        say = [("user", "Hi")]
        first = s.chat(say, template="chatml", max_tokens=4)
        say += [("assistant", first.text), ("user", "and")]
        n = len(model.tokenizer.encode_chat(say, template="chatml"))
        second = s.chat(say, template="chatml", max_tokens=4, seed=1)
        assert second.n_prompt < n and s.tokens[:n] == model.tokenizer.encode_chat(say, template="chatml")
        with model.session(n_ctx=256) as fresh:
            assert fresh.chat(say, template="chatml", max_tokens=4).tokens == second.tokens
        data, control = model.tokenizer.format_chat_masked(say, template="chatml")
        assert model.tokenizer.encode(data, control=control) == model.tokenizer.encode_chat(say, template="chatml")
    assert reprise.format_chat("Hi") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_experts(demo):
    with demo.session(n_ctx=64, count_experts=True) as s:
        s.generate("In the", max_tokens=10).text
        counts = s.expert_counts
        assert sorted(counts) == [0, 1, 2, 3] and all(c.sum() == 2 * s.n_past for c in counts.values())


def test_one_call_at_a_time(session):
    problems = []

    def other():
        try:
            session.step(1)
        except reprise.StateError as error:
            problems.append(str(error))
    with session._use():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert problems == ["the Session is in use by another call"]


def test_the_gil_is_released(demo):
    """While one thread computes, another one counts. The interpreter itself does not switch threads meanwhile."""
    counted, done, interval = [0], threading.Event(), sys.getswitchinterval()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0)
    thread = threading.Thread(target=count)
    during, ids = 0, list(range(1, 200))
    with demo.session(n_ctx=256, n_threads=1) as s:
        thread.start()
        try:
            sys.setswitchinterval(1e6)
            for _ in range(1000): # on a busy machine the other thread may not run during one prefill
                s.rewind(0)
                before = counted[0]
                s.prefill(ids)
                during = counted[0] - before
                if during > 0:
                    break
        finally:
            sys.setswitchinterval(interval)
            done.set()
            thread.join()
    assert during > 0


def test_an_interrupt_ends_a_reply(session, monkeypatch):
    """The signal comes while the main thread waits for the thread of the reply, which stands still until it is cancelled."""
    put = Channel.put

    interrupts = []

    def interrupt(signum, frame):
        interrupts.append(signum)
        if len(interrupts) == 1:
            raise KeyboardInterrupt

    def put_and_interrupt(channel, part):
        if len(channel.call.parts) == 3:
            end = time.monotonic() + HANG_S
            while not channel.call.cancelled and time.monotonic() < end:
                if not interrupts: # Python does not see a signal that comes just before the thread waits, until the next one
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
                time.sleep(0.1)
        return put(channel, part)
    monkeypatch.setattr(Channel, "put", put_and_interrupt)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        reply = session.generate("In the beginning", ignore_end=True)
        with pytest.raises(KeyboardInterrupt):
            reply.text
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(reply._call.parts) == 3 and reply.reason == "cancelled"
    monkeypatch.undo()
    session.rewind(0)
    assert session.generate("In the", max_tokens=2).tokens


def test_progress_can_cancel(demo, session):
    seen = []
    reprise.Model(TINY, progress=lambda done, total: seen.append((done, total))).close()
    assert seen and seen[-1][0] == seen[-1][1]
    with pytest.raises(reprise.CancelledError):
        reprise.Model(TINY, progress=lambda done, total: False)
    with pytest.raises(ZeroDivisionError):
        reprise.Model(TINY, progress=lambda done, total: 1 / 0)
    with demo.session(n_ctx=64, prefill_chunk=16) as s:
        with pytest.raises(reprise.CancelledError):
            s.prefill(list(range(1, 40)), progress=lambda done, total: False)
        assert 0 < s.n_past < 39 and s.tokens == list(range(1, 1 + s.n_past))


def test_reports(demo, session):
    assert session.info.device == "cpu" and session.info.mode == "eager" and session.n_threads == session.info.n_threads == 1
    assert "qkv" in str(session.decode_plan) and session.decode_plan.memory.n_steps == 27
    assert demo.session_memory(n_ctx=64).n_ctx == 64
    assert {option.name for option in reprise.options()} >= {"REPRISE_DEVICE", "REPRISE_THREADS"}
    assert reprise.cpu_isa() and reprise.cpu_prefetch() and "tiny" in reprise.presets() and "Q4_K_M" in reprise.types()


def test_write_models(tmp_path):
    reprise.synth("tiny", tmp_path / "a.gguf", type="F16", seed=3)
    reprise.requantize(tmp_path / "a.gguf", tmp_path / "b.gguf", "Q8_0")
    with reprise.Model(tmp_path / "a.gguf") as a, reprise.Model(tmp_path / "b.gguf") as b:
        x, y = a.logits([1, 2, 3]), b.logits([1, 2, 3])
        assert np.abs(x - y).max() < 0.05 * np.abs(x).max()
        assert b.info.weight_bytes < a.info.weight_bytes
    reprise.requantize(tmp_path / "a.gguf", tmp_path / "c.gguf", "Q4_0", pure=True)
    reprise.requantize(tmp_path / "a.gguf", tmp_path / "d.gguf", "Q4_0")
    assert (tmp_path / "c.gguf").stat().st_size < (tmp_path / "d.gguf").stat().st_size  # the output matrix is Q6_K
    with pytest.raises(reprise.Error, match="no/such/file"):
        reprise.requantize(tmp_path / "a.gguf", tmp_path / "e.gguf", "Q4_0", imatrix="no/such/file")


def test_samplers_have_the_steps_of_llama_cpp():
    logits = np.array([1.0, 3.0, 2.0, 2.5], np.float32)
    assert reprise.Sampler(4).host_only == ""
    assert reprise.Sampler(4, logit_bias={1: -np.inf}).sample(logits) == 3
    assert reprise.Sampler(4, logit_bias={0: 5}, samplers=["top_k", "temperature"]).sample(logits) == 0
    sampler = reprise.Sampler(4, temperature=1.0, typical_p=0.5, min_keep=2, xtc_probability=0.5, dynatemp_range=0.1)
    assert sampler.host_only == "typical_p, xtc_probability, dynatemp_range, min_keep"
    assert {sampler.sample(logits) for _ in range(50)} <= {0, 1, 2, 3}
    penalised = reprise.Sampler(4, presence_penalty=1.0, frequency_penalty=0.25)
    assert [penalised.sample(logits) for _ in range(4)] == [1, 3, 2, 1]
    for wrong in ({"typical_p": 2}, {"mirostat": 1}, {"samplers": "top_q"}, {"logit_bias": {9: 1.0}}, {"dry_breakers": ["a"]}):
        with pytest.raises(reprise.ArgumentError, match=next(iter(wrong))):
            reprise.Sampler(4, **wrong)
    with pytest.raises(reprise.ArgumentError, match="logit_bias"):
        reprise.Sampler(4, logit_bias={"x": 1.0})


def test_dry_finds_its_breakers_with_the_tokenizer(session):
    reply = session.generate("In the beginning", max_tokens=30, temperature=0.7, seed=4, dry_multiplier=0.8,
                             dry_breakers=["\n", "LORD"])
    assert len(reply.tokens) == 30 and reply.host_sampling is None # the CPU always samples on the host


def test_log_probabilities(demo, session):
    reply = session.generate("In the beginning", max_tokens=10, logprobs=3, **SAMPLING)
    assert [of.token for of in reply.logprobs] == reply.tokens
    ids = demo.tokenizer.encode("In the beginning")
    scored = demo.session().score([*ids, *reply.tokens[:-1]])[len(ids) - 1:]
    for of, logits in zip(reply.logprobs, scored, strict=True):
        logits = logits.astype(np.float64)
        expected = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        assert abs(of.logprob - expected[of.token]) < 1e-4
        assert [token for token, _ in of.top] == np.argsort(-expected, kind="stable")[:3].tolist()
        assert np.allclose([value for _, value in of.top], np.sort(expected)[::-1][:3], atol=1e-4)
    assert session.generate("x", max_tokens=2).logprobs == []
    chosen = reprise.logprobs(np.zeros(4, np.float32), 2, 2)
    assert chosen.token == 2 and abs(chosen.logprob + np.log(4)) < 1e-6 and [t for t, _ in chosen.top] == [0, 1]
    with pytest.raises(reprise.ArgumentError, match="n_logprobs"):
        session.generate("x", max_tokens=2, logprobs=5000).text # noqa: B018


def test_a_context_is_saved_and_restored(demo, tmp_path):
    path = tmp_path / "a.context"
    with demo.session(n_ctx=128, n_threads=1) as a, demo.session(n_ctx=96, n_threads=2) as b:
        a.prefill("In the beginning God created")
        a.save(path, "Genesis \u00e9")
        want = a.generate(" the", max_tokens=12).text
        b.prefill("Now")
        assert b.restore(str(path)) == "Genesis \u00e9" and b.n_past == len(b.tokens) and b.tokens == a.tokens[:b.n_past]
        assert b.generate(" the", max_tokens=12).text == want
        path.write_bytes(path.read_bytes()[:-100])
        before = b.tokens
        with pytest.raises(reprise.FormatError):
            b.restore(path)
        assert b.tokens == before
        with pytest.raises(reprise.ArgumentError, match="the file is no context: it was not replaced"):
            a.save(SOURCE / "assets/demo.gguf")
        a.rewind(0)
        with pytest.raises(reprise.StateError, match="the context is empty"):
            a.save(path)
