"""Memory of others without a copy, and ours for others: addresses, values that change, and memory that outlives its owner."""
import ctypes
import gc
import sys

import numpy as np
import pytest

import reprise

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
M, N, T = 3, 4, 2


def net(w, **options):
    g = reprise.Graph()
    x = g.input("x", (T, N))
    y = g.silu(g.mul_mat(g.weight("w", w), x)).named("y")
    g.finish(y)
    return reprise.Executor(g, n_threads=1, **options)


def weights():
    return np.linspace(-1, 1, M * N, dtype=np.float32).reshape(M, N)


def inputs():
    return np.linspace(0.5, 2, T * N, dtype=np.float32).reshape(T, N)


def wanted(w, x):
    """The net in its own memory."""
    with net(w.copy()) as executor:
        return executor.run(x=x)[0].copy()


def address(array):
    return array.ctypes.data


def test_a_numpy_weight_is_used_where_it_lies():
    w, x = weights(), inputs()
    tensor = reprise.from_dlpack(w, "w")
    assert (tensor.address, tensor.shape, tensor.dtype, tensor.device) == (address(w), (M, N), "f32", "cpu")
    with net(tensor) as executor:
        first = executor.run(x=x)[0].copy()
        w[0] *= 3
        np.testing.assert_array_equal(executor.run(x=x)[0], wanted(w, x))
        assert not np.array_equal(first, executor["y"])
        assert np.from_dlpack(executor.graph.find("w").tensor()).ctypes.data == address(w)


def test_inputs_and_outputs_in_numpy_arrays():
    w, x, y = weights(), inputs(), np.zeros((T, M), np.float32)
    with net(w) as executor:
        executor.bind("x", x)
        executor.bind("y", y)
        assert address(executor["x"]) == address(x) and address(executor["y"]) == address(y)
        executor.run()
        np.testing.assert_array_equal(y, wanted(w, x))
        x[1, 2] = -7
        executor.run()
        np.testing.assert_array_equal(y, wanted(w, x))
        executor.run(x=x + 1) # copied into the array
        np.testing.assert_array_equal(x[1, 2], -6)
        kept = executor["x"]
        executor.bind("x", None)
        before = sys.getrefcount(x)
        assert address(kept) == address(x) # an array of bound memory keeps it, also when something else is bound
        del kept
        gc.collect()
        assert sys.getrefcount(x) < before
        executor.bind("y", None)
        y[:] = 0
        executor.run(x=x)
        assert not y.any()


def test_results_outlive_executor_and_graph():
    w, x = weights(), inputs()
    executor = net(w)
    want = executor.run(x=x)[0].copy()
    tensor = executor.tensor("y")
    shown, direct, raw = np.from_dlpack(tensor), executor["y"], executor["y"].ctypes.data
    assert address(shown) == raw == tensor.address == address(direct)
    capsule = tensor.__dlpack__()
    tensor.close()
    executor.close()
    del executor, tensor, direct
    gc.collect()
    churn = [np.full((T, M), 9, np.float32) for _ in range(64)] # would take memory that was freed
    np.testing.assert_array_equal(shown, want)
    del churn
    again = reprise.from_dlpack(Capsule(capsule))
    del shown
    gc.collect()
    np.testing.assert_array_equal(np.from_dlpack(again), want)


class Capsule:
    """A capsule as an object with __dlpack__."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_capsules_are_used_once_and_unused_ones_free_the_tensor():
    x = inputs()
    tensor = reprise.from_dlpack(x)
    base = sys.getrefcount(x)
    for version in (None, (1, 0)):
        unused = tensor.__dlpack__(max_version=version)
        tensor2 = reprise.from_dlpack(Capsule(unused))
        with pytest.raises(reprise.ArgumentError, match="no capsule with a tensor, or one that was used before"):
            reprise.from_dlpack(Capsule(unused))
        tensor2.close()
        del unused
        tensor.__dlpack__(max_version=version) # nobody takes it
    tensor.close()
    gc.collect()
    assert sys.getrefcount(x) < base


def test_the_producer_is_told_once():
    told = []

    class Memory(np.ndarray):
        def __del__(self):
            told.append(1)
    memory = np.zeros((M, N), np.float32).view(Memory)
    tensor = reprise.from_pointer(memory.ctypes.data, (M, N), keep=memory, name="w", n_bytes=memory.nbytes)
    del memory
    executor = net(tensor)
    tensor.close()
    gc.collect()
    assert not told
    executor.close()
    del executor
    gc.collect()
    assert told == [1]
    memory = np.zeros((M, N), np.float32).view(Memory)
    with pytest.raises(reprise.ShapeError, match=r"external tensor 'w' f32 \[4,3\]: it takes 48 bytes, the memory has 40"):
        reprise.from_pointer(memory.ctypes.data, (M, N), keep=memory, name="w", n_bytes=40)
    del memory
    gc.collect()
    assert told == [1, 1]


def test_other_types():
    ids, half = np.array([2, 0], np.int32), np.arange(12, dtype=np.float16).reshape(M, N)
    g = reprise.Graph()
    rows = g.get_rows(g.weight("table", reprise.from_dlpack(half)), g.input("ids", 2, "i32")).named("rows")
    g.finish(rows)
    with reprise.Executor(g, n_threads=1) as executor:
        executor.bind("ids", ids)
        np.testing.assert_array_equal(executor.run()[0], half[[2, 0]].astype(np.float32))
        ids[:] = 1
        np.testing.assert_array_equal(executor.run()[0], half[[1, 1]].astype(np.float32))
    bits = np.array([0x3f80, 0x4000, 0xc040], np.uint16) # 1, 2, -3
    tensor = reprise.from_pointer(bits.ctypes.data, 3, "bf16", keep=bits)
    g = reprise.Graph()
    y = g.mul_mat(g.weight("w", tensor), g.input("x", 3)).named("y")
    with reprise.Executor(g.finish(y), n_threads=1) as executor:
        assert executor.run(x=np.ones(3, np.float32))[0] == 0.0


def test_refusals_name_the_tensor_and_both_shapes():
    w, x = weights(), inputs()
    with net(w) as executor:
        for bad, error, text in [
                (x.astype(np.float16), reprise.DtypeError, r"input 'x' f32 \[4,2\]: external tensor 'x' f16 \[4,2\] has another type"),
                (x.T, reprise.ShapeError, r"input 'x' f32 \[4,2\]: external tensor 'x' f32 \[2,4\] has another shape"),
                (np.zeros((T, 2 * N), np.float32)[:, ::2], reprise.ShapeError, r"external tensor 'x' f32 \[4,2\] is not contiguous"),
                (x.astype(np.float64), reprise.DtypeError, "DLPack tensor 'x': type code 2, 64 bits, 1 lanes"),
                (x[:, ::-1], reprise.UnsupportedError, "DLPack tensor 'x': stride -1 of dimension 1 must be positive"),
                (np.zeros((1, 1, 1, T, N), np.float32), reprise.ShapeError, "DLPack tensor 'x': 5 dimensions, must be from 0 to 4"),
                (object(), reprise.ArgumentError, "from_dlpack: object has no __dlpack__")]:
            count = sys.getrefcount(bad)
            with pytest.raises(error, match=text):
                executor.bind("x", bad)
            assert sys.getrefcount(bad) == count # given back
        count = sys.getrefcount(x)
        with pytest.raises(reprise.ArgumentError, match="from_dlpack: name contains a NUL byte"):
            reprise.from_dlpack(x, "x\0")
        assert sys.getrefcount(x) == count
        with pytest.raises(reprise.ArgumentError, match="'w' is neither an input nor an output"):
            executor.bind("w", w)
        with pytest.raises(reprise.ArgumentError, match="is no weight: Executor.tensor has inputs and outputs"):
            executor.graph.find("y").tensor()
        frozen = np.zeros((T, M), np.float32)
        frozen.flags.writeable = False
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            with pytest.raises(reprise.ArgumentError, match=r"output 'y' of silu f32 \[3,2\]: external tensor 'y' f32 \[3,2\] is for reading only"):
                executor.bind("y", frozen)
        frozen_x = reprise.from_pointer(x.ctypes.data, x.shape, keep=x, read_only=True)
        executor.bind("x", frozen_x)
        with pytest.raises(reprise.ArgumentError, match="x: it is bound to memory that is read only"):
            executor.run(x=x)
        assert not executor["x"].flags.writeable
        with pytest.raises(reprise.UnsupportedError, match="no copy is made here"):
            frozen_x.__dlpack__(copy=True)
        with pytest.raises(reprise.UnsupportedError, match=r"the memory is on \(1, 0\)"):
            frozen_x.__dlpack__(dl_device=(2, 0))
        with pytest.raises(reprise.UnsupportedError, match="is for reading only: only DLPack 1.x can say so"):
            frozen_x.__dlpack__()
        with pytest.raises(reprise.ArgumentError, match="one each, positive"):
            reprise.from_pointer(x.ctypes.data, (T, N), strides=(16, -4))
        for strides in ((0, 0), (0, 4)): # a broadcast array: all its rows are one
            with pytest.raises(reprise.ArgumentError, match="one each, positive"):
                reprise.from_pointer(x.ctypes.data, (T, N), strides=strides)
        with pytest.raises(reprise.UnsupportedError, match="stride 0 of dimension 1 must be positive"):
            reprise.from_dlpack(np.lib.stride_tricks.as_strided(x, (4096, 4096), (0, 0)))
    with pytest.raises(reprise.ShapeError, match=r"weight 'w': external tensor f32 \[3,4\] has strides of another order"):
        reprise.Graph().weight("w", reprise.from_dlpack(w.T))
    with pytest.raises(reprise.ArgumentError, match="w: an ExternalTensor has its own type and shape"):
        reprise.Graph().weight("w", reprise.from_dlpack(w), shape=(2, 6))
    with pytest.raises(reprise.ClosedError):
        tensor = reprise.from_dlpack(w)
        tensor.close()
        tensor.shape


def test_weights_of_a_graph_for_others():
    w = weights()
    executor = net(w)
    shown = executor.graph.find("w").tensor()
    assert shown.read_only and shown.address == address(w)
    pointer = ctypes.cast(shown.address, ctypes.POINTER(ctypes.c_float))
    executor.close()
    del executor, w
    gc.collect()
    churn = [np.zeros((M, N), np.float32) for _ in range(64)]
    assert pointer[0] == -1.0 and pointer[M * N - 1] == 1.0 # the array of the graph is still there
    del churn
    shown.close()


@needs_torch
def test_torch_in_both_directions():
    w, x = torch.from_numpy(weights().copy()), torch.from_numpy(inputs().copy())
    y = torch.zeros(T, M)
    executor = net(reprise.from_dlpack(w))
    executor.bind("x", x)
    executor.bind("y", y)
    for _ in range(2):
        executor.run()
        np.testing.assert_array_equal(y.numpy(), wanted(w.numpy(), x.numpy()))
        w[0, 1] += 2
        x[0, 0] -= 1
    executor.bind("y", None)
    executor.run()
    out = torch.from_dlpack(executor.tensor("y"))
    assert out.data_ptr() == executor.tensor("y").address
    want = out.clone()
    executor.close()
    del executor
    gc.collect()
    churn = [torch.zeros(T, M) for _ in range(64)]
    assert torch.equal(out, want) and churn
    half = torch.arange(8, dtype=torch.bfloat16).reshape(2, 4)
    tensor = reprise.from_dlpack(half)
    assert tensor.dtype == "bf16" and tensor.address == half.data_ptr()
    assert torch.from_dlpack(tensor).data_ptr() == half.data_ptr()
