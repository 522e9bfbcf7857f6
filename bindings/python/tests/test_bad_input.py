"""Bad input gets the code and the text of C, or is refused before the call; nothing ends the process."""
import ctypes

import numpy as np
import pytest

import reprise
from conftest import TINY
from reprise._lib import lib

E = reprise


def text_of_c(symbol, *arguments):
    """The status and the text of a call without the checks of this package."""
    function = getattr(ctypes.CDLL(lib.path), symbol)
    function.restype = ctypes.c_int32
    status = function(*arguments)
    last = ctypes.CDLL(lib.path).rp_last_error
    last.restype = ctypes.c_char_p
    return status, last().decode()


def test_the_code_and_the_text_are_those_of_c():
    out = ctypes.c_void_p()
    path = b"/nonexistent/model.gguf"
    status, text = text_of_c("rp_model_open_sized", path, None, ctypes.c_size_t(0), ctypes.byref(out))
    with pytest.raises(E.FileError) as caught:
        reprise.Model(path.decode())
    assert (caught.value.status, str(caught.value)) == (status, text) and isinstance(caught.value, OSError)
    status, text = text_of_c("rp_synth_sized", b"no preset", None, ctypes.c_size_t(0), b"x")
    with pytest.raises(E.ArgumentError) as caught:
        reprise.synth("no preset", "x")
    assert (caught.value.status, str(caught.value)) == (status, text) and "tiny" in text
    status, text = text_of_c("rp_mode_from_name", b"fast", ctypes.byref(ctypes.c_int()))
    with pytest.raises(E.ArgumentError) as caught:
        reprise.Model(TINY).session(mode="fast")
    assert (caught.value.status, str(caught.value)) == (status, text)


CALLS = [
    (E.ArgumentError, "a context of -1 tokens", lambda m, s: m.session(n_ctx=-1)),
    (E.ArgumentError, "from -2147483648 to 2147483647", lambda m, s: m.session(n_ctx=2**40)),
    (E.ArgumentError, "tpu", lambda m, s: m.session(device="tpu")),
    (E.ArgumentError, "'nothing' is not a pass", lambda m, s: m.session(passes="-nothing")),
    (E.ArgumentError, "NUL", lambda m, s: m.session(device="c\0pu")),
    (E.DtypeError, "q9", lambda m, s: m.session(kv_type="q9")),
    (E.ArgumentError, "n_threads", lambda m, s: m.session(n_threads="two")),
    (E.ArgumentError, "", lambda m, s: s.step(99999999)),
    (E.ArgumentError, "", lambda m, s: s.step(2**63)),
    (E.ArgumentError, "must be an integer, not float", lambda m, s: s.step(1.5)),
    (E.ArgumentError, "outside", lambda m, s: s.prefill([1, 2**31])),
    (E.DtypeError, "must be integers", lambda m, s: s.prefill([1.5])),
    (E.ShapeError, "one dimension", lambda m, s: s.prefill([[1, 2]])),
    (E.ArgumentError, "", lambda m, s: s.prefill([])),
    (E.ContextFullError, "", lambda m, s: s.prefill([1] * 33)),
    (E.ArgumentError, "", lambda m, s: s.rewind(5)),
    (E.ArgumentError, "empty", lambda m, s: s.generate("", max_tokens=1, stop="").text or s.generate([], max_tokens=1).text),
    (E.ArgumentError, "temperature", lambda m, s: s.generate([1], temperature=-1.0)),
    (E.ArgumentError, "temperature", lambda m, s: s.generate([1], temperature=float("nan"))),
    (E.ArgumentError, "only one of them must be given", lambda m, s: s.generate([1], sampler=E.Sampler(320), seed=1)),
    (E.ArgumentError, "vocabulary", lambda m, s: s.generate([1], sampler=E.Sampler(7), max_tokens=1).text),
    (E.ArgumentError, "a reply of -1 tokens", lambda m, s: s.generate([1], max_tokens=-1).text),
    (E.ArgumentError, "max_tokens = 0", lambda m, s: s.generate([1], max_tokens=0)),
    (E.ArgumentError, "role", lambda m, s: s.chat([("robot", "Hi")], template="chatml")),
    (E.ArgumentError, "chatml", lambda m, s: s.chat("Hi", template="no format")),
    (E.ArgumentError, "role and content", lambda m, s: s.chat([{"text": "Hi"}], template="chatml")),
    (E.ShapeError, "logits", lambda m, s: E.Sampler(320).sample(np.zeros(319))),
    (E.ArgumentError, "", lambda m, s: E.Sampler(320).sample(np.full(320, np.nan))),
    (E.ArgumentError, "", lambda m, s: E.Sampler(0)),
    (E.ShapeError, "ids", lambda m, s: m.logits(np.zeros((1, 1, 1), np.int32))),
    (E.ArgumentError, "", lambda m, s: m.logits([[99999]])),
    (E.ArgumentError, "a graph of 0 tokens", lambda m, s: m.graph(0)),
    (E.ArgumentError, "", lambda m, s: m.tokenizer.token_bytes(10**6)),
    (E.ArgumentError, "control has 1 values", lambda m, s: m.tokenizer.encode("Hi", control=[True])),
    (E.ShapeError, "whole", lambda m, s: E.quantize(np.zeros(31), "q8_0")),
    (E.ArgumentError, "", lambda m, s: E.quantize(np.full(32, np.nan), "q8_0")),
    (E.ShapeError, "bytes", lambda m, s: E.dequantize(np.zeros(33, np.uint8), "q8_0")),
    (E.DtypeError, "no type of weights", lambda m, s: E.dequantize(np.zeros(32, np.uint8), "i32")),
    (E.FileError, "", lambda m, s: E.GgufFile("/nonexistent")),
    (E.NotAvailableError, "", lambda m, s: E.device.cuda_info(0)),
    (E.ArgumentError, "CUDA is required", lambda m, s: m.session(device="cpu", require_cuda=True)),
    (E.NotAvailableError, "", lambda m, s: m.session(device="cuda:9", require_cuda=True)),
    (E.ArgumentError, "isa", lambda m, s: E.set_cpu_isa("sse9")),
    (E.ArgumentError, "", lambda m, s: E.set_cpu_prefetch("l1", 63)),
]


@pytest.mark.parametrize("kind, part, call", CALLS, ids=range(len(CALLS)))
def test_is_refused(kind, part, call):
    with reprise.Model(TINY) as m, m.session(n_ctx=32, n_threads=1) as s:
        with pytest.raises(kind) as caught:
            call(m, s)
        assert part in str(caught.value) and str(caught.value), str(caught.value)


def test_everything_that_is_closed_says_so():
    m = reprise.Model(TINY)
    s, g, sampler, f = m.session(n_ctx=16), m.graph(), reprise.Sampler(320), reprise.GgufFile(TINY)
    e, t, metadata, plan = reprise.Executor(g), m.tokenizer, m.metadata, reprise.Plan(g)
    node = g.find("logits")
    for thing in (m, s, g, sampler, f, e, plan):
        thing.close()
        thing.close()
        assert thing.closed
    uses = [lambda: m.info, lambda: m.session(), lambda: s.step(1), lambda: s.n_past, lambda: s.logits, lambda: g.to_dot(),
            lambda: sampler.sample(np.zeros(320)), lambda: f.version, lambda: f.metadata["a"], lambda: e.run(), lambda: e["logits"],
            lambda: e.info, lambda: t.encode("a"), lambda: t.chat_format, lambda: metadata["general.name"], lambda: len(metadata),
            lambda: plan.memory, lambda: node.shape, lambda: g.silu(node), lambda: s.generate([1]).text, lambda: list(m.tensors)]
    for use in uses:
        with pytest.raises(reprise.ClosedError, match="is closed"):
            use()
