"""What the tests of libreprise_nn share: the library, its backends, and comparisons. SOURCE and LIBRARY are the first two
arguments of the program."""
import ctypes
import sys
import unittest

import numpy as np

from library import Device, Host, Library

SOURCE, PATH = sys.argv[1:3]
LIBRARY = Library(SOURCE, PATH)
COUNT = ctypes.c_int32(0)
HAS_DEVICE = LIBRARY.raw("rp_nn_device_count", ctypes.byref(COUNT)) == 0
BACKENDS = [Host(LIBRARY)] + ([Device(LIBRARY)] if HAS_DEVICE else [])
SIZES = [0, 1, 31, 33, 1000003]
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 88.0, -88.0, 3e38, -3e38, 1e-40], np.float32)
random = np.random.default_rng(1)
covered = set()


def sizes(backend, largest=SIZES[-1]):
    """A simulated device computes some 10 million elements a minute."""
    return SIZES[:-1] + [largest if backend.name == "host" else min(largest, 10007)]


def floats(*shape):
    return random.standard_normal(shape, np.float32)


def f64(a):
    return a.astype(np.float64)


class Case(unittest.TestCase):
    def close(self, got, wanted, tolerance=2e-6, text=""):
        """Error relative to the largest magnitude of a row or, for single elements, to each; NaN and infinity the same."""
        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = np.where(np.abs(wanted) > 3.4028235e38, np.sign(wanted) * np.inf, wanted)
            self.assertTrue(np.array_equal(np.isnan(got), np.isnan(wanted)), f"{text}: NaN differs")
            finite = np.isfinite(wanted)
            self.assertTrue(np.array_equal(got[~finite & ~np.isnan(wanted)], wanted[~finite & ~np.isnan(wanted)]), text)
            error = np.abs(got[finite] - wanted[finite]) - 1e-37
            self.assertTrue(np.all(error <= tolerance * np.abs(wanted[finite])),
                            f"{text}: {np.max(error / np.maximum(np.abs(wanted[finite]), 1e-30), initial=0)}")

    def each(self, function):
        covered.add(function)
        for backend in BACKENDS:
            with self.subTest(function=function, backend=backend.name):
                yield backend
