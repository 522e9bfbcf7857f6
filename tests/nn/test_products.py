"""Products, quantised matrices and rotations of libreprise_nn against NumPy in float64. test_nn.py runs these tests."""
import ctypes
import os
import pathlib

import numpy as np

from cases import BACKENDS, LIBRARY, SOURCE, Case, f64, floats, random
from library import NnError

NUMBER = {name: number for name, (number, _) in LIBRARY.types.items() if name not in ("i32", "q8_act")}
BLOCK = {name: LIBRARY.types[name][1] for name in NUMBER}
QUANTS = [name for name in NUMBER if BLOCK[name] > 1]
CODEBOOKS = [name for name in NUMBER if name.startswith(("iq1", "iq2", "iq3"))]  # the search for entries takes long


def quantized(backend, name, x):
    """The blocks of x; of a type with a codebook those that ggml made of other numbers, as many."""
    blocks = np.empty(backend.bytes_of(NUMBER[name], x.size), np.uint8)
    if name in CODEBOOKS:
        return np.resize(np.fromfile(pathlib.Path(SOURCE) / f"tests/golden/quant/{name}.bin", np.uint8), blocks.size)
    backend.host("quantize", NUMBER[name], x, blocks, x.size)
    return blocks


def dequantized(name, blocks, n):
    """By the host's function, which Conversions compares with decoders that are not of this library."""
    y = np.empty(n, np.float32)
    BACKENDS[0]("dequantize", NUMBER[name], blocks, y, n)
    return y


def values_of_mxfp4(blocks):
    """OCP Microscaling 1.0: 2^(e - 127) times a 4-bit float; ggml has elements i and i + 16 in byte i."""
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    b = blocks.reshape(-1, 17)
    q = np.concatenate([b[:, 1:] & 15, b[:, 1:] >> 4], axis=1)
    return (np.exp2(b[:, :1].astype(np.float64) - 127) * table[q]).ravel()


class Gemm(Case):
    def product(self, backend, function, arguments, a, b, c, alpha, beta):
        """a [batch,M,K], b [batch,K,N], c [batch,M,N] as they are multiplied; errors relative to the terms of the sum."""
        y = c.copy()
        backend(function, *arguments(y), alpha, beta)
        alpha, beta = np.float64(np.float32(alpha)), np.float64(np.float32(beta))
        old = beta * f64(c) if beta != 0 else np.zeros(c.shape)
        wanted = alpha * (f64(a) @ f64(b)) + old
        bound = 2e-6 * (abs(alpha) * (np.abs(f64(a)) @ np.abs(f64(b))) + np.abs(old)) + 1e-37
        self.assertTrue(np.all(np.abs(y - wanted) <= bound), f"{function} {a.shape} {b.shape}")

    def test_gemm(self):
        for backend in self.each("gemm"):
            large = [(33, 1000, 517)] if backend.name == "host" else [(33, 65, 40)]
            for m, n, k in [(0, 3, 3), (3, 0, 3), (4, 5, 0), (1, 1, 1), (1, 31, 33), (31, 1, 33), (13, 130, 129)] + large:
                for alpha, beta in ((1, 0), (-0.7, 0.3)):
                    a, b, c = floats(m, k), floats(k, n), floats(m, n)
                    self.product(backend, "gemm", lambda y: (a, b, y, m, n, k), a, b, c, alpha, beta)

    def test_beta_0_reads_no_C_and_alpha_0_neither_A_nor_B(self):
        for backend in self.each("gemm"):
            a, nan = floats(5, 5), np.full((5, 5), np.nan, np.float32)
            y = nan.copy()
            backend("gemm", a, a, y, 5, 5, 5, 1.0, 0.0)
            self.assertFalse(np.isnan(y).any())
            y = a.copy()
            backend("gemm", nan, nan, y, 5, 5, 5, 0.0, 2.0)
            self.assertTrue(np.array_equal(y, 2 * a))
            backend("gemm", nan, a, y, 5, 5, 5, 1.0, 0.0)
            self.assertTrue(np.isnan(y).all())

    def test_gemm_batched(self):
        m, n, k, batch = 19, 35, 33, 3
        for backend in self.each("gemm_batched"):
            for transpose_a, transpose_b in ((0, 0), (0, 1), (1, 0), (1, 1)):
                a, b, c = floats(batch, m, k), floats(batch, k, n), floats(batch, m, n)
                in_a = np.ascontiguousarray(a.transpose(0, 2, 1)) if transpose_a else a
                in_b = np.ascontiguousarray(b.transpose(0, 2, 1)) if transpose_b else b
                strides = lambda y: (in_a, in_b, y, batch, m, n, k, m * k, k * n, m * n, transpose_a, transpose_b)
                self.product(backend, "gemm_batched", strides, a, b, c, 1.5, 1.0)
            for m1, n1 in ((1, 35), (19, 1)):
                for transpose in (0, 1):
                    a1, b1, c1 = floats(2, m1, k), floats(2, k, n1), floats(2, m1, n1)
                    in_a, in_b = (np.ascontiguousarray(v.transpose(0, 2, 1)) if transpose else v for v in (a1, b1))
                    strides = lambda y: (in_a, in_b, y, 2, m1, n1, k, m1 * k, k * n1, m1 * n1, transpose, transpose)
                    self.product(backend, "gemm_batched", strides, a1, b1, c1, 0.5, 1.0)
            shared = np.broadcast_to(b[:1], b.shape)
            self.product(backend, "gemm_batched", lambda y: (a, b, y, batch, m, n, k, m * k, 0, m * n, 0, 0), a, shared, c, 1, 0)
            # Gaps between the matrices stay as they are.
            y = floats(batch, m * n + 7)
            before = y.copy()
            backend("gemm_batched", a, b, y, batch, m, n, k, m * k, k * n, m * n + 7, 0, 0, 1.0, 0.0)
            self.assertTrue(np.array_equal(y[:, m * n:], before[:, m * n:]))
            self.assertTrue(np.allclose(y[:, :m * n].reshape(batch, m, n), f64(a) @ f64(b), atol=1e-4))


class CublasLt(Case):
    """With the stand-in for cuBLASLt (tests/sim/executor/fake_cublaslt.cu) in REPRISE_BLAS."""

    class Stats(ctypes.Structure):
        _fields_ = [(name, ctypes.c_long) for name in ("live", "products", "via_workspace", "choices")]

    def setUp(self):
        path = os.environ.get("REPRISE_BLAS", "")
        if "cudasim_blas" not in path or len(BACKENDS) < 2:
            self.skipTest("no stand-in for cuBLASLt")
        stand_in = ctypes.CDLL(path)
        stand_in.fake_stats.restype = self.Stats
        self.stats = stand_in.fake_stats

    def test_large_products_are_of_the_library(self):
        device = BACKENDS[1]
        a, b, c = floats(33, 40), floats(40, 50), floats(33, 50)
        device("gemm", a, b, c.copy(), 32, 50, 40, 1.0, 0.0)  # opens it
        before = self.stats()
        for transpose_a in (0, 1):
            for transpose_b in (0, 1):
                in_a = np.ascontiguousarray(a.T) if transpose_a else a
                in_b = np.ascontiguousarray(b.T) if transpose_b else b
                for _ in range(2):
                    y = c.copy()
                    device("gemm_batched", in_a, in_b, y, 1, 33, 50, 40, 0, 0, 0, transpose_a, transpose_b, -0.5, 2.0)
                    self.assertTrue(np.allclose(y, -0.5 * (f64(a) @ f64(b)) + 2 * f64(c), atol=1e-4))
        after = self.stats()
        self.assertEqual(after.products - before.products, 8)
        self.assertEqual(after.choices - before.choices, 4)  # one for each description
        device("gemm", a, b, c.copy(), 31, 50, 40, 1.0, 0.0)
        self.assertEqual(self.stats().products, after.products)


class Conversions(Case):
    def test_dequantize_as_gguf_py_does(self):
        """Blocks quantised by ggml, dequantised by gguf-py (tools/golden/golden_quants.py)."""
        folder = pathlib.Path(SOURCE) / "tests/golden/quant"
        for backend in self.each("dequantize"):
            for name in NUMBER:
                if name == "f32":
                    wanted = floats(2048)
                    blocks = wanted.view(np.uint8)
                elif name == "mxfp4":
                    blocks = random.integers(0, 256, 17 * 66, dtype=np.uint8)
                    blocks[::17] = np.concatenate([[0, 1, 2, 254], random.integers(60, 190, 62)])
                    with np.errstate(over="ignore"):
                        wanted = values_of_mxfp4(blocks).astype(np.float32)
                else:
                    blocks = np.fromfile(folder / f"{name}.bin", np.uint8)
                    wanted = np.fromfile(folder / f"{name}.f32", np.float32)
                y = np.full(wanted.size, np.nan, np.float32)
                backend("dequantize", NUMBER[name], backend.matrix(NUMBER[name], blocks, y.size), y, y.size)
                self.close(y, wanted, 2e-7, name)

    def test_quantize(self):
        """The error is at most half a step; steps follow from the largest magnitude of each block of 32 or 16. No type has a step
        larger than half of that, but for q1_0 with levels -1 and 1, and q2_0 with -1, 0, 1 and 2: no error exceeds the largest. With
        a codebook and b bits the root mean square is near 2^-b of that of x, the limit for normal numbers (Shannon)."""
        steps = {"f32": 0, "f16": 2**-10, "bf16": 2**-7, "q4_0": 1 / 8, "q4_1": 2 / 15, "q5_0": 1 / 16, "q5_1": 2 / 31,
                 "q8_0": 1 / 127, "q4_k": 2 / 15, "q5_k": 2 / 31, "q6_k": 1 / 31, "q1_0": 1, "q2_0": 1}
        backend = BACKENDS[0]
        for name in CODEBOOKS:
            x = floats(8 * BLOCK[name])
            blocks = np.empty(backend.bytes_of(NUMBER[name], x.size), np.uint8)
            backend.host("quantize", NUMBER[name], x, blocks, x.size)
            y = dequantized(name, blocks, x.size)
            self.assertLess(np.linalg.norm(f64(y) - x), 1.6 * 2 ** (-8 * blocks.size / x.size) * np.linalg.norm(f64(x)), name)
        for name in set(NUMBER) - set(CODEBOOKS):
            for blocks in (0, 1, 9):
                x = floats(blocks * BLOCK[name])
                y = dequantized(name, quantized(backend, name, x), x.size)
                top = np.abs(x).max(initial=0) if BLOCK[name] > 1 else np.abs(x)
                self.assertTrue(np.all(np.abs(y - x) <= 1.1 * steps.get(name, 1 / 2) * top), name)

    def test_repack_moves_every_byte(self):
        """Planes have the bytes of the blocks, float types in the same places."""
        for name in ("f32", "f16", "q4_0", "q8_0"):
            blocks = random.integers(0, 256, BACKENDS[0].bytes_of(NUMBER[name], 320), dtype=np.uint8)
            planes = np.empty_like(blocks)
            BACKENDS[0].host("repack", NUMBER[name], blocks, planes, 320)
            self.assertTrue(np.array_equal(np.sort(planes), np.sort(blocks)))
            self.assertEqual(np.array_equal(planes, blocks), name in ("f32", "f16"))


class GemvQ(Case):
    def test_gemv_q(self):
        for backend in self.each("gemv_q"):
            for name in NUMBER:
                sizes = [(0, BLOCK[name]), (1, BLOCK[name]), (33, 3 * BLOCK[name]), (5, 4352)]
                for rows, cols in sizes + [(300, 1024)] * (backend.name == "host"):
                    blocks = quantized(backend, name, floats(rows * cols))
                    w = f64(dequantized(name, blocks, rows * cols)).reshape(rows, cols)
                    x, y = floats(cols), np.full(rows, np.nan, np.float32)
                    backend("gemv_q", NUMBER[name], backend.matrix(NUMBER[name], blocks, rows * cols), x, y, rows, cols,
                            *backend.workspace("gemv_q", NUMBER[name], rows, cols))
                    self.assertTrue(np.all(np.abs(y - w @ f64(x)) <= bound_of(name, w, x)), f"{name} {rows} x {cols}")


def bound_of(name, w, x):
    """Block types round x to 8 bits: half of 1/127 of the largest of each 32 elements."""
    terms = np.abs(w) @ np.abs(f64(x))
    if name not in QUANTS:
        return 2e-6 * terms
    step = np.repeat(np.abs(f64(x)).reshape(-1, 32).max(axis=1), 32) / 254
    return np.abs(w) @ step + 4e-6 * terms


class ExpertGemm(Case):
    def test_expert_gemm(self):
        experts, k, rows = 5, 3, 9
        for backend in self.each("expert_gemm"):
            for name in NUMBER:
                cols = 2 * BLOCK[name] if name in QUANTS else 37
                blocks = quantized(backend, name, floats(experts * rows * cols))
                w = f64(dequantized(name, blocks, experts * rows * cols)).reshape(experts, rows, cols)
                matrix = backend.matrix(NUMBER[name], blocks, experts * rows * cols)
                for tokens, each in ((0, 0), (1, 1), (2, 0), (11, 1)):
                    ids = random.integers(-1, experts + 1, (tokens, k), dtype=np.int32)
                    x, y = floats(tokens, k if each else 1, cols), np.full((tokens, k, rows), np.nan, np.float32)
                    sizes = (tokens, k, experts, rows, cols, each)
                    backend("expert_gemm", NUMBER[name], matrix, x, ids, y, *sizes,
                            *backend.workspace("expert_gemm", NUMBER[name], *sizes))
                    for t in range(tokens):
                        for j in range(k):
                            e, column = ids[t, j], x[t, j if each else 0]
                            chosen = w[e] if 0 <= e < experts else np.zeros((rows, cols))
                            self.assertTrue(np.all(np.abs(y[t, j] - chosen @ f64(column)) <= bound_of(name, chosen, column)),
                                            f"{name}, {tokens} tokens")


class Rope(Case):
    def wanted(self, x, freqs, positions, rotary, halves):
        angle = np.maximum(positions, 0).astype(np.float64)[:, :, None, None] * f64(freqs)
        y, n = f64(x), rotary // 2
        first, second = (slice(0, n), slice(n, rotary)) if halves else (slice(0, rotary, 2), slice(1, rotary, 2))
        a, b = y[..., first].copy(), y[..., second].copy()
        y[..., first], y[..., second] = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
        return y

    def test_rope(self):
        for backend in self.each("rope"):
            for batch, seq, heads, key_heads, dim, rotary in ((0, 3, 2, 2, 8, 8), (1, 1, 1, 1, 2, 2), (2, 5, 6, 2, 64, 64), (1, 7, 3, 3, 33, 20)):
                for halves in (0, 1):
                    q, k = floats(batch, seq, heads, dim), floats(batch, seq, key_heads, dim)
                    freqs = (10000.0 ** (-np.arange(rotary // 2) / (rotary // 2))).astype(np.float32)
                    positions = random.integers(-2, 100000, (batch, seq), dtype=np.int32)
                    wanted = [self.wanted(x, freqs, positions, rotary, halves) for x in (q, k)]
                    backend("rope", q, k, freqs, positions, batch, seq, heads, key_heads, dim, rotary, halves)
                    for x, y in zip((q, k), wanted):
                        self.assertTrue(np.all(np.abs(x - y) <= 4e-7 * (1 + np.abs(y).max(initial=0))))
                    backend("rope", q, None, -freqs, positions, batch, seq, heads, 0, dim, rotary, halves)
                    back = self.wanted(wanted[0], -freqs, positions, rotary, halves)
                    self.assertTrue(np.all(np.abs(q - back) <= 1e-6 * (1 + np.abs(back).max(initial=0))))


class ProductErrors(Case):
    def test_bad_arguments(self):
        one, ids = floats(4096), np.zeros(4, np.int32)
        q4_0 = NUMBER["q4_0"]
        wanted = [
            (("gemm", one, one, one, -1, 2, 2, 1.0, 0.0), "gemm: 1 matrices, M -1, N 2, K 2: none may be negative"),
            (("gemm", None, one, one, 2, 2, 2, 1.0, 0.0), "gemm: A is NULL"),
            (("gemm_batched", one, one, one, 2, 4, 4, 4, 16, 16, 8, 0, 0, 1.0, 0.0), "gemm_batched: stride 8 of C: the matrices of 16 floats overlap"),
            (("gemm_batched", one, one, one, 2, 4, 4, 4, -1, 16, 16, 0, 0, 1.0, 0.0), "gemm_batched: stride -1 of A, 2 matrices: must be 0 or more"),
            (("gemm_batched", one, one, one, 2**40, 4, 4, 4, 2**30, 16, 16, 0, 0, 1.0, 0.0), "gemm_batched: stride 1073741824 of A, 1099511627776 matrices: must be 0 or more, and end within 2^63 bytes"),
            (("gemv_q", 99, one, one, one, 1, 32, None, 0), "gemv_q: type 99 (?) is no type of weights"),
            (("gemv_q", NUMBER["f32"] + 3, one, one, one, 1, 32, None, 0), "gemv_q: type 3 (i32) is no type of weights"),
            (("gemv_q", q4_0, one, one, one, 1, 33, None, 0), "gemv_q: 33 elements: must be a whole number of q4_0 blocks of 32"),
            (("dequantize", NUMBER["q6_k"], one, one, 32), "dequantize: 32 elements: must be a whole number of q6_k blocks of 256"),
            (("expert_gemm", q4_0, one, one, ids, one, 2, 2, 4, 1, 32, 0, None, 0), "expert_gemm: a workspace of 0 aligned bytes"),
            (("expert_gemm", q4_0, one, one, ids, one, 2, -1, 4, 1, 32, 0, None, 0), "none may be negative"),
            (("dequantize", NUMBER["f32"], one, one, 2**31 + 1), "dequantize: 2147483649 rows of 1 elements: must be at most 2147483647"),
            (("rope", one, one, None, ids, 1, 2, 2, 2, 8, 8, 0), "rope: freqs is NULL"),
            (("rope", one, one, one, None, 1, 2, 2, 2, 8, 8, 0), "rope: positions is NULL"),
            (("rope", one, one, one, ids, 1, 2, 2, 2, 8, 10, 0), "rope: n_dims = 10 must be even, from 2 to the length of a row and to 1024: x f32 [8,2,2]"),
            (("rope", one, one, one, ids, 1, 2, 2, 2, 8, 7, 0), "rope: n_dims = 7 must be even, from 2 to the length of a row and to 1024: x f32 [8,2,2]"),
        ]
        for backend in BACKENDS:
            for call, text in wanted:
                with self.subTest(call=call[0], backend=backend.name):
                    with self.assertRaises(NnError) as caught:
                        backend(*call)
                    self.assertEqual(caught.exception.code, -2)
                    self.assertIn(text, caught.exception.text)

    def test_host_functions_and_queries(self):
        host, nan = BACKENDS[0], np.full(32, np.nan, np.float32)
        for call, text in ((("quantize", NUMBER["q4_0"], nan, nan, 32), "element 0 of a row is not finite: q4_0 cannot hold it"),
                           (("quantize", NUMBER["q4_0"], None, nan, 32), "quantize: x is NULL"),
                           (("repack", NUMBER["q4_0"], nan, nan, 31), "31 elements: must be a whole number"),
                           (("quantized_bytes", 3, 31, None), "quantized_bytes: bytes is NULL")):
            with self.assertRaises(NnError) as caught:
                host.host(*call)
            self.assertIn(text, caught.exception.text)
        with self.assertRaises(NnError) as caught:
            host("gemv_q", NUMBER["q4_0"], nan, nan, nan, 1, 32, np.empty(40, np.uint8), 40)
        self.assertIn("must be", caught.exception.text)
        with self.assertRaises(NnError) as caught:
            host.workspace("gemv_q", NUMBER["q4_0"], -1, 32)
        self.assertIn("none may be negative", caught.exception.text)
