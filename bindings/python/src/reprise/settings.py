"""Settings of the process: options of the environment, instruction set and software prefetch of the CPU kernels."""
from __future__ import annotations

import contextlib
import ctypes as ct
import os
from collections.abc import Iterator
from typing import NamedTuple

from . import _c
from ._lib import choice, lib

ISAS = {lib.rp_cpu_isa_name(i): i for i in range(_c.RpCpuIsa.RP_ISA_COUNT)}
HINTS = {"none": 0, "l1": 1, "l2": 2}


class Option(NamedTuple):
    """A variable of the environment."""

    name: str
    value: str
    default: str
    help: str


class Trial(NamedTuple):
    """A prefetch that was measured."""

    prefetch: str
    bytes_per_s: float
    workers: int
    rounds: int


def options() -> list[Option]:
    """Everything that the environment can set, with the values in use."""
    return [Option(lib.rp_option_name(i), lib.rp_option(i), lib.rp_option_default(i), lib.rp_option_help(i))
            for i in range(_c.RpOption.RP_OPT_COUNT)]


@contextlib.contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Writes a trace of all runs, steps and nodes of the process, for ui.perfetto.dev: `with reprise.trace("trace.json"):`.
    JSON lines if the path ends in .jsonl. One at a time; REPRISE_TRACE=FILE traces the whole process."""
    lib.rp_trace_begin(path)
    try:
        yield
    finally:
        lib.rp_trace_end()


def version() -> str:
    """The version of the library."""
    return str(lib.rp_version())


def cpu_isa() -> str:
    """The instruction set that the CPU kernels use."""
    return str(lib.rp_cpu_isa_name(lib.rp_cpu_isa()))


def set_cpu_isa(isa: str) -> None:
    """Switches it for the whole process, not while an executor runs."""
    lib.rp_cpu_isa_set(choice("isa", isa, ISAS))


def check_cpu_isa() -> None:
    """Raises if REPRISE_ISA names no variant, or one that this CPU lacks."""
    lib.rp_cpu_isa_check()


def prefetch_text(prefetch: _c.RpCpuPrefetch) -> str:
    out = ct.create_string_buffer(16)
    lib.rp_cpu_prefetch_text(prefetch, ct.addressof(out))
    return out.value.decode()


def cpu_prefetch() -> str:
    """The software prefetch of weights, such as "l2:4096"."""
    return prefetch_text(lib.rp_cpu_prefetch())


def cpu_prefetch_option() -> tuple[str, bool]:
    """REPRISE_PREFETCH: the setting, and whether it is to be measured. ArgumentError for a value that is not understood."""
    out, measure = _c.RpCpuPrefetch(), ct.c_bool()
    lib.rp_cpu_prefetch_option(ct.byref(out), ct.byref(measure))
    return prefetch_text(out), measure.value


def set_cpu_prefetch(hint: str, distance: int = 0) -> None:
    """hint: none, l1 or l2; distance in bytes, a multiple of 64."""
    lib.rp_cpu_prefetch_set(_c.RpCpuPrefetch(choice("hint", hint, HINTS), distance))


def cpu_prefetch_trials() -> list[Trial]:
    """What was measured at the first open, the default first; empty if nothing was."""
    out = (_c.RpCpuPrefetchTrial * 16)()
    n = lib.rp_cpu_prefetch_trials_sized(ct.addressof(out), ct.sizeof(_c.RpCpuPrefetchTrial), len(out))
    return [Trial(prefetch_text(t.prefetch), t.bytes_per_s, t.workers, t.rounds) for t in out[:n]]
