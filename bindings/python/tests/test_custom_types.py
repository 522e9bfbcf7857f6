"""Types of weights that Python registers, and a plugin."""
import pathlib
import shutil
import subprocess

import conftest
import numpy as np
import pytest

import reprise

rng = np.random.default_rng(4)


def wide(blocks):
    """int4 with a scale: f32, then two quants a byte, the low half first."""
    scale = np.ascontiguousarray(blocks[:, :4]).view(np.float32)
    quants = np.stack([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=2).reshape(len(blocks), 16)
    return (quants.astype(np.float32) - 8) * scale


def narrow(x, importance):
    scale = np.abs(x).max(axis=1, keepdims=True).astype(np.float32) / np.float32(7)
    quants = (np.round(x / np.where(scale > 0, scale, 1)) + 8).astype(np.uint8).reshape(len(x), 8, 2)
    return np.concatenate([scale.view(np.uint8), quants[:, :, 0] | quants[:, :, 1] << 4], axis=1)


def product(dtype, w, x):
    g = reprise.Graph()
    g.finish(g.mul_mat(g.weight("w", w, dtype, (len(w), x.shape[1])), g.input("x", x.shape)).named("y")).optimize()
    with reprise.Executor(g, device="cpu", n_threads=2) as e:
        return e.run(x=x)[0].copy()


def test_a_type_in_python():
    number = reprise.register_dtype("py_int4", 16, 12, wide, narrow, gguf_type=30001, validate=lambda b: np.isfinite(b[:4].view(np.float32)[0]))
    dotted = reprise.register_dtype("py_dot", 16, 12, wide, narrow, lambda blocks, x: np.vdot(wide(blocks), x))
    assert dotted == number + 1 and reprise.dtype_number("PY_INT4") == number and reprise.dtype_name(number) == "py_int4"
    assert reprise.dtype_info("py_int4") == ("py_int4", 16, 12, 30001) and reprise.dtype_info(dotted).gguf_type == -1
    w, x = rng.standard_normal((5, 64)).astype(np.float32), rng.standard_normal((3, 64)).astype(np.float32)
    blocks = reprise.quantize(w, "py_int4")
    assert blocks.shape == (5, 48)
    back = reprise.dequantize(blocks, "py_int4", (5, 64))
    assert np.array_equal(back, wide(narrow(w.reshape(-1, 16), None)).reshape(5, 64)) and np.abs(back - w).max() < 0.3
    assert np.array_equal(reprise.dequantize(blocks, "py_int4"), back.reshape(-1))
    f32 = product("f32", back, x)
    assert np.array_equal(product("py_int4", blocks, x), f32) and np.allclose(product("py_dot", blocks, x), f32, rtol=1e-5, atol=1e-5)
    reprise.check_row("py_int4", blocks[0])
    blocks[0, 12:16] = np.array([np.nan], np.float32).view(np.uint8)
    with pytest.raises(reprise.FormatError, match="block 1 of a row is not valid in py_int4"):
        reprise.check_row("py_int4", blocks[0])
    with pytest.raises(reprise.ShapeError):
        reprise.check_row("py_int4", blocks[0, :5])


def test_failures_of_functions():
    reprise.register_dtype("py_bad", 1, 1, lambda blocks: 1 / 0, lambda x, w: 1 / 0, lambda blocks, x: 1 / 0)
    with pytest.raises(reprise.ArgumentError, match="a row cannot be quantised to py_bad: ZeroDivisionError"):
        reprise.quantize(np.ones(4, np.float32), "py_bad")
    assert np.isnan(reprise.dequantize(np.zeros(4, np.uint8), "py_bad")).all()
    assert np.isnan(product("py_bad", np.zeros((2, 4), np.uint8), np.ones((1, 4), np.float32))).all()
    reprise.register_dtype("py_shape", 2, 1, lambda blocks: np.zeros((len(blocks), 2)), lambda x, w: np.zeros((1, 3), np.uint8))
    with pytest.raises(reprise.ArgumentError, match="must be uint8"):
        reprise.quantize(np.ones(4, np.float32), "py_shape")
    for bad, text in ((("py_bad", 1, 1), "there is a type 'py_bad'"), (("py 1", 1, 1), "letters, digits and _"),
                      (("py_x", 3, 1), "a block of 3 elements"), (("py_x", 2, 9), "a block of 9 bytes")):
        with pytest.raises(reprise.ArgumentError, match=text):
            reprise.register_dtype(*bad, wide)


def test_a_plugin(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    include = conftest.SOURCE / "include"
    plugin = tmp_path / "dtypes.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-DDTYPES_PLUGIN", f"-I{include}", f"-I{conftest.BUILD}/include",
                    conftest.SOURCE / "examples/dtypes.c", "-o", plugin, "-lm"], check=True)
    plugin.chmod(0o644)
    reprise.load_plugin(plugin)
    reprise.load_plugin(pathlib.Path(plugin))
    w = rng.standard_normal((4, 128)).astype(np.float32)
    assert np.abs(reprise.dequantize(reprise.quantize(w, "nf4"), "nf4", w.shape) - w).max() < 0.5
    with pytest.raises(reprise.NotAvailableError):
        reprise.load_plugin(tmp_path / "none.so")
