"""Attention and sampling of libreprise_nn against NumPy in float64; part of test_nn.py."""
import math

import numpy as np

from cases import BACKENDS, HAS_DEVICE, Case, f64, floats, random
from library import NnError


def attention(q, k, v, mask, scale, causal):
    """[batch,seq,heads,head_dim] in float64; rows without a key are 0."""
    q, k, v = f64(q), f64(k), f64(v)
    share = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, share, 2), np.repeat(v, share, 2)
    scores = np.float64(np.float32(scale)) * np.einsum("bthd,bihd->bhti", q, k)
    seq_q, seq_k = q.shape[1], k.shape[1]
    if mask is not None:
        scores = scores + f64(mask)
    if causal:
        hidden = np.arange(seq_k)[None, :] > np.arange(seq_q)[:, None] + seq_k - seq_q
        scores = np.where(hidden, -np.inf, scores)
    top = np.max(scores, axis=3, keepdims=True)
    e = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = np.sum(e, axis=3, keepdims=True)
    return np.einsum("bhti,bihd->bthd", e / np.where(total == 0, 1, total), v)


class Attention(Case):
    # batch, seq_q, seq_k, heads, key heads, head_dim
    CASES = [(1, 1, 1, 1, 1, 1), (1, 1, 300, 4, 1, 64), (2, 33, 33, 4, 4, 31), (1, 7, 70, 12, 1, 64),
             (1, 3, 66, 8, 2, 128), (2, 5, 9, 3, 3, 200), (1, 2, 3, 1, 1, 512), (1, 9, 4, 2, 2, 5)]
    LARGE = [(2, 70, 290, 12, 12, 80), (1, 257, 257, 4, 1, 128), (3, 1, 1000, 8, 2, 96)]

    def run_case(self, backend, function, case, mask=None, causal=0):
        batch, seq_q, seq_k, heads, key_heads, dim = case
        q, k, v = floats(batch, seq_q, heads, dim), floats(batch, seq_k, key_heads, dim), floats(batch, seq_k, key_heads, dim)
        out, memory = np.full_like(q, 7.0), backend.workspace(function, *case)
        scale = 1 / math.sqrt(dim)
        last = (scale, *memory) if function == "mqa_attention" else (scale, causal, *memory)
        backend(function, q, k, v, *((mask,) if function == "mqa_attention" else ()), out, *case, *last)
        wanted = attention(q, k, v, mask, scale, causal)
        self.assertLessEqual(np.max(np.abs(out - wanted), initial=0), 3e-6 * np.max(np.abs(v), initial=1), f"{case}, {causal}")
        return out

    def test_flash_attention(self):
        for backend in self.each("flash_attention"):
            for case in self.CASES + (self.LARGE if backend.name == "host" else []):
                for causal in (0, 1):
                    out = self.run_case(backend, "flash_attention", case, causal=causal)
                    if causal and case[1] > case[2]:
                        self.assertTrue(np.all(out[:, :case[1] - case[2]] == 0), "queries before the first key")

    def test_mqa_attention(self):
        for backend in self.each("mqa_attention"):
            for case in self.CASES + (self.LARGE if backend.name == "host" else []):
                self.run_case(backend, "mqa_attention", case)
                mask = 2 * floats(case[1], case[2])
                mask[random.random(mask.shape) < 0.3] = -np.inf
                mask[0] = -np.inf
                out = self.run_case(backend, "mqa_attention", case, mask)
                self.assertTrue(np.all(out[:, 0] == 0), "a row that is hidden completely")

    def test_sizes_of_zero_compute_nothing(self):
        for backend in BACKENDS:
            for case in ((0, 1, 1, 1, 1, 8), (1, 0, 4, 1, 1, 8), (1, 4, 0, 1, 1, 8), (1, 1, 1, 0, 1, 8), (1, 1, 1, 1, 1, 0)):
                self.assertEqual(backend.workspace("flash_attention", *case)[1], 0)
                backend("flash_attention", None, None, None, None, *case, 1.0, 0, None, 0)
                backend("mqa_attention", None, None, None, None, None, *case, 1.0, None, 0)

    def test_nan_and_infinity(self):
        """In a query: its row. In a value: the rows that see it."""
        for backend in BACKENDS:
            case = (1, 40, 40, 2, 1, 20)
            q, k, v = floats(1, 40, 2, 20), floats(1, 40, 1, 20), floats(1, 40, 1, 20)
            q[0, 3, 1, 4], v[0, 33, 0, 7], v[0, 35, 0, 2] = np.nan, np.inf, np.nan
            out, memory = np.zeros_like(q), backend.workspace("flash_attention", *case)
            backend("flash_attention", q, k, v, out, *case, 0.3, 1, *memory)
            wanted = np.isfinite(out)
            wanted[...] = True
            wanted[0, 3, 1], wanted[0, 33:, :, 7], wanted[0, 35:, :, 2] = False, False, False
            self.assertTrue(np.array_equal(np.isfinite(out), wanted), backend.name)

    def test_workspace_does_not_grow_with_the_scores(self):
        for backend in BACKENDS:
            small = backend.workspace("flash_attention", 1, 512, 512, 8, 8, 64)[1]
            self.assertEqual(backend.workspace("flash_attention", 1, 1 << 17, 1 << 17, 8, 8, 64)[1], small)


def refused(case, text, function, *arguments):
    """Every backend refuses the arguments with this text."""
    for backend in BACKENDS:
        with case.subTest(function=function, backend=backend.name):
            with case.assertRaises(NnError) as caught:
                backend(function, *arguments)
            case.assertEqual(caught.exception.code, -2)
            case.assertIn(text, caught.exception.text)


class AttentionErrors(Case):
    def test_refusals(self):
        x = floats(4096)
        for function, mask, causal in (("mqa_attention", (None,), ()), ("flash_attention", (), (0,))):
            def check(text, case):
                refused(self, text, function, x, x, x, *mask, x.copy(), *case, 1.0, *causal, None, 0)
            check(f"{function}: head_dim 513: must be from 1 to 512", (1, 1, 1, 1, 1, 513))
            check(f"{function}: 6 heads are no multiple of 4 key heads", (1, 1, 1, 6, 4, 8))
            check(f"{function}: sizes 1 and -1: none may be negative", (1, -1, 1, 1, 1, 8))
            check("none may be negative", (1, 1, 1, -2, 1, 8))
            check("more than memory can hold", (1 << 40, 1 << 30, 1, 1, 1, 8))
            check("more than memory can hold", (1 << 40, 1, 1 << 30, 1, 1, 8))
            host = BACKENDS[0]
            with self.assertRaisesRegex(Exception, f"{function}: a workspace of 0 aligned bytes, must be [0-9]+"):
                host(function, x, x, x, *mask, x.copy(), 1, 4, 4, 2, 2, 8, 1.0, *causal, None, 0)


# ---- sampling ----


def philox(seed):
    """The first word of Philox4x32-10 (Salmon et al. 2011) with counter 0 and the key `seed`."""
    c, key = [0, 0, 0, 0], [seed & 0xffffffff, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & 0xffffffff, (a >> 32) ^ c[3] ^ key[1], a & 0xffffffff]
        key = [(key[0] + 0x9E3779B9) & 0xffffffff, (key[1] + 0xBB67AE85) & 0xffffffff]
    return c[0]


def kept(logits, temperature, k, p):
    """The candidates in order, and the sums of their probabilities."""
    x = np.where(np.isnan(logits), -np.inf, f64(logits))
    order = np.argsort(-x, kind="stable")[:k]

    def weights(temperature):
        with np.errstate(invalid="ignore"):
            return np.where(x[order] == x[order[0]], 1.0, np.exp((x[order] - x[order[0]]) / np.float64(np.float32(temperature))))
    w, n = weights(temperature), len(order)
    if p is not None:
        before = weights(1.0)
        n = int(np.searchsorted(np.cumsum(before), np.float64(np.float32(p)) * np.sum(before))) + 1
    return order[:n], np.cumsum(w[:n]) / np.sum(w[:n])


class Sampling(Case):
    ERROR = 1e-6  # of a sum of probabilities in f32

    def chosen(self, backend, function, logits, seeds, *arguments):
        batch, vocab = logits.shape
        ids, memory = np.full(batch, -7, np.int32), backend.workspace(function, batch, vocab)
        backend(function, logits, seeds, ids, batch, vocab, *arguments, *memory)
        return ids

    def check(self, function, logits, temperature, k=None, p=None):
        """Every backend chooses where the sum of probabilities passes the random number; all choose the same."""
        seeds = random.integers(0, 2**64, len(logits), np.uint64)
        arguments = tuple(a for a in (k, p) if a is not None) + (temperature,)
        first = None
        for backend in self.each(function):
            ids = self.chosen(backend, function, logits, seeds, *arguments)
            first = ids if first is None else first
            self.assertTrue(np.array_equal(ids, first), f"{function}: the {backend.name} chooses other tokens")
        for row, seed, chosen in zip(logits, seeds, first):
            order, sums = kept(row, temperature, k, p)
            u = (philox(int(seed)) >> 8) / 2**24
            at = np.flatnonzero(order == chosen)
            if at.size == 0 and p is not None:  # p lies between two sums, within their error
                continue
            self.assertEqual(at.size, 1, f"{function}: token {chosen} is not kept")
            low = sums[at[0] - 1] if at[0] > 0 else 0.0
            self.assertTrue(low - self.ERROR <= u <= sums[at[0]] + self.ERROR, f"{function}: u {u}, not {low}..{sums[at[0]]}")

    def test_philox(self):
        """The test vector of the authors for counter and key 0."""
        self.assertEqual(philox(0), 0x6627e8d5)

    def test_argmax(self):
        for backend in self.each("argmax"):
            for batch, vocab in ((0, 5), (1, 1), (3, 31), (33, 33), (2, 152064)):
                x = floats(batch, vocab).round(1)  # with equal values
                if vocab > 31:
                    x[0, 3], x[1, :] = np.nan, np.nan
                ids = np.full(batch, -1, np.int32)
                backend("argmax", x, ids, batch, vocab)
                self.assertTrue(np.array_equal(ids, np.argmax(np.where(np.isnan(x), -np.inf, x), axis=1)), f"{batch} x {vocab}")

    def test_choices(self):
        for batch, vocab in ((1, 1), (5, 31), (9, 33), (3, 2500)):
            x = 3 * floats(batch, vocab)
            for temperature in (0.7, 1.5):
                self.check("sample", x, temperature)
                self.check("topk_sample", x, temperature, k=min(vocab, 7))
                self.check("topk_sample", x, temperature, k=vocab + 5)
                self.check("topp_sample", x, temperature, p=0.8)
                self.check("topp_sample", x, temperature, p=1.0)

    def test_a_vocabulary_of_152k(self):
        x = 2 * floats(2, 152064)
        self.check("sample", x, 1.0)
        self.check("topk_sample", x, 0.9, k=50)
        self.check("topp_sample", x, 0.8, p=0.95)

    def test_special_logits(self):
        x = np.array([[np.nan, 1, -np.inf, 1], [-np.inf] * 4, [np.nan] * 4, [np.inf, 0, np.inf, 3], [-5, -5, -5, -5]], np.float32)
        for backend in BACKENDS:
            for seed in range(3):
                seeds = np.arange(5, dtype=np.uint64) + 1000 * seed
                ids = self.chosen(backend, "sample", x, seeds, 0.5)
                self.assertIn(ids[0], (1, 3))
                self.assertEqual(list(ids[1:3]), [-1, -1])
                self.assertIn(ids[3], (0, 2))
                self.assertEqual(ids[4], int((philox(int(seeds[4])) >> 8) / 2**24 * 4))
            greedy = self.chosen(backend, "sample", x, seeds, 0.0)
            self.assertEqual(list(greedy), [1, -1, -1, 0, 0])

    def test_shares_of_20000_draws(self):
        """Chi-square with 15 degrees of freedom: above 37.7 with a chance of 0.001."""
        row = floats(16)
        seeds, host = np.arange(20000, dtype=np.uint64), BACKENDS[0]
        logits = np.repeat(row[None, :], 4000, 0)
        ids = np.concatenate([self.chosen(host, "sample", logits, seeds[i:i + 4000], 0.8) for i in range(0, 20000, 4000)])
        p = np.exp(f64(row) / 0.8)
        wanted = 20000 * p / np.sum(p)
        self.assertLess(np.sum((np.bincount(ids, minlength=16) - wanted)**2 / wanted), 37.7)
        if HAS_DEVICE:
            self.assertTrue(np.array_equal(self.chosen(BACKENDS[1], "sample", logits[:60], seeds[:60], 0.8), ids[:60]))

    def test_refusals(self):
        x, seeds, ids = floats(4), np.zeros(1, np.uint64), np.zeros(1, np.int32)
        memory = np.zeros(1 << 17, np.uint8)

        def check(text, function, *arguments, memory=memory, batch=1, vocab=4):
            refused(self, text, function, x, seeds, ids, batch, vocab, *arguments, memory, memory.size)
        check("temperature -1: must be finite and at least 0", "sample", -1.0)
        check("temperature nan", "sample", math.nan)
        check("topk_sample: k = 0: must be at least 1", "topk_sample", 0, 1.0)
        check("top_p 0: must be above 0 and at most 1", "topp_sample", 0.0, 1.0)
        check("top_p 1.5", "topp_sample", 1.5, 1.0)
        check("sample: 5000 rows of 4: must be at most 4096 rows of fewer than 16777216", "sample", 1.0, batch=5000)
        check("sample: sizes -1 and 4: none may be negative", "sample", 1.0, batch=-1)
        check("sample: a workspace of 0 aligned bytes", "sample", 1.0, memory=np.zeros(0, np.uint8))
        refused(self, f"argmax: {2**31} rows: must be at most {2**31 - 1}", "argmax", x, ids, 2**31, 4)
        refused(self, "argmax: sizes 1 and -4: none may be negative", "argmax", x, ids, 1, -4)
