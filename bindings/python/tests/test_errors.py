"""Bad input gives the codes and texts of bindings/errors.txt, which other languages have too."""
import numpy as np
import pytest

import reprise
from conftest import SOURCE, TINY
from reprise import nn

NAN, ONE = float("nan"), np.ones(8, np.float32)
TABLE = {line.split("\t")[0]: line.split("\t")[1:] for line in (SOURCE / "bindings/errors.txt").read_text().splitlines()
         if not line.startswith("#")}
# Cases of arrays without a shape, which arrays of NumPy have: those are refused by their shapes, with other texts.
SHAPED = {"sample_length", "executor_length", "executor_type", "nn_length", "nn_rows", "nn_weight", "nn_negative", "nn_negative_dim",
          "nn_overflow", "nn_k_negative"}
# Refused where it happens and not when the graph is compiled: the text names the Python function or node.
AT_ONCE = {"graph_foreign", "graph_name"}


def model():
    return reprise.Model(TINY)


def session():
    return model().session(n_ctx=8, n_threads=1, device="cpu")


def graph(build):
    g = reprise.Graph()
    g.finish(*build(g, g.input("x", (3, 4))))
    return g


def foreign(g, x):
    return [g.add(x, reprise.Graph().input("z", (3, 4)))]


CASES = {
    "open_missing": lambda: reprise.Model("/nonexistent/model.gguf"),
    "open_nul": lambda: reprise.Model("a\0b"),
    "open_junk": lambda: reprise.Model(data=b"no model at all, but long enough", name="junk"),
    "sampler_temperature": lambda: reprise.Sampler(3, temperature=NAN),
    "sampler_vocabulary": lambda: reprise.Sampler(0),
    "sample_nan": lambda: reprise.Sampler(2).sample([NAN, NAN]),
    "token_bytes": lambda: model().tokenizer.decode([-1]),
    "chat_format": lambda: model().tokenizer.encode_chat([], template="nope"),
    "chat_order": lambda: model().tokenizer.encode_chat([("assistant", "no")], template="chatml"),
    "chat_role": lambda: model().tokenizer.encode_chat([("king", "no")], template="chatml"),
    "quantize_block": lambda: reprise.quantize(np.zeros(31), "q4_0"),
    "quantize_nan": lambda: reprise.quantize([NAN] + [0.0] * 31, "q8_0"),
    "quantize_type": lambda: reprise.quantize(np.zeros(32), "i32"),
    "session_context": lambda: model().session(n_ctx=-1),
    "session_device": lambda: model().session(n_ctx=8, device="tpu"),
    "session_repack": lambda: model().session(n_ctx=8, repack="yes"),
    "prefill_token": lambda: session().prefill([-1]),
    "prefill_nothing": lambda: session().prefill([]),
    "prefill_long": lambda: session().prefill([1] * 9),
    "rewind": lambda: session().rewind(1),
    "generate_stop": lambda: session().generate([1], stop=[""]).text,
    "generate_sampler": lambda: session().generate([1], sampler=reprise.Sampler(3)).text,
    "generate_nothing": lambda: session().generate([]).text,
    "graph_shapes": lambda: graph(lambda g, x: [g.mul(x, g.mul_mat(x, x))]),
    "graph_outputs": lambda: graph(lambda g, x: []),
    "graph_foreign": lambda: graph(foreign),
    "graph_name": lambda: graph(lambda g, x: [g.add(x, g.input("a\0b", 1))]),
    "nn_k": lambda: nn.topk(np.ones((2, 4)), k=5),
}


def test_every_case_is_here():
    assert set(TABLE) == set(CASES) | SHAPED


@pytest.mark.parametrize("case", CASES)
def test_the_code_and_the_text(case):
    with pytest.raises(reprise.Error) as caught:
        CASES[case]()
    code, text = TABLE[case][1:]
    assert str(caught.value.status) == code and (str(caught.value) == text or case in AT_ONCE)
