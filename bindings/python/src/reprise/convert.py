"""Write model files: random or initial weights in the shape of a known model, a trained tokenizer, or the weights of a file in
another type."""
from __future__ import annotations

import ctypes as ct
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _c
from ._callback import Progress, Stopped, field_type
from ._lib import lib, params


def listed(function: Callable[[int], Any]) -> Iterator[Any]:
    """The entries of a C list that ends with NULL."""
    i = 0
    while (entry := function(i)) is not None:
        yield entry
        i += 1


def presets() -> dict[str, str]:
    """Names and descriptions of the known shapes."""
    return {name: lib.rp_synth_preset_help(i) for i, name in enumerate(listed(lib.rp_synth_preset_name))}


def types() -> list[str]:
    """Names of quantisation mixes, such as Q4_K_M."""
    return list(listed(lib.rp_convert_type_name))


def architectures() -> list[str]:
    """Architectures that can be opened."""
    return list(listed(lib.rp_arch_name))


def synth(preset: str, path: str | os.PathLike[str], *, type: str | None = None, seed: int = 0, hollow: bool = False,
          progress: Progress | None = None, mtp: bool = False) -> None:
    """Writes a model with random weights; hollow: without weights, as a hole in the file; mtp: with a layer that predicts further
    tokens."""
    with Stopped(progress, field_type(_c.RpSynthOptions, "progress")) as stopped:
        options = params(_c.RpSynthOptions, type=type, seed=seed, hollow=hollow, progress=stopped.callback, mtp=mtp)
        lib.rp_synth_sized(preset, ct.byref(options), ct.sizeof(options), path)


def train_tokenizer(texts: Sequence[str | bytes], path: str | os.PathLike[str], *, n_vocab: int = 0,
                    progress: Progress | None = None) -> None:
    """Trains a byte-level BPE tokenizer and writes it as a GGUF file without tensors; 0 tokens: 4096."""
    encoded = [t.encode() if isinstance(t, str) else bytes(t) for t in texts]
    strings = (_c.RpGgufString * max(len(encoded), 1))()
    for string, text in zip(strings, encoded):
        string.ptr, string.len = ct.cast(ct.c_char_p(text), ct.c_void_p), len(text)
    with Stopped(progress, field_type(_c.RpTrainTokenizerOptions, "progress")) as stopped:
        options = params(_c.RpTrainTokenizerOptions, n_vocab=n_vocab, progress=stopped.callback)
        lib.rp_train_tokenizer_sized(strings, len(encoded), ct.byref(options), ct.sizeof(options), path)


def train_init(preset: str, path: str | os.PathLike[str], *, tokenizer: str | os.PathLike[str] | None = None, seed: int = 0,
               progress: Progress | None = None) -> None:
    """Writes a model that is to be trained (Trainer), in the shape of a preset and with the tokenizer of a file."""
    with Stopped(progress, field_type(_c.RpTrainInitOptions, "progress")) as stopped:
        options = params(_c.RpTrainInitOptions, tokenizer=None if tokenizer is None else os.fspath(tokenizer), seed=seed,
                         progress=stopped.callback)
        lib.rp_train_init_sized(preset, ct.byref(options), ct.sizeof(options), path)


def requantize(source: str | os.PathLike[str], path: str | os.PathLike[str], type: str, progress: Progress | None = None, *,
               imatrix: str | os.PathLike[str] | None = None, pure: bool = False) -> None:
    """Copies a model file with its matrices quantised to `type`; imatrix: a file of `reprise imatrix` or llama-imatrix; pure: one
    type for all matrices."""
    with Stopped(progress, field_type(_c.RpRequantizeOptions, "progress")) as stopped:
        options = params(_c.RpRequantizeOptions, imatrix=None if imatrix is None else os.fspath(imatrix), pure=pure,
                         progress=stopped.callback)
        lib.rp_requantize_with_sized(source, path, type, ct.byref(options), ct.sizeof(options))
