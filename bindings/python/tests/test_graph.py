"""Graphs, executors, profiles, custom ops."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import reprise
from conftest import BUILD, SOURCE

rng = np.random.default_rng(1)


def example(passes=None):
    g = reprise.Graph()
    weights = rng.standard_normal((5, 4), np.float32)
    x, w = g.input("x", (3, 4)), g.weight("w", weights)
    y = g.silu(g.mul_mat(w, x)).named("y")
    return g.finish(y).optimize(passes), weights


def silu(x):
    return x / (1 + np.exp(-x))


def test_a_graph_computes_what_numpy_computes():
    g, w = example()
    x = rng.standard_normal((3, 4), np.float32)
    with reprise.Executor(g, device="cpu", n_threads=1) as e:
        y, = e.run(x=x)
        assert y.shape == (3, 5) and np.allclose(y, silu(x.astype(float) @ w.T.astype(float)), atol=1e-5)
        e["x"][...] = 2 * x # the memory of the input itself
        e.run()
        assert np.allclose(y, silu(2.0 * x @ w.T), atol=1e-5) # the same memory
        assert np.array_equal(e.get("y"), y) and e.info.device == "cpu"
        assert max(d for _, d in e.verify()) == 0.0


def test_arrays_are_not_copied():
    g, w = example()
    assert g.find("w").view.data == w.ctypes.data
    with reprise.Executor(g, n_threads=1) as e:
        x, y = e["x"], e["y"]
        shared = np.from_dlpack(y)
        assert np.shares_memory(shared, e["y"]) and np.shares_memory(x, e["x"])
    y[...] = 1 # the executor is closed; its memory is there as long as the arrays
    assert shared.sum() == 15


class Dlpack:
    """An array of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **more):
        return self.array.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_comes_in_without_a_copy():
    array = rng.standard_normal((5, 4), np.float32)
    g = reprise.Graph()
    w = g.weight("w", Dlpack(array))
    assert w.view.data == array.ctypes.data
    assert np.array_equal(reprise.nn.silu(Dlpack(array)), reprise.nn.silu(array))


def test_dtypes_and_states():
    g = reprise.Graph()
    weights = rng.standard_normal((6, 64), np.float32)
    q = reprise.quantize(weights, "q8_0")
    assert q.shape == (6, reprise.row_bytes("q8_0", 64)) and np.abs(reprise.dequantize(q, "q8_0", (6, 64)) - weights).max() < 0.02
    x, pos = g.input("x", 64), g.input("pos", 1, "i32")
    y = g.mul_mat(g.weight("w", q, "q8_0", (6, 64)), x)
    kept = g.store(y, g.state("kept", (4, 6)), pos)
    g.finish(g.scale(kept, 2.0).named("out"))
    with reprise.Executor(g, n_threads=1) as e:
        one = rng.standard_normal(64).astype(np.float32)
        e.run(x=one, pos=[2])
        out, = e.run(x=2 * one, pos=[0])
        assert np.allclose(out[2], 2 * weights @ one, atol=0.2) and np.allclose(out[0], 2 * out[2], rtol=1e-2)
        assert np.array_equal(e.get("kept") * 2, out)
        states = reprise.States(e)
        e.bind_states(states)
        out, = e.run(x=one, pos=[1])
        assert not out[2].any()
        states.close() # it is bound: its memory stays
        out, = e.run(x=one, pos=[3])
        assert out[1].any() and out[3].any() and not out[2].any()
        e.bind_states(None)
        e.bind_states(reprise.States(e))
    other, _ = example()
    g, w = example()
    with reprise.Executor(g, n_threads=1) as e:
        plan = reprise.Plan(other)
        e.bind_weights(plan)
        plan.close()
        assert e.run(x=np.ones((3, 4)))[0].any()


def test_views_have_the_order_of_numpy():
    g = reprise.Graph()
    a = rng.standard_normal((2, 3, 4), np.float32)
    x = g.input("x", a.shape)
    outs = [g.cast(n, "f32") for n in (g.reshape(x, (6, 4)), g.permute(x, (1, 0, 2)), g.transpose(x),
                                       g.view(x, (3, 2), (16, 4), 4))]
    g.finish(*outs)
    with reprise.Executor(g, n_threads=1) as e:
        got = e.run(x=a)
    wanted = [a.reshape(6, 4), a.transpose(1, 0, 2), a.transpose(0, 2, 1), a[0, :, 1:3]]
    for one, right in zip(got, wanted):
        assert np.array_equal(one, right)


def test_any_op_by_name():
    g = reprise.Graph()
    x = g.input("x", 8)
    g.finish(g.op("rms_norm", x, eps=1e-5).named("a"), g.op("scale", x, scale=3.0).named("b"), (x * 2 + 1).named("c"))
    a = rng.standard_normal(8).astype(np.float32)
    with reprise.Executor(g, n_threads=1) as e:
        e.run(x=a)
        assert np.allclose(e["a"], a / np.sqrt(np.mean(a * a) + 1e-5), atol=1e-5)
        assert np.array_equal(e["b"], 3 * a) and np.allclose(e["c"], 2 * a + 1)
    g = reprise.Graph()
    with pytest.raises(reprise.ArgumentError, match="there is no parameter epsilon"):
        g.op("rms_norm", g.input("x", 8), epsilon=1.0)
    with pytest.raises(reprise.ArgumentError, match="there is no op 'rms'"):
        g.op("rms", g.find("x"))


def test_the_gate_of_experts_in_cuda():
    """examples/moe_gate.py with NumPy; on the simulated device the kernel too, compiled by NVRTC, prints the same gates."""
    simulated = BUILD / "tests/libreprise_nn_sim.so"
    lines = []
    for device in ("cpu", "cuda"):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "REPRISE_DEVICE": device, "XDG_CACHE_HOME": str(BUILD / "cache")}
            if device == "cuda":
                if not simulated.exists():
                    pytest.skip(f"there is no {simulated}")
                for name in ("libreprise.so", "libreprise_nn.so"):
                    os.symlink(simulated, pathlib.Path(folder, name))
                environment["REPRISE_BUILD"] = folder
            done = subprocess.run([sys.executable, SOURCE / "bindings/python/examples/moe_gate.py"], capture_output=True, text=True, env=environment)
        if "no libnvrtc" in done.stderr or "operation not supported" in done.stderr:
            pytest.skip(done.stderr.splitlines()[-1])
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout.splitlines())
    on_cpu, on_cuda = lines
    assert on_cpu[0].startswith("cpu") and "cuda:0 NVRTC" in on_cuda[0]
    assert on_cpu[1:4] == on_cuda[1:4] and "expert 12 0.2552" in on_cpu[1]
    assert float(on_cuda[4].split()[-1]) < 1e-6


def test_bad_graphs_raise_where_they_are_built():
    g = reprise.Graph()
    x, w = g.input("x", (3, 4)), g.weight("w", np.ones((5, 6), np.float32))
    with pytest.raises(reprise.ShapeError, match=r"mul_mat.*\[6,5\].*\[4,3\]"):
        g.mul_mat(w, x)
    with pytest.raises(reprise.ShapeError): # it sticks
        g.finish(x)
    other = reprise.Graph()
    with pytest.raises(reprise.ArgumentError, match="belongs to another graph"):
        other.silu(x)
    with pytest.raises(reprise.ShapeError, match="q8_0 of shape .* has 34 bytes, the data 33"):
        other.weight("w", np.zeros(33, np.uint8), "q8_0", 32)
    with pytest.raises(reprise.DtypeError):
        other.weight("w", np.zeros(33, np.float64))
    with pytest.raises(reprise.ShapeError, match="more than 4 dimensions"):
        other.input("x", (1, 2, 3, 4, 5))
    with pytest.raises(reprise.StateError):
        reprise.Executor(other)
    other.close()
    with pytest.raises(reprise.ClosedError, match="the Graph is closed"):
        other.input("x", 1)


def test_bad_runs(demo):
    g, _ = example()
    with reprise.Executor(g, n_threads=1) as e:
        with pytest.raises(reprise.ShapeError, match=r"x: must be an array of shape \(3, 4\), not \(4, 3\)"):
            e.run(x=np.zeros((4, 3)))
        with pytest.raises(KeyError):
            e.run(z=1)
        with pytest.raises(KeyError, match="is no input, output or state"):
            e["w"]
        with pytest.raises(reprise.ShapeError):
            e.set("x", np.zeros(3))
        with pytest.raises(reprise.ArgumentError):
            e.launch(99)
        with pytest.raises(reprise.ArgumentError, match="a profile of 0 runs"):
            e.profile(0)
    with pytest.raises(reprise.ClosedError):
        e.run()
    y = e.graph.find("y")
    g.close()
    with pytest.raises(reprise.ClosedError):
        y.shape


def test_drawings(monkeypatch, tmp_path):
    g, _ = example()
    dot = g.to_dot(title="a title")
    assert dot.startswith("digraph") and "a title" in dot and "mul_mat" in dot
    assert "x" in str(g) and g.dump("json").startswith("{")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(reprise.NotAvailableError, match="need the program dot of Graphviz"):
        g.to_svg()
    assert "Graphviz" in g._repr_svg_() and g._repr_svg_().startswith("<svg")
    (tmp_path / "dot").write_text("#!/bin/sh\n/bin/cat >/dev/null\necho '<svg>drawn</svg>'\n")
    os.chmod(tmp_path / "dot", 0o755)
    assert g._repr_svg_() == "<svg>drawn</svg>\n"


def test_profile(demo):
    p = demo.profile(pos=8, runs=2, n_threads=1)
    assert len(p) == 27 and abs(sum(row.share for row in p.rows) - 1) < 1e-9
    assert {op for op, *_ in p.by_op()} == {row.op for row in p.rows} and p.slowest(3)[0].us >= p.slowest(3)[2].us
    assert "GB/s" in str(p) and "<table>" in p._repr_html_() and " us" in p.to_dot() and p.total_us > 0
    assert len(p.to_dict()["us"]) == 27


def test_plans(demo):
    g = demo.graph(1, 32).optimize()
    plan = reprise.Plan(g)
    assert plan.memory.n_steps == len(plan.steps) == g.n_steps and plan.traffic_bytes > 1e6
    assert plan.dump("json").startswith("{") or plan.dump("json").startswith("[")
    assert [p.name for p in reprise.passes()]
    assert {n.name for n in g.inputs} == {"tokens", "pos", "out_rows"} and [n.name for n in g.outputs] == ["logits"]


def test_reply_of_an_executor(demo):
    with demo.session(n_ctx=32, n_threads=1) as s:
        wanted = s.generate([5], max_tokens=6, ignore_end=True).tokens
        s.rewind(0)
        first = reprise.Sampler(4096)
        s.prefill([5])
        token = first.sample(s.logits)
    g = demo.graph(1, 32, draws=True, n_recent=64).optimize()
    with reprise.Executor(g, n_threads=1, step=g.find("step")) as e:
        state = first.state
        state[:2] = 5, 0
        assert list(e.reply(state, 6, 32)) == wanted and token == wanted[0]
        with pytest.raises(reprise.ArgumentError):
            list(e.reply(state[:3], 6, 32))


def test_custom_ops():
    relu = reprise.custom_op("py_relu", lambda x: np.maximum(x, 0))
    fused = reprise.custom_op("py_relu_mul", lambda x, y: np.maximum(x, 0) * y, n_sources=2, source_names=["x", "y"], fused=True)
    reprise.pattern("py_relu_mul", "mul(py_relu(x), y)", "py_relu_mul(x, y)", help="relu(x) * y in one step")
    a = rng.standard_normal((3, 8)).astype(np.float32)
    results = []
    for passes in ("-py_relu_mul", None):
        g = reprise.Graph()
        x = g.input("x", (3, 8))
        g.finish((g.op("py_relu", x) * (x * 0.5)).named("y")).optimize(passes)
        with reprise.Executor(g, device="cpu", n_threads=2) as e:
            results.append((g.n_steps, e.run(x=a)[0].copy()))
    assert [n for n, _ in results] == [3, 2] and fused == relu + 1
    assert np.array_equal(results[0][1], results[1][1]) and np.allclose(results[0][1], np.maximum(a, 0) * a * 0.5)
    reprise.custom_op("py_bad", lambda x: 1 / 0)
    reprise.custom_op("py_shape", lambda x: x.sum(axis=1), shape=lambda s: (s[0],))
    g = reprise.Graph()
    x = g.input("x", (3, 8))
    g.finish(g.op("py_bad", x).named("bad"), g.op("py_shape", x).named("sum"))
    with reprise.Executor(g, device="cpu", n_threads=2) as e:
        assert g.find("sum").shape == (3,)
        with pytest.raises(reprise.ArgumentError, match="ZeroDivisionError"):
            e.run(x=a)
    g = reprise.Graph()
    with pytest.raises(reprise.DtypeError, match="the sources must be f32"):
        g.op("py_relu", g.input("i", 3, "i32"))
    with pytest.raises(reprise.ArgumentError):
        reprise.custom_op("py_relu", lambda x: x)
