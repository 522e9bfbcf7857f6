#!/usr/bin/env python3
"""The types that llama.cpp gives to the matrices of models, for each mix of the IQ types below 4 bits.

    tools/golden_mixes.py tests/golden/mixes.txt

A model is a line "model ARCH LAYERS HEADS KV_HEADS EXPERTS", then "tensor NAME NE0 NE1 NE2" for each matrix. A line "MIX with"
or "MIX without" (an importance matrix) has the type of each of them, in this order."""
import ctypes
import pathlib
import re
import sys
import tempfile

import gguf
import llama
import llama_cpp as lib
import numpy as np
from golden_tiny import Q, Tiny

MIXES = {"IQ1_S": 24, "IQ1_M": 31, "IQ2_XXS": 19, "IQ2_XS": 20, "IQ2_S": 28, "IQ2_M": 29, "IQ3_XXS": 23, "IQ3_XS": 22,
         "IQ3_S": 26, "IQ3_M": 27}
WITHOUT = ["IQ3_S", "IQ3_M"]


class Importance(ctypes.Structure):
    """llama_model_imatrix_data"""
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]


def models():
    small = dict(embd=256, heads=4, dim=64, ff=256, vocab=64)
    few = dict(embd=256, dim=64, ff=256, ff_expert=256, used=2, vocab=64)
    yield Tiny("grouped", "llama", [Q.F16], seed=1, layers=16, heads_kv=1, **small)
    yield Tiny("tied", "llama", [Q.F16], seed=2, layers=17, heads_kv=4, tied=True, **small)
    yield Tiny("eight", "llama", [Q.F16], seed=3, layers=16, heads=4, heads_kv=2, experts=8, **few)
    yield Tiny("shared", "qwen2moe", [Q.F16], seed=4, layers=24, heads=2, heads_kv=2, experts=4, bias=True, ff_shared=96, **few)
    # 80 layers with grouped queries: llama.cpp knows a model of 70B by them
    yield Tiny("deep", "llama", [Q.F16], seed=6, layers=80, heads=4, heads_kv=1, **dict(embd=256, dim=8, ff=32, vocab=64))


def quantised(reader):
    return [t for t in reader.tensors if sum(n > 1 for n in t.shape) > 1 and not re.search("_inp|_norm", t.name)]


said = []


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def listen(_level, text, _user):
    said.append(text.decode())


def types_of(source, ftype, importance):
    """The types that a dry run names: {tensor: type}."""
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.dry_run = ftype, 1, True
    if importance is not None:
        params.imatrix = ctypes.cast(importance, type(params.imatrix))
    said.clear()
    status = lib.llama_model_quantize(str(source).encode(), b"/dev/null", ctypes.byref(params))
    assert status == 0, (source, ftype)
    line = re.compile(r"^\[ *\d+/ *\d+\] (\S+) +- .*MiB \((\w+)\)$", re.M)
    return dict(line.findall("".join(said)))


lib.llama_log_set(listen, None)
with tempfile.TemporaryDirectory() as folder, open(sys.argv[1], "w", encoding="ascii") as f:
    print(llama.HEADER, file=f)
    for tiny in models():
        source = pathlib.Path(folder) / f"{tiny.name}.gguf"
        tiny.write(source)
        matrices = quantised(gguf.GGUFReader(source))
        ones = [np.ones(int(t.shape[0] * (t.shape[2] if len(t.shape) > 2 else 1)), np.float32) for t in matrices]
        rows = [Importance(t.name.encode(), x.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), x.size)
                for t, x in zip(matrices, ones)]
        importance = (Importance * (len(rows) + 1))(*rows, Importance(None, None, 0))
        print("model", tiny.arch, tiny.layers, tiny.heads, tiny.heads_kv, tiny.experts, file=f)
        for t in matrices:
            print("tensor", t.name, *(list(t.shape) + [1])[:3], file=f)
        for name, ftype in MIXES.items():
            for given in [True] + [False] * (name in WITHOUT):
                types = types_of(source, ftype, importance if given else None)
                print(name, "with" if given else "without", *(types[t.name] for t in matrices), file=f)
