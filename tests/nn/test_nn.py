#!/usr/bin/env python3
"""Tests of libreprise_nn against NumPy in float64.

    test_nn.py SOURCE_DIR LIBRARY [test...]

Every function runs on the host and, if the library has one, on the device (the simulated one in LIBRARY=libreprise_nn_sim.so).
"""
import ctypes
import math
import pathlib
import sys
import threading
import unittest

import numpy as np

from cases import BACKENDS, COUNT, HAS_DEVICE, LIBRARY, SPECIAL, Case, covered, f64, floats, random, sizes
from library import Host, NnError
from test_attention import Attention, AttentionErrors, Sampling  # noqa: F401
from test_backward import AttentionBackward, Gradients  # noqa: F401
from test_loss import Losses, Optimizer  # noqa: F401
from test_products import Conversions, CublasLt, ExpertGemm, Gemm, GemvQ, ProductErrors, Rope  # noqa: F401


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ERF = np.vectorize(math.erf, otypes=[np.float64])


class Elementwise(Case):
    def inputs(self, backend):
        for n in sizes(backend):
            x = 3 * floats(n)
            x[:min(n, len(SPECIAL))] = SPECIAL[:n]
            yield x

    def unary(self, function, formula, *more, tolerance=2e-6):
        for backend in self.each(function):
            for x in self.inputs(backend):
                y = np.empty_like(x)
                backend(function, x, y, x.size, *more)
                with np.errstate(all="ignore"):
                    self.close(y, formula(f64(x)), tolerance, f"{function} of {x.size}")
                before = y.copy()
                backend(function, x, x, x.size, *more)
                self.assertEqual(x.tobytes(), before.tobytes(), "in place")

    def test_silu(self):
        # -inf / (1 + exp(inf)) is NaN in the formula as written, and so in the library.
        self.unary("silu", lambda x: x / (1 + np.exp(-x)))

    def test_scale(self):
        self.unary("scale", lambda x: np.float64(np.float32(0.7)) * x, 0.7)

    def test_gelu(self):
        for exact, formula in ((0, tanh_gelu), (1, lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2))))):
            for backend in self.each("gelu"):
                for n in sizes(backend, 10007):
                    x = 2 * floats(n)
                    y = np.empty_like(x)
                    backend("gelu", x, y, n, exact)
                    self.assertTrue(np.all(np.abs(y - formula(f64(x))) <= 1e-6 * np.maximum(np.abs(x), 1e-3)), f"exact={exact}, {n}")

    def test_add_and_mul(self):
        for function, formula in (("add", np.add), ("mul", np.multiply)):
            for backend in self.each(function):
                for a in self.inputs(backend):
                    b, y = floats(a.size), np.empty_like(a)
                    backend(function, a, b, y, a.size)
                    with np.errstate(all="ignore"):
                        self.assertTrue(np.array_equal(y, formula(a, b), equal_nan=True), f"{function} of {a.size}")


class Rows(Case):
    SHAPES = [(0, 5), (1, 1), (3, 31), (2, 33), (31, 257), (1, 100003)]

    def test_softmax(self):
        for backend in self.each("softmax"):
            for batch, dim in self.SHAPES:
                x = 4 * floats(batch, dim)
                if batch == 31:
                    x[1, 5], x[2, 7] = -np.inf, np.nan
                y = np.empty_like(x)
                backend("softmax", x, y, batch, dim)
                with np.errstate(all="ignore"):
                    e = np.exp(f64(x) - np.max(f64(x), axis=1, keepdims=True, initial=-np.inf))
                    self.close(y, e / np.sum(e, axis=1, keepdims=True), 4e-6, f"{batch} x {dim}")

    def test_rmsnorm(self):
        for backend in self.each("rmsnorm"):
            for batch, dim in self.SHAPES:
                x, w = floats(batch, dim), floats(dim)
                for weight in (w, None):
                    y = np.empty_like(x)
                    backend("rmsnorm", x, weight, y, batch, dim, 1e-5)
                    wanted = f64(x) / np.sqrt(np.mean(f64(x)**2, axis=1, keepdims=True) + np.float64(np.float32(1e-5)))
                    self.close(y, wanted * (f64(w) if weight is not None else 1.0), 2e-6, f"{batch} x {dim}")

    def test_topk(self):
        for backend in self.each("topk"):
            for batch, dim, k in ((0, 4, 2), (1, 1, 1), (3, 31, 31), (5, 33, 4), (2, 9830, 8)):
                x = floats(batch, dim).round(1) # with equal values
                if dim == 33:
                    x[0, 3], x[1, :] = np.nan, np.nan
                values, ids = np.empty((batch, k), np.float32), np.empty((batch, k), np.int32)
                backend("topk", x, values, ids, batch, dim, k)
                order = np.argsort(-np.where(np.isnan(x), -np.inf, f64(x)), axis=1, kind="stable")[:, :k]
                self.assertTrue(np.array_equal(ids, order), f"{batch} x {dim}, {k}")
                self.assertTrue(np.array_equal(values, np.take_along_axis(x, order, 1), equal_nan=True))
                backend("topk", x, None, ids, batch, dim, k)


class Experts(Case):
    def test_route(self):
        for backend in self.each("route"):
            for tokens, experts, k in ((0, 4, 2), (1, 1, 1), (33, 60, 4), (5, 128, 8)):
                for sigmoid in (0, 1):
                    for normalize in (0, 1):
                        logits = floats(tokens, experts)
                        probs, weights = np.empty_like(logits), np.empty((tokens, k), np.float32)
                        ids = np.empty((tokens, k), np.int32)
                        backend("route", logits, probs, ids, weights, tokens, experts, k, sigmoid, normalize)
                        e = np.exp(f64(logits))
                        p = 1 / (1 + 1 / e) if sigmoid else e / np.sum(e, axis=1, keepdims=True)
                        self.close(probs, p, 4e-6)
                        order = np.argsort(-p, axis=1, kind="stable")[:, :k]
                        self.assertTrue(np.array_equal(ids, order))
                        w = np.take_along_axis(p, order, 1)
                        self.close(weights, w / np.sum(w, axis=1, keepdims=True) if normalize else w, 4e-6)

    def test_combine(self):
        for backend in self.each("combine"):
            for tokens, k, dim in ((0, 2, 5), (1, 1, 1), (7, 4, 33), (3, 8, 2048)):
                x, w, y = floats(tokens, k, dim), floats(tokens, k), np.empty((tokens, dim), np.float32)
                backend("combine", x, w, y, tokens, k, dim)
                bound = 4e-6 * np.sum(np.abs(f64(x)) * np.abs(f64(w))[:, :, None], axis=1)
                self.assertTrue(np.all(np.abs(y - np.sum(f64(x) * f64(w)[:, :, None], axis=1)) <= bound))


class Errors(Case):
    WANTED = [
        (("silu", None, None, 5), "silu: x is NULL"),
        (("silu", floats(1), None, 1), "silu: y is NULL"),
        (("silu", floats(1), floats(1), -1), "silu: sizes 1 and -1: none may be negative"),
        (("silu", floats(1), floats(1), 2**62), "silu: 1 * 4611686018427387904 floats are more than memory can hold"),
        (("add", floats(1), None, floats(1), 1), "add: b is NULL"),
        (("softmax", floats(1), floats(1), 2**31, 1), "softmax: 2147483648 rows: must be at most 2147483647"),
        (("topk", floats(4), None, np.zeros(4, np.int32), 1, 4, 5), "topk: k = 5 of 4: must be from 1 to all"),
        (("topk", floats(4), None, np.zeros(4, np.int32), 1, 4, 0), "topk: k = 0 of 4"),
        (("route", floats(4), floats(4), None, floats(4), 1, 4, 2, 0, 0), "route: ids is NULL"),
        (("combine", floats(4), floats(4), floats(4), 1, 0, 4), "combine: k = 0: must be at least 1"),
    ]

    def test_bad_arguments(self):
        for backend in BACKENDS:
            for call, text in self.WANTED:
                with self.subTest(call=call[0], backend=backend.name):
                    with self.assertRaises(NnError) as caught:
                        backend(*call)
                    self.assertEqual(caught.exception.code, -2)
                    self.assertIn(text, caught.exception.text)

    def test_every_function_refuses_null(self):
        """With sizes of 1 and no pointers each function names the first pointer that it needs."""
        optional = {("rmsnorm", "weight"), ("topk", "values"), ("cross_entropy", "log_probs"), ("rmsnorm_backward", "weight"),
                    ("mqa_attention", "mask")}
        for name, parameters in {**LIBRARY.functions, **LIBRARY.queries}.items():
            for prefix in ("rp_nn_cpu_",) + (("rp_nn_",) if HAS_DEVICE else ()):
                arguments = [None if kind.endswith("*") else 1 for kind, _ in parameters]
                stream = [None] if name in LIBRARY.functions else []
                self.assertEqual(LIBRARY.raw(prefix + name, *arguments, *stream), -2, name)
                first = next(p for kind, p in parameters if kind.endswith("*") and (name, p) not in optional)
                self.assertEqual(LIBRARY.last_error(), f"{name}: {first} is NULL")

    def test_without_a_device(self):
        if HAS_DEVICE:
            self.skipTest("there is a device")
        for name, parameters in {**LIBRARY.functions, **LIBRARY.device_functions, **LIBRARY.queries}.items():
            out = ctypes.create_string_buffer(64)
            arguments = [ctypes.addressof(out) if kind.endswith("*") else 1 for kind, _ in parameters]
            arguments += [None] if name in LIBRARY.functions else []
            code = LIBRARY.raw("rp_nn_" + name, *arguments)
            self.assertEqual(code, -1, name)
            self.assertRegex(LIBRARY.last_error(), "this build was made without the CUDA toolkit|CUDA driver")


class Devices(Case):
    def setUp(self):
        if not HAS_DEVICE:
            self.skipTest("no device")

    def number(self, function, *before, kind=ctypes.c_int32, n=1):
        out = [kind() for _ in range(n)]
        LIBRARY.check("rp_nn_" + function, *before, *[ctypes.byref(o) for o in out])
        return [o.value for o in out]

    def test_facts(self):
        self.assertGreaterEqual(COUNT.value, 1)
        name = ctypes.create_string_buffer(b"x" * 64, 64)
        LIBRARY.check("rp_nn_device_name", 0, name, 64)
        self.assertGreater(len(name.value), 3)
        short = ctypes.create_string_buffer(b"x" * 8, 8)
        LIBRARY.check("rp_nn_device_name", 0, short, 4)
        self.assertEqual(short.raw, name.value[:3] + b"\0xxxx")
        major, minor, processors = self.number("device_properties", 0, n=3)
        self.assertTrue(major >= 7 and 0 <= minor < 10 and processors >= 1)
        free, total = self.number("device_memory", 0, kind=ctypes.c_int64, n=2)
        self.assertTrue(0 < free <= total)
        LIBRARY.check("rp_nn_device_set", 0)
        self.assertEqual(self.number("device_get"), [0])
        for text, function, *arguments in (
                ("CUDA device 99: must be from 0 to ", "device_set", 99),
                ("CUDA device -1: must be from 0 to ", "device_name", -1, name, 64),
                ("device_name: room for 0 bytes: must be 1 or more", "device_name", 0, name, 0),
                ("malloc: -1 bytes: must be 0 or more", "malloc", -1, ctypes.byref(ctypes.c_void_p())),
                ("copy_to_host: -2 bytes: must be 0 or more", "copy_to_host", name, name, -2, None)):
            self.assertEqual(LIBRARY.raw("rp_nn_" + function, *arguments), -2, function)
            self.assertIn(text, LIBRARY.last_error())

    def test_memory(self):
        memory = ctypes.c_void_p(1)
        LIBRARY.check("rp_nn_malloc", 0, ctypes.byref(memory))
        self.assertIsNone(memory.value)
        self.assertEqual(LIBRARY.raw("rp_nn_malloc", 1 << 60, ctypes.byref(memory)), -4)
        self.assertEqual(LIBRARY.last_error(), "malloc: 1152921504606846976 bytes could not be allocated")
        LIBRARY.check("rp_nn_free", None)
        x, y, other = floats(100), np.empty(100, np.float32), ctypes.c_void_p()
        for m in (memory, other):
            LIBRARY.check("rp_nn_malloc", 400, ctypes.byref(m))
        LIBRARY.check("rp_nn_copy_to_device", memory, x.ctypes.data, 400, None)
        LIBRARY.check("rp_nn_copy_on_device", other, memory, 400, None)
        LIBRARY.check("rp_nn_copy_to_host", y.ctypes.data, other, 400, None)
        LIBRARY.check("rp_nn_stream_sync", None)
        self.assertTrue(np.array_equal(x, y))
        for m in (memory, other):
            LIBRARY.check("rp_nn_free", m)


class Threads(Case):
    def test_host_calls_at_the_same_time(self):
        host, x = Host(LIBRARY), floats(500000)
        wanted, results = np.empty_like(x), [np.empty_like(x) for _ in range(8)]
        host("silu", x, wanted, x.size)
        threads = [threading.Thread(target=host, args=("silu", x, y, x.size)) for y in results]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for y in results:
            self.assertEqual(y.tobytes(), wanted.tobytes())

    def test_last_error_is_of_the_thread(self):
        host, seen = Host(LIBRARY), []
        with self.assertRaises(NnError):
            host("silu", None, None, 1)

        def other():
            seen.append(LIBRARY.last_error())

        t = threading.Thread(target=other)
        t.start()
        t.join()
        self.assertEqual(seen, [""])
        self.assertEqual(LIBRARY.last_error(), "silu: x is NULL")


class Whole(Case):
    def test_version(self):
        self.assertEqual(LIBRARY.raw("rp_nn_abi_version"), 1)

    def test_zz_every_function_was_compared(self):
        if len(sys.argv) == 3:
            self.assertEqual(set(LIBRARY.functions), covered)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
