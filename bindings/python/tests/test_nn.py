"""reprise.nn: the library against NumPy, and its arguments."""
import os
import subprocess
import sys

import numpy as np
import pytest

import reprise
from conftest import BUILD
from reprise import nn
from reprise._nn_numpy import FALLBACK

rng = np.random.default_rng(1)
SIZES = {"n": 33, "batch": 3, "dim": 31, "tokens": 5, "experts": 12, "k": 4}


def arguments(function):
    """Random inputs, and the other parameters, of a function; sizes are those of SIZES or 6."""
    sizes = {**{name: SIZES.get(name, 6) for name in function.kinds}}
    inputs = [rng.standard_normal([sizes[d.lstrip("*")] for d in a.dims]).astype(np.float32) for a in function.inputs]
    scalars = {name: SIZES.get(name, nn.number(default) if default else 0.5) for name, default in function.scalars.items()}
    return inputs, scalars


@pytest.mark.parametrize("name", sorted(FALLBACK))
def test_the_library_and_numpy_agree(name, monkeypatch):
    function = nn.FUNCTIONS[name]
    inputs, scalars = arguments(function)
    got = function(*inputs, **scalars)
    assert function.backend == "library"
    monkeypatch.setattr(nn, "NN", None)
    assert function.backend == "numpy"
    wanted = function(*inputs, **scalars)
    for one, right in zip(got if isinstance(got, tuple) else (got,), wanted if isinstance(wanted, tuple) else (wanted,)):
        assert one.dtype == right.dtype and one.shape == right.shape
        assert np.allclose(one, right, rtol=1e-5, atol=1e-6)


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
    newest = nn.NN
    try:
        nn.NN = Older()
        assert function.backend == "numpy" and np.allclose(nn.silu([1.0]), 1 / (1 + np.exp(-1)))
    finally:
        nn.NN = newest
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
stream.sync()
stream.close()
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
