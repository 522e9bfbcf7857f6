"""reprise.nn: the library against NumPy, and its arguments."""
import os
import subprocess
import sys

import numpy as np
import pytest

import reprise
from conftest import BUILD
from reprise import nn
from reprise._nn import library as nn_library
from reprise._nn.formulas import FALLBACK

rng = np.random.default_rng(1)
SIZES = {"n": 64, "batch": 3, "dim": 31, "tokens": 5, "experts": 4, "k": 2, "M": 5, "N": 6, "K": 7, "rows": 3, "cols": 64, "vocab": 40,
         "seq": 5, "seq_q": 5, "seq_k": 7, "heads": 4, "key_heads": 2, "head_dim": 16, "rotary_dim": 12}
SCALARS = {"type": "q8_0", "n": 64, "k": 2, "rows": 3, "tokens": 5, "experts": 4, "scale": 0.3, "step": 3, "lr": 0.1, "max_norm": 1.0,
           "p": 0.8, "factor": 0.5}
INTEGERS = {"ids": 4, "targets": 40, "positions": 1000}
EXACT = {"dequantize", "quantize", "argmax", "sample", "topk_sample", "topp_sample"}


def arguments(function, **given):
    """Random inputs, and the other parameters, of a function."""
    scalars = {**{name: SCALARS[name] if name in SCALARS else nn.number(default) for name, default in function.scalars.items()}, **given}
    sizes = {**SIZES, **scalars, "type": reprise.dtype_number(scalars.get("type", "q8_0"))}

    def value(a):
        shape = [function.value(d.lstrip("*").rstrip("?"), sizes) for d in function.resolved(a, sizes)]
        if a.bytes:
            return reprise.quantize(rng.standard_normal(shape[0] // 34 * 32).astype(np.float32), "q8_0")
        if a.element == np.uint64:
            return rng.integers(0, 2**64, shape, np.uint64)
        if a.element == np.int32:
            return rng.integers(-1, INTEGERS[a.name], shape).astype(np.int32)
        return np.abs(rng.standard_normal(shape)).astype(np.float32) if a.name in ("v", "probs") else \
            rng.standard_normal(shape).astype(np.float32)
    inputs = [value(a) for a in function.inputs]
    outputs = {a.name: value(a) for a in function.outputs if a.changed or a.optional}
    if function.__name__ == "attention_backward":
        inputs[3] = nn.flash_attention(*inputs[:3], scale=scalars["scale"], is_causal=scalars["is_causal"])
    return inputs, {**scalars, **outputs}


def called(function, inputs, more):
    """The results, and then what it has changed."""
    inputs, more = [a.copy() for a in inputs], {name: a.copy() if isinstance(a, np.ndarray) else a for name, a in more.items()}
    got = function(*inputs, **more)
    changed = [a for a, of in zip(inputs, function.inputs) if of.changed]
    return [*(got if isinstance(got, tuple) else (got,) if got is not None else ()), *changed]


VARIANTS = [(name, {}) for name in sorted(FALLBACK)] + [
    ("gelu", {"exact": 1}), ("gelu_backward", {"exact": 1}), ("route", {"sigmoid": 1, "normalize": 0}), ("gemm", {"beta": 0.5, "alpha": 2.0}),
    ("gemm_batched", {"transpose_a": 1}), ("gemm_batched", {"transpose_b": 1, "beta": 1.0}), ("expert_gemm", {"x_each": 1}),
    ("rope", {"halves": 1}), ("rope_backward", {"halves": 1}), ("flash_attention", {"is_causal": 0}), ("attention_backward", {"is_causal": 0}),
    ("sample", {"temperature": 0.0}), ("topk_sample", {"k": 50})]


@pytest.mark.parametrize("name, given", VARIANTS, ids=[f"{name} {given or ''}" for name, given in VARIANTS])
def test_the_library_and_numpy_agree(name, given, monkeypatch):
    function = nn.FUNCTIONS[name]
    inputs, more = arguments(function, **given)
    got = called(function, inputs, more)
    assert function.backend == "library"
    monkeypatch.setattr(nn_library, "NN", None)
    assert function.backend == "numpy"
    wanted = called(function, inputs, more)
    assert len(got) == len(wanted) > 0
    if name == "grad_norm": # the other elements are the library's own
        got, wanted = [got[0][0]], [wanted[0][0]]
    tolerance = 0.02 if name in ("gemv_q", "expert_gemm") else 1e-5 # x is rounded to 8 bits
    for one, right in zip(got, wanted):
        if isinstance(one, int):
            assert one == right
            continue
        assert one.dtype == right.dtype and one.shape == right.shape and np.any(one != 0)
        if one.dtype.kind in "iu" or name in EXACT:
            assert np.array_equal(one, right)
        assert np.max(np.abs(one.astype(float) - right)) <= tolerance * np.max(np.abs(right))


def test_every_function_has_a_row_and_a_formula():
    assert set(nn.NAMES) == set(nn.FUNCTIONS)
    assert set(nn.NAMES) - set(FALLBACK) == {"repack", *(name for name in nn.NAMES if name.endswith("_workspace"))}


def test_matrices_that_a_batch_shares():
    a, b = rng.standard_normal((3, 4, 5)), rng.standard_normal((5, 6))
    assert np.allclose(nn.gemm_batched(a, b), a @ b, atol=1e-5)
    assert np.allclose(nn.gemm_batched(b, a, transpose_a=1, transpose_b=1), b.T @ a.transpose(0, 2, 1), atol=1e-5)
    with pytest.raises(reprise.ArgumentError, match="batch must be given"):
        nn.gemm_batched(b.T, b)


def test_optional_arrays():
    logits, targets = rng.standard_normal((3, 5)).astype(np.float32), np.array([0, -1, 4])
    losses = nn.cross_entropy(logits, targets)
    log_probs = np.empty((3, 5), np.float32)
    both = nn.cross_entropy(logits, targets, log_probs=log_probs)
    assert losses.shape == (3,) and losses[1] == 0 and both[1] is log_probs and np.allclose(np.exp(log_probs).sum(-1), 1)
    q, freqs = rng.standard_normal((1, 2, 3, 8)).astype(np.float32), np.ones(4, np.float32)
    turned = q.copy()
    assert nn.rope(turned, None, freqs, [[0, 1]]) is None
    assert np.array_equal(turned[:, 0], q[:, 0]) and not np.array_equal(turned[:, 1], q[:, 1])
    with pytest.raises(reprise.ArgumentError, match="q: must be an array"):
        nn.rope(None, None, freqs, [[0, 1]])


def test_a_training_step():
    grad = rng.standard_normal(1000).astype(np.float32)
    sums = nn.grad_norm(grad)
    assert np.isclose(sums[0], np.linalg.norm(grad))
    assert np.isclose(nn.grad_norm(grad, first=0, sums=sums)[0], np.sqrt(2) * np.linalg.norm(grad))
    clipped = grad.copy()
    nn.grad_clip(clipped, sums, max_norm=1.0)
    assert np.allclose(clipped, grad / sums[0], rtol=1e-4)
    param, m, v = np.ones(1000, np.float32), np.zeros(1000, np.float32), np.zeros(1000, np.float32)
    nn.adamw_step(param, grad, m, v, lr=0.1, weight_decay=0.0, step=1)
    assert np.allclose(param, 1 - 0.1 * np.sign(grad), atol=1e-3)


def test_quantised_matrices():
    w, x = rng.standard_normal((4, 64)).astype(np.float32), rng.standard_normal(64).astype(np.float32)
    blocks = nn.quantize(w, type="q8_0")
    assert blocks.size == nn.quantized_bytes(type="q8_0", n=256) and np.array_equal(nn.dequantize(blocks, type="q8_0", n=256),
                                                                                 reprise.dequantize(blocks, "q8_0"))
    assert np.allclose(nn.gemv_q(blocks, x, type="q8_0", rows=4), w @ x, atol=0.3)
    assert np.allclose(nn.gemv_q(w, x, type="f32", rows=4), w @ x, atol=1e-4) # a matrix of floats is itself
    assert np.allclose(nn.gemv_q(w.astype(np.float16), x, type="f16", rows=4), w @ x, atol=0.1)
    planes = nn.repack(blocks, type="q8_0", n=256)
    assert sorted(planes) == sorted(blocks.reshape(-1))


def test_against_formulas():
    x = rng.standard_normal((2, 5, 9)).astype(np.float32)
    e = np.exp(x.astype(float))
    assert np.allclose(nn.softmax(x), e / e.sum(-1, keepdims=True), rtol=1e-5)
    values, ids = nn.topk(x, k=2)
    assert values.shape == ids.shape == (2, 5, 2) and ids.dtype == np.int32
    assert np.array_equal(values, -np.sort(-x, axis=-1)[..., :2])
    assert np.allclose(nn.rmsnorm(x, eps=0.0), x / np.sqrt((x**2).mean(-1, keepdims=True)), rtol=1e-5)
    assert np.array_equal(nn.scale(x, factor=2.0), 2 * x) and nn.silu(np.zeros((0, 3))).shape == (0, 3)


def test_in_place_and_given_outputs():
    x = rng.standard_normal(100).astype(np.float32)
    wanted, out = nn.silu(x), np.empty(100, np.float32)
    assert nn.silu(x, y=out) is out and np.array_equal(out, wanted)
    assert nn.silu(x, y=x) is x and np.array_equal(x, wanted)


BAD = [
    (reprise.ShapeError, lambda: nn.add(np.zeros(3), np.zeros(4))),
    (reprise.ShapeError, lambda: nn.combine(np.zeros((2, 3, 4)), np.zeros((2, 4)))),
    (reprise.ShapeError, lambda: nn.rmsnorm(np.zeros((2, 3)), np.zeros(4))),
    (reprise.ShapeError, lambda: nn.silu(np.zeros(3), y=np.zeros(2, np.float32))),
    (reprise.DtypeError, lambda: nn.silu(np.zeros(3), y=np.zeros(3))),
    (reprise.DtypeError, lambda: nn.silu(np.array(["a"]))),
    (reprise.ArgumentError, lambda: nn.silu(np.zeros(3), y=np.zeros(6, np.float32)[::2])),
    (reprise.ArgumentError, lambda: nn.silu(None)),
    (reprise.ArgumentError, lambda: nn.silu(np.zeros(3), y=np.frombuffer(bytearray(13), np.float32, 3, 1))),
    (reprise.DtypeError, lambda: nn.cross_entropy(np.zeros((2, 3)), np.zeros(2))),
    (reprise.DtypeError, lambda: nn.sample(np.zeros((2, 3)), [0.5, 1])),
    (reprise.ArgumentError, lambda: nn.sample(np.zeros((2, 3)), [-1, 1])),
    (reprise.ShapeError, lambda: nn.gemm(np.zeros((2, 3)), np.zeros((2, 3)))),
    (reprise.ShapeError, lambda: nn.gemv_q(np.zeros(33, np.uint8), np.zeros(32), type="q8_0", rows=1)),
    (reprise.ShapeError, lambda: nn.grad_clip(np.zeros(3, np.float32), np.zeros(0), max_norm=1.0)),
    (reprise.ArgumentError, lambda: nn.adamw_step(*[np.zeros(3, np.float32)] * 4, lr=0.1, step=1)),
    (reprise.ArgumentError, lambda: nn.topk(np.zeros((2, 3)), k=4)),
    (reprise.ArgumentError, lambda: nn.topk(np.zeros((2, 3)), k=2**40)),
    (reprise.ShapeError, lambda: nn.topk(np.zeros((2, 3)), k=-1)),
    (reprise.ArgumentError, lambda: nn.topk(np.zeros((2, 3)), k="2")),
    (TypeError, lambda: nn.topk(np.zeros((2, 3)))),
    (AttributeError, lambda: nn.no_such_function),
]


@pytest.mark.parametrize("kind, call", BAD, ids=range(len(BAD)))
def test_bad_arguments(kind, call):
    with pytest.raises(kind):
        call()


def test_overlap_is_refused():
    x = np.zeros(8, np.float32)
    with pytest.raises(reprise.ArgumentError, match="y overlaps x"):
        nn.silu(x[:4], y=x[2:6])
    with pytest.raises(reprise.ArgumentError, match="y overlaps b"):
        nn.add(np.zeros(8, np.float32), x, y=x)


def test_a_function_that_an_older_library_lacks():
    """It is computed by NumPy, or refused by name where there is no formula."""
    function = nn.FUNCTIONS["silu"]
    class Older:
        def has(self, name):
            return False
        def symbol(self, name):
            return nn.library.__wrapped__.symbol(name)
    newest = nn_library.NN
    try:
        nn_library.NN = Older()
        assert function.backend == "numpy" and np.allclose(nn.silu([1.0]), 1 / (1 + np.exp(-1)))
    finally:
        nn_library.NN = newest
    with pytest.raises(reprise.NotAvailableError, match="has no function rp_nn_cpu_new"):
        newest.symbol("rp_nn_cpu_new")


def test_without_a_device():
    try:
        reprise.nn_device.count()
    except reprise.NotAvailableError:
        with pytest.raises(reprise.NotAvailableError):
            reprise.nn_device.DeviceArray((3,))


ON_THE_SIMULATED_DEVICE = """
import numpy as np, pytest, reprise
from reprise import nn, nn_device
assert nn_device.count() >= 1 and nn_device.properties(0).major > 0 and nn_device.current() == 0
x = np.random.default_rng(1).standard_normal((3, 31)).astype(np.float32)
stream = nn_device.Stream()
a = nn_device.DeviceArray.of(x, stream)
y = nn.softmax(a, stream=stream)
assert isinstance(y, nn_device.DeviceArray) and np.allclose(y.numpy(stream), nn.softmax(x), rtol=1e-5)
values, ids = nn.topk(a, k=4, stream=stream)
assert np.array_equal(ids.numpy(stream), nn.topk(x, k=4)[1])
class Other:
    __cuda_array_interface__ = a.__cuda_array_interface__
assert np.array_equal(nn.softmax(Other()).numpy(), y.numpy())
assert np.array_equal(a.copy().numpy(), x)
with pytest.raises(reprise.ArgumentError, match="an array of the device"):
    nn.add(a, x)
with pytest.raises(reprise.DtypeError):
    nn.silu(nn_device.DeviceArray((3,), np.int32))
w = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
blocks, v = nn.quantize(w, type="q8_0"), nn_device.DeviceArray.of(w[0])
planes = nn_device.DeviceArray.of(nn.repack(blocks, type="q8_0", n=w.size))
assert np.allclose(nn.gemv_q(planes, v, type="q8_0", rows=4, stream=stream).numpy(stream), nn.gemv_q(blocks, w[0], type="q8_0", rows=4), rtol=1e-4)
assert np.allclose(nn.gemv_q(nn_device.DeviceArray.of(w), v, type="f32", rows=4).numpy(), w @ w[0], rtol=1e-4)
sums = nn.grad_norm(v)
nn.grad_clip(v, sums, max_norm=1.0)
assert np.isclose(np.linalg.norm(v.numpy()), 1, atol=1e-5)
load, loss = nn.aux_loss(nn.softmax(a), nn.topk(a, k=2)[1])
assert np.allclose(loss.numpy(), nn.aux_loss(nn.softmax(x), nn.topk(x, k=2)[1])[1], rtol=1e-5)
with pytest.raises(reprise.ArgumentError, match="stream: must be a Stream, not str"):
    nn.silu(a, stream="x")
stream.sync()
stream.close()
with pytest.raises(reprise.ClosedError, match="the Stream is closed"):
    nn.silu(a, stream=stream)
a.close()
with pytest.raises(reprise.ClosedError):
    nn.silu(a)
"""


def test_on_the_simulated_device(tmp_path):
    found = next(BUILD.rglob("libreprise_nn_sim.so"), None)
    if found is None:
        pytest.skip(f"there is no libreprise_nn_sim.so in {BUILD}")
    (tmp_path / "libreprise_nn.so").symlink_to(found.resolve())
    (tmp_path / "libreprise.so").symlink_to(os.path.realpath(reprise._lib.lib.path))
    done = subprocess.run([sys.executable, "-c", ON_THE_SIMULATED_DEVICE], capture_output=True, text=True,
                          env={**os.environ, "REPRISE_BUILD": str(tmp_path), "SIM_FUSED": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
