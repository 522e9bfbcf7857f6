#!/usr/bin/env python3
"""The types that llama.cpp gives to the matrices of models, for each of its mixes.

    tools/golden/golden_mixes.py tests/golden/mixes.txt

A model is a line "model ARCH LAYERS HEADS KV_HEADS EXPERTS", then "tensor NAME NE0 NE1 NE2" for each matrix. A line "MIX with"
or "MIX without" (an importance matrix) has types, with commas between, and for each matrix the number of its type among these,
in this order, a digit each."""
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

MIXES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14,
         "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ2_XXS": 19, "IQ2_XS": 20, "Q2_K_S": 21, "IQ3_XS": 22,
         "IQ3_XXS": 23, "IQ1_S": 24, "IQ4_NL": 25, "IQ3_S": 26, "IQ3_M": 27, "IQ2_S": 28, "IQ2_M": 29, "IQ4_XS": 30, "IQ1_M": 31,
         "TQ1_0": 36, "TQ2_0": 37, "MXFP4": 38, "Q1_0": 40, "Q2_0": 41}
NEED = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "Q2_K_S"]  # an importance matrix
DIFFER = ["Q4_0", "Q5_0", "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_M"]  # with and without one, or are tried both ways


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
    # joined queries, keys and values; keys and values from a latent; attention in every fourth layer, and a further layer; rows
    # that are no whole blocks of 256 or of 32
    yield Tiny("joined", "phi3", [Q.F16], seed=7, layers=16, **small | dict(heads_kv=4))
    yield Tiny("latent", "deepseek2", [Q.F16], seed=8, layers=26, heads=2, heads_kv=2, dense=1, ff_shared=256, experts=4,
               mla=dict(q=256, kv=256, rope=16, nope=32, value=32, joined=True), **few)
    yield Tiny("hybrid", "qwen35", [Q.F16], seed=9, layers=33, heads=2, heads_kv=1, qk_norm=True, nextn=1, embd=256, ff=256, vocab=64,
               delta=dict(taps=4, dim=32, keys=2, heads=4, rope=8, interval=4, sections=[2, 1, 1, 0]))
    yield Tiny("odd", "llama", [Q.F16], seed=10, layers=8, heads=3, heads_kv=3, embd=96, dim=32, ff=48, vocab=64)
    yield Tiny("deep", "llama", [Q.F16], seed=6, layers=80, heads=4, heads_kv=1, **dict(embd=256, dim=8, ff=32, vocab=64))


def quantised(reader):
    return [t for t in reader.tensors if sum(n > 1 for n in t.shape) > 1 and not re.search("_inp|_norm|conv1d", t.name)]


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
            if name in ("Q1_0", "Q2_0") and any(t.shape[0] % 256 for t in matrices):
                continue  # blocks of 128 and 64 in llama.cpp, of 256 here
            if name == "MXFP4" and tiny.experts == 0:
                continue  # there all matrices are Q8_0
            for given in [True] * (name in NEED + DIFFER) + [False] * (name not in NEED):
                types = types_of(source, ftype, importance if given else None)
                # a matrix that stays f16 is copied, and is not in this list
                each = [types[t.name] if t.shape[0] % 32 == 0 else types.get(t.name, "f16") for t in matrices]
                known = sorted(set(each))
                print(name, "with" if given else "without", ",".join(known), "".join(str(known.index(t)) for t in each), file=f)
