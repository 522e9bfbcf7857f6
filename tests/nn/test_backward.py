"""The functions that compute gradients, against formulas in NumPy with float64; test_nn.py runs them."""
import math

import numpy as np

from cases import BACKENDS, Case, f64, floats, random, sizes
from library import NnError

ERF = np.vectorize(math.erf, otypes=[np.float64])


def silu_slope(x):
    s = 1 / (1 + np.exp(-x))
    return s * (1 + x * (1 - s))


def gelu_slope(x):
    return 0.5 * (1 + ERF(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def tanh_gelu_slope(x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


class Gradients(Case):
    def near(self, got, wanted, tolerance, text):
        """Absolute, for gradients near 1; NaN at the same places."""
        got = np.asarray(got, np.float64)
        self.assertTrue(np.array_equal(np.isnan(got), np.isnan(wanted)), f"{text}: NaN differs")
        error = np.where(np.isnan(wanted), 0, np.abs(got - wanted) - tolerance * np.maximum(1, np.abs(wanted)))
        self.assertLessEqual(np.max(error, initial=0), 0, text)

    def unary(self, function, slope, *more, largest=1000003):
        for backend in self.each(function):
            for n in sizes(backend, largest):
                x, dy = 4 * floats(n), floats(n)
                x[:min(n, 3)] = (np.nan, 88, -88)[:n]
                dx = np.empty_like(x)
                backend(function, x, dy, dx, n, *more)
                with np.errstate(all="ignore"):
                    self.near(dx, f64(dy) * slope(f64(x)), 4e-6, f"{function} of {n}")
                backend(function, x, dy, dy, n, *more)
                self.assertEqual(dy.tobytes(), dx.tobytes(), "in place")

    def test_silu_backward(self):
        self.unary("silu_backward", silu_slope)

    def test_gelu_backward(self):
        self.unary("gelu_backward", tanh_gelu_slope, 0)
        self.unary("gelu_backward", gelu_slope, 1, largest=10007)

    SHAPES = [(0, 5), (5, 0), (1, 1), (3, 31), (2, 33), (31, 257), (1, 100003)]

    def test_softmax_backward(self):
        for backend in self.each("softmax_backward"):
            for batch, dim in self.SHAPES:
                e, dy = np.exp(floats(batch, dim)), floats(batch, dim)
                y = (e / np.maximum(np.sum(e, axis=1, keepdims=True), 1e-9)).astype(np.float32)
                if batch == 31:
                    dy[1, 5], y[2, 7] = np.nan, np.nan
                dx = np.empty_like(y)
                backend("softmax_backward", y, dy, dx, batch, dim)
                wanted = f64(y) * (f64(dy) - np.sum(f64(y) * f64(dy), axis=1, keepdims=True))
                self.near(dx, wanted, 1e-6, f"{batch} x {dim}")
                backend("softmax_backward", y, dy, dy, batch, dim)
                self.assertEqual(dy.tobytes(), dx.tobytes(), "in place")

    def test_rmsnorm_backward(self):
        for backend in self.each("rmsnorm_backward"):
            for batch, dim in self.SHAPES + [(1000, 33)]:
                x, w, dy = floats(batch, dim), floats(dim), floats(batch, dim)
                if batch == 31:
                    x[1, 5], dy[2, 7] = np.nan, np.nan
                dx, dw, rstd = np.empty_like(x), np.empty_like(w), np.empty(batch, np.float32)
                backend("rmsnorm_backward", x, w, dy, dx, dw, rstd, batch, dim, 1e-5)
                if batch * dim == 0:
                    continue
                root = 1 / np.sqrt(np.mean(f64(x)**2, axis=1, keepdims=True) + np.float64(np.float32(1e-5)))
                g = f64(dy) * f64(w)
                wanted = root * g - f64(x) * root**3 * np.mean(g * f64(x), axis=1, keepdims=True)
                self.near(dx, wanted, 4e-6, f"{batch} x {dim}")
                self.near(rstd, root[:, 0], 1e-6, "rstd")
                self.near(dw / math.sqrt(batch), np.sum(f64(dy) * f64(x) * root, axis=0) / math.sqrt(batch), 4e-6, "dweight")
                backend("rmsnorm_backward", x, None, dy, dx, None, None, batch, dim, 1e-5)
                wanted = root * f64(dy) - f64(x) * root**3 * np.mean(f64(dy) * f64(x), axis=1, keepdims=True)
                self.near(dx, wanted, 4e-6, f"{batch} x {dim} without a weight")

    def test_rope_backward(self):
        """The rotation by the negative angle: the transposed matrix, and so the inverse of rope."""
        for backend in self.each("rope_backward"):
            for batch, seq, heads, key_heads, dim, rotary in ((0, 1, 1, 1, 2, 2), (1, 1, 1, 1, 2, 2), (2, 7, 4, 2, 33, 32), (1, 31, 3, 1, 64, 20)):
                for halves in (0, 1):
                    q, k = floats(batch, seq, heads, dim), floats(batch, seq, key_heads, dim)
                    freqs = (10000.0 ** (-np.arange(0, rotary, 2) / rotary)).astype(np.float32)
                    positions = random.integers(-1, 5000, (batch, seq), dtype=np.int32)
                    angle = np.maximum(positions, 0)[:, :, None, None] * f64(freqs)
                    pairs = np.arange(rotary // 2)
                    a, b = (pairs, pairs + rotary // 2) if halves else (2 * pairs, 2 * pairs + 1)
                    shape = (batch, seq, heads, key_heads, dim, rotary, halves)
                    dq, dk = q.copy(), k.copy()
                    backend("rope_backward", dq, dk, freqs, positions, *shape)
                    for x, dx in ((q, dq), (k, dk)):
                        wanted = f64(x)
                        wanted[..., a] = np.cos(angle) * f64(x)[..., a] + np.sin(angle) * f64(x)[..., b]
                        wanted[..., b] = np.cos(angle) * f64(x)[..., b] - np.sin(angle) * f64(x)[..., a]
                        self.near(dx, wanted, 1e-6, f"{shape}")
                    backend("rope", dq, dk, freqs, positions, *shape)
                    self.near(dq, f64(q), 2e-6, "back and forth")


def attention64(Q, K, V, dout, scale, causal):
    """out, dQ, dK, dV with the whole matrix of scores; K and V with one head for each query head."""
    scores = scale * np.einsum("bthd,bihd->bhti", Q, K)
    if causal:
        hidden = ~np.tril(np.ones((Q.shape[1], K.shape[1]), bool), K.shape[1] - Q.shape[1])
        scores[..., hidden] = -np.inf
    with np.errstate(all="ignore"):
        top = np.max(scores, axis=-1, keepdims=True, initial=-1e300)
        e = np.exp(scores - top)
        total = np.sum(e, axis=-1, keepdims=True)
    p = np.divide(e, total, out=np.zeros_like(e), where=total != 0)
    out = np.einsum("bhti,bihd->bthd", p, V)
    dp = np.einsum("bthd,bihd->bhti", dout, V)
    ds = scale * p * (dp - np.sum(p * dp, axis=-1, keepdims=True))
    return (out, np.einsum("bhti,bihd->bthd", ds, K), np.einsum("bhti,bthd->bihd", ds, Q), np.einsum("bhti,bthd->bihd", p, dout))


class AttentionBackward(Case):
    #          batch, seq_q, seq_k, heads, key_heads, head_dim
    SHAPES = [(0, 3, 3, 1, 1, 4), (2, 0, 3, 1, 1, 4), (1, 1, 1, 1, 1, 1), (2, 7, 7, 4, 2, 16), (1, 31, 33, 3, 1, 33), (1, 5, 3, 2, 2, 8),
              (1, 1, 130, 4, 1, 5)]
    LARGE = [(2, 129, 129, 4, 4, 64), (1, 200, 333, 4, 2, 80), (1, 17, 50, 2, 1, 512)]

    def gradients(self, backend, shape, causal):
        batch, seq_q, seq_k, heads, key_heads, dim = shape
        scale = dim**-0.5
        Q, dout = floats(batch, seq_q, heads, dim), floats(batch, seq_q, heads, dim)
        K, V = floats(batch, seq_k, key_heads, dim), floats(batch, seq_k, key_heads, dim)
        group = heads // key_heads
        repeated = [np.repeat(f64(x), group, axis=2) for x in (K, V)]
        out, dQ, dK, dV = attention64(f64(Q), *repeated, f64(dout), float(np.float32(scale)), causal)
        got = [np.full_like(x, 7) for x in (Q, K, V)]
        memory = backend.workspace("attention_backward", *shape)
        backend("attention_backward", Q, K, V, out.astype(np.float32), dout, *got, *shape, scale, causal, *memory)
        if Q.size == 0 or K.size == 0:
            return
        for x, wanted in zip(got, (dQ, dK, dV)):
            if wanted.shape != x.shape:
                wanted = wanted.reshape(batch, seq_k, key_heads, group, dim).sum(axis=3)
            largest = np.max(np.abs(wanted))
            self.assertLessEqual(np.max(np.abs(x - wanted)), 3e-6 * largest + 1e-7, f"{shape}, causal={causal}")

    def test_attention_backward(self):
        for backend in self.each("attention_backward"):
            for shape in self.SHAPES + (self.LARGE if backend.name == "host" else []):
                for causal in (0, 1):
                    self.gradients(backend, shape, causal)

    def test_nan(self):
        shape = (2, 5, 6, 4, 2, 3)
        for backend in self.each("attention_backward"):
            Q, K, V = floats(2, 5, 4, 3), floats(2, 6, 2, 3), floats(2, 6, 2, 3)
            out, dout = floats(2, 5, 4, 3), floats(2, 5, 4, 3)
            K[1, 2, 0, 1] = np.nan
            dQ, dK, dV = np.empty_like(Q), np.empty_like(K), np.empty_like(V)
            backend("attention_backward", Q, K, V, out, dout, dQ, dK, dV, *shape, 1.0, 0, *backend.workspace("attention_backward", *shape))
            self.assertTrue(np.all(np.isnan(dQ[1, :, :2])) and np.all(np.isfinite(dQ[1, :, 2:])) and np.all(np.isfinite(dQ[0])))
            self.assertTrue(np.all(np.isnan(dV[1, :, 0])) and np.all(np.isfinite(dV[1, :, 1])) and np.all(np.isfinite(dV[0])))

    def test_errors(self):
        one = floats(64)
        for backend in self.each("attention_backward"):
            call = ["attention_backward"] + [one] * 8
            memory = backend.workspace("attention_backward", 1, 2, 2, 2, 1, 4)
            self.assertEqual(memory[1], 3 * 4 * 2 * 2)
            for sizes_, more, text in (((1, 2, 2, 3, 2, 4), memory, "attention_backward: 3 heads are no multiple of 2 key heads"),
                                       ((1, 2, 2, 2, 1, 513), memory, "attention_backward: head_dim 513: must be from 1 to 512"),
                                       ((1, -1, 2, 2, 1, 4), memory, "none may be negative"),
                                       ((2**40, 2, 2, 2, 1, 4), memory, "attention_backward: 1099511627776 * 2 * 2 rows: must be at most 2147483647"),
                                       ((1, 2, 2, 2, 1, 4), (memory[0], 47), "attention_backward: a workspace of 47 bytes, must be 48, aligned to 4"),
                                       ((1, 2, 2, 2, 1, 4), (None, 48), "attention_backward: workspace is NULL")):
                with self.subTest(text=text, backend=backend.name):
                    with self.assertRaises(NnError) as caught:
                        backend(*call, *sizes_, 1.0, 0, *more)
                    self.assertEqual(caught.exception.code, -2)
                    self.assertIn(text, caught.exception.text)
            with self.assertRaises(NnError) as caught:
                backend("rmsnorm_backward", one, None, one, one, one, None, 1, 64, 1e-5)
            self.assertIn("rmsnorm_backward: rstd is NULL", caught.exception.text)
            with self.assertRaises(NnError) as caught:
                backend("softmax_backward", one, one, one, 2**31, 1)
            self.assertIn("softmax_backward: 2147483648 rows: must be at most 2147483647", caught.exception.text)

    def test_threads_change_no_bit(self):
        """Large calls use the pool; a part of the batch alone has the same bits."""
        host = BACKENDS[0]
        batch, seq, heads, dim = 4, 65, 4, 48
        tensors = [floats(batch, seq, heads, dim) for _ in range(5)]
        whole = [np.empty_like(tensors[0]) for _ in range(3)]
        shape = (batch, seq, seq, heads, heads, dim)
        host("attention_backward", *tensors, *whole, *shape, 0.2, 1, *host.workspace("attention_backward", *shape))
        shape = (1, *shape[1:])
        for b in range(batch):
            part = [np.empty_like(tensors[0][:1]) for _ in range(3)]
            host("attention_backward", *[np.ascontiguousarray(t[b:b + 1]) for t in tensors], *part, *shape, 0.2, 1,
                 *host.workspace("attention_backward", *shape))
            for x, y in zip(whole, part):
                self.assertEqual(x[b].tobytes(), y[0].tobytes())
