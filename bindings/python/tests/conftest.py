"""Shared by the tests. REPRISE_TEST_BUILD: the folder of the build that the package was made from."""
import os
import pathlib
import sys

import pytest

import reprise

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("REPRISE_TEST_BUILD", SOURCE / "build"))
HANG_S = float(os.environ.get("REPRISE_TEST_HANG_S", 600)) # ends what hangs, and only that
TINY = SOURCE / "tests/golden/tiny/llama-mix.gguf"
sys.path.insert(0, str(SOURCE / "bindings/python"))
os.environ.setdefault("REPRISE_DEVICE", "cpu")


@pytest.fixture(scope="session")
def demo():
    with reprise.Model(SOURCE / "assets/demo.gguf") as model:
        yield model


@pytest.fixture
def session(demo):
    with demo.session(n_ctx=128, n_threads=1) as s:
        yield s
