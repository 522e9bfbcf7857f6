"""The functions of training against NumPy in float64; test_nn.py runs them."""
import numpy as np

from cases import BACKENDS, Case, f64, floats, random, sizes
from library import NnError

SPECIAL_ROWS = [(np.nan, 1), (np.inf, 2), (-np.inf, 3)] # a number that the row gets, and its row


def softmax64(x):
    e = np.exp(f64(x) - np.max(f64(x), axis=1, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=1, keepdims=True)


def log_softmax64(x):
    top = np.max(f64(x), axis=1, keepdims=True, initial=-np.inf)
    return f64(x) - top - np.log(np.sum(np.exp(f64(x) - top), axis=1, keepdims=True))


class Losses(Case):
    def close_logs(self, backend, got, wanted, text):
        """The sums of a GPU are f32, so that a log near 0 has an absolute error."""
        if backend.name == "host":
            return self.close(got, wanted, 2e-6, text)
        with np.errstate(invalid="ignore"):
            near = np.abs(got - wanted) <= 2e-6 * np.abs(wanted) + 3e-7
        self.assertTrue(np.all(near | (got == wanted) | (np.isnan(got) & np.isnan(wanted))), text)

    def inputs(self, backend):
        shapes = [(0, 5), (1, 1), (3, 31), (31, 33), (2, 2500)]
        for rows, vocab in shapes + ([(2, 152064), (1, 1000003)] if backend.name == "host" else []):
            x = 8 * floats(rows, vocab)
            targets = random.integers(0, vocab, rows, dtype=np.int32)
            targets[1::3] = -1
            if rows == 31:
                targets[1:5] = (4, 5, 6, 7)
                for number, row in SPECIAL_ROWS:
                    x[row, 9] = number
                x[4, 7] = -np.inf
                x[5, :] = -np.inf
            yield rows, vocab, x, targets

    def test_cross_entropy(self):
        for backend in self.each("cross_entropy"):
            for rows, vocab, x, targets in self.inputs(backend):
                with np.errstate(all="ignore"):
                    wanted = log_softmax64(x)
                losses, log_probs, alone = np.empty(rows, np.float32), np.empty_like(x), np.empty(rows, np.float32)
                backend("cross_entropy", x, targets, losses, log_probs, rows, vocab)
                backend("cross_entropy", x, targets, alone, None, rows, vocab)
                self.assertEqual(losses.tobytes(), alone.tobytes())
                self.close_logs(backend, log_probs, wanted, f"log_probs of {rows} x {vocab}")
                taken = np.take_along_axis(wanted, np.maximum(targets, 0)[:, None].astype(np.int64), 1)[:, 0]
                taken = np.where(targets < 0, 0.0, -taken)
                self.close_logs(backend, losses, taken, f"losses of {rows} x {vocab}")

    def test_cross_entropy_backward(self):
        for backend in self.each("cross_entropy_backward"):
            for rows, vocab, x, targets in self.inputs(backend):
                dy, dx = floats(rows), np.empty_like(x)
                backend("cross_entropy_backward", x, targets, dy, dx, rows, vocab)
                with np.errstate(all="ignore"):
                    wanted = softmax64(x)
                    wanted[np.arange(rows), np.maximum(targets, 0)] -= 1
                    wanted = np.where(targets[:, None] < 0, 0.0, wanted * f64(dy)[:, None])
                self.assertTrue(np.array_equal(np.isnan(dx), np.isnan(wanted)))
                bound = 1e-6 * np.abs(np.where(np.isnan(wanted), 0, wanted)) + 3e-7 * np.abs(dy)[:, None]
                self.assertTrue(np.all((np.abs(dx - wanted) <= bound) | np.isnan(wanted)), f"{rows} x {vocab}")
                if backend.name == "host" and rows == 3:
                    log_probs, again = np.empty_like(x), np.empty_like(x)
                    backend("cross_entropy", x, targets, np.empty(rows, np.float32), log_probs, rows, vocab)
                    backend("cross_entropy_backward", log_probs, targets, dy, again, rows, vocab)
                    self.assertTrue(np.all(np.abs(again - wanted) <= bound))
                backend("cross_entropy_backward", x, targets, dy, x, rows, vocab)
                self.assertEqual(x.tobytes(), dx.tobytes(), "in place")

    def test_targets_outside(self):
        for backend in self.each("cross_entropy"):
            for target in (5, -2, 2**31 - 1):
                x, targets, losses = floats(2, 5), np.array([1, target], np.int32), np.zeros(2, np.float32)
                dy, dx = np.ones(2, np.float32), np.zeros((2, 5), np.float32)
                if backend.name == "host":
                    for call in (("cross_entropy", x, targets, losses, None), ("cross_entropy_backward", x, targets, dy, dx)):
                        with self.assertRaises(NnError) as caught:
                            backend(*call, 2, 5)
                        self.assertEqual(caught.exception.code, -2)
                        self.assertIn(f"target {target} of row 1: must be from 0 to 4, or -1 for none", caught.exception.text)
                    continue
                backend("cross_entropy", x, targets, losses, None, 2, 5)
                backend("cross_entropy_backward", x, targets, dy, dx, 2, 5)
                self.assertTrue(np.isfinite(losses[0]) and np.isnan(losses[1]))
                self.assertTrue(np.all(np.isfinite(dx[0])) and np.all(np.isnan(dx[1])))

    def test_sizes_out_of_range(self):
        one, ids = floats(4), np.zeros(4, np.int32)
        for backend in BACKENDS:
            for call, text in ((("cross_entropy", one, ids, one, None, 2**31, 1), "cross_entropy: 2147483648 rows: must be at most 2147483647"),
                               (("aux_loss", one, ids, one, one, 2, 2, 0), "aux_loss: k = 0: must be at least 1")):
                with self.subTest(call=call[0], backend=backend.name):
                    with self.assertRaises(NnError) as caught:
                        backend(*call)
                    self.assertEqual(caught.exception.code, -2)
                    self.assertIn(text, caught.exception.text)

    def test_aux_loss(self):
        for backend in self.each("aux_loss"):
            for tokens, experts, k in ((0, 4, 2), (1, 1, 1), (31, 8, 2), (33, 60, 4), (100, 33, 1)):
                probs = softmax64(floats(tokens, experts)).astype(np.float32)
                ids = random.integers(-1, experts + 1, (tokens, k), dtype=np.int32) # some are no expert
                load, loss = np.empty(experts, np.float32), np.full(1, -1, np.float32)
                backend("aux_loss", probs, ids, load, loss, tokens, experts, k)
                if tokens == 0:
                    self.assertEqual(loss[0], -1)
                    continue
                share = np.bincount(ids[(ids >= 0) & (ids < experts)], minlength=experts) / ids.size
                self.close(load, share, 1e-7)
                self.close(loss, [experts * np.sum(share * np.mean(f64(probs), axis=0))], 2e-6, f"{tokens} x {experts}")

    def test_aux_loss_backward(self):
        for backend in self.each("aux_loss_backward"):
            for tokens, experts in ((0, 4), (1, 1), (31, 33), (100, 60)):
                load, dloss, dprobs = np.abs(floats(experts)), floats(1), np.empty((tokens, experts), np.float32)
                backend("aux_loss_backward", load, dloss, dprobs, tokens, experts)
                wanted = experts * f64(load) / max(tokens, 1) * f64(dloss)[0]
                self.close(dprobs, np.broadcast_to(wanted, dprobs.shape), 4e-7)


class Optimizer(Case):
    BETAS = (float(np.float32(0.9)), float(np.float32(0.999)))

    def adamw64(self, state, g, lr, eps, decay, step):
        p, m, v = state
        b1, b2 = self.BETAS
        lr, eps, decay = (np.float64(np.float32(a)) for a in (lr, eps, decay))
        p *= 1 - lr * decay
        m += (1 - b1) * (g - m)
        v *= b2
        v += (1 - b2) * g * g
        p -= lr / (1 - b1**step) * m / (np.sqrt(v) / np.sqrt(1 - b2**step) + eps)

    def test_adamw_step(self):
        """From the same m and v as the library, so that errors do not add up: a step is exact but for some ulp."""
        for backend in self.each("adamw_step"):
            for n in sizes(backend):
                p, m, v = floats(n), np.zeros(n, np.float32), np.zeros(n, np.float32)
                for step in (1, 2, 3):
                    g = floats(n)
                    g[:min(n, 2)] = (np.nan, np.inf)[:n]
                    state = [f64(a) for a in (p, m, v)]
                    with np.errstate(all="ignore"):
                        self.adamw64(state, f64(g), 1e-2, 1e-8, 0.1, step)
                    backend("adamw_step", p, g, m, v, n, 1e-2, *self.BETAS, 1e-8, 0.1, step)
                    # p and m are sums, whose terms may cancel
                    for got, wanted, size in ((p, state[0], 1.0), (m, state[1], 1.0), (v, state[2], 0.0)):
                        nan, same = np.isnan(wanted), got == wanted
                        self.assertTrue(np.array_equal(np.isnan(got), nan))
                        with np.errstate(all="ignore"):
                            near = np.abs(got - wanted) <= 4 * 2.0**-24 * np.maximum(np.abs(wanted), size)
                        self.assertTrue(np.all(near | same | nan), f"{n}, step {step}")

    def test_a_hundred_steps(self):
        for backend in self.each("adamw_step"):
            n = 1000
            p, m, v = 0.25 * floats(n), np.zeros(n, np.float32), np.zeros(n, np.float32)
            state = [f64(a) for a in (p, m, v)]
            for step in range(1, 101 if backend.name == "host" else 11):
                g = floats(n)
                # 1 - lr * weight_decay is exact: a rounding error of it would grow with the steps
                self.adamw64(state, f64(g), 2.0**-10, 1e-8, 2.0**-5, step)
                backend("adamw_step", p, g, m, v, n, 2.0**-10, *self.BETAS, 1e-8, 2.0**-5, step)
            self.assertLess(np.max(np.abs(p - state[0])), 24 * 2.0**-24) # each step rounds p twice

    def test_grad_norm(self):
        for backend in self.each("grad_norm"):
            for n in sizes(backend):
                x, sums = floats(n), np.full(1028, 7, np.float32)
                backend("grad_norm", x, sums, n, 1)
                self.close(sums[0], np.sqrt(np.sum(f64(x)**2)), 1.01 * 2**-24)
                more = 1e-3 * floats(31)
                backend("grad_norm", more, sums, more.size, 0)
                self.close(sums[0], np.sqrt(np.sum(f64(x)**2) + np.sum(f64(more)**2)), 1.01 * 2**-24)
                before = sums.copy()
                backend("grad_norm", more, sums, 0, 0)
                self.assertEqual(sums.tobytes(), before.tobytes())
            for number in (np.nan, np.inf, 3e38):
                x = np.array([1, number, 2], np.float32)
                backend("grad_norm", x, sums, 3, 1)
                self.assertEqual(str(sums[0]), "nan" if np.isnan(number) else "inf")

    def test_grad_clip(self):
        for backend in self.each("grad_clip"):
            for n in sizes(backend):
                for norm in (0.5, 20.0, np.inf, np.nan):
                    x = floats(n)
                    with np.errstate(all="ignore"):
                        clip = np.float64(np.float32(norm)) + 1e-6
                        wanted = f64(x) * (min(1.0, 1.5 / clip) if not np.isnan(norm) else np.nan)
                    backend("grad_clip", x, np.array([norm], np.float32), n, 1.5)
                    self.close(x, wanted, 3e-7, f"{n}, {norm}")
