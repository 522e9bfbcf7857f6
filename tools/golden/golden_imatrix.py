#!/usr/bin/env python3
"""Weighted errors of ggml's quantisers with an importance matrix, for the rows of pack.f32 (golden_pack.py).

    tools/golden/golden_imatrix.py GOLDEN_DIRECTORY

imatrix.f32 has the importance of each of the 256 columns. imatrix.txt has a line for each type that the library quantises to with
one: name, and the sum over the rows of sum(w * error^2) / sum(w * x^2)."""
import ctypes
import pathlib
import sys

import gguf
import llama
import new_types
import numpy as np
from gguf import GGMLQuantizationType as Q
from golden_tiny import ggml

TYPES = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.IQ4_NL, Q.IQ4_XS,
         Q.IQ1_S, Q.IQ1_M, Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S, Q.IQ3_XXS, Q.IQ3_S]

folder = pathlib.Path(sys.argv[1])
rows = np.fromfile(folder / "pack.f32", np.float32).reshape(-1, 256)
weights = np.exp(np.random.default_rng(11).normal(0.0, 1.5, 256)).astype(np.float32)
weights.tofile(folder / "imatrix.f32")
with open(folder / "imatrix.txt", "w", encoding="ascii") as f:
    print(llama.HEADER, file=f)
    for q in TYPES:
        block, size = gguf.GGML_QUANT_SIZES[q]
        out = np.zeros((len(rows), 256 // block * size), np.uint8)
        ggml.ggml_quantize_chunk(ctypes.c_int(int(q)), rows.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                 ctypes.c_int64(0), ctypes.c_int64(len(rows)), ctypes.c_int64(256),
                                 weights.ctypes.data_as(ctypes.c_void_p))
        error = (weights * (new_types.dequantize(out, q).astype(np.float64) - rows) ** 2).sum(1)
        norm = (weights * rows.astype(np.float64) ** 2).sum(1)
        print(q.name.lower(), repr(float((error / np.where(norm > 0, norm, 1)).sum())), file=f)
