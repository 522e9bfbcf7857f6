#!/usr/bin/env python3
"""Golden blocks of ggml's quantisers for some rows of floats.

    tools/golden/golden_pack.py OUT_DIRECTORY

pack.f32 has the rows, 256 floats each. pack.txt has a line for each type: name, sum of the squared errors of ggml's blocks
over all rows and, for types whose blocks must be equal, the blocks in hexadecimal ("-" for the others)."""
import pathlib
import sys

import llama
import new_types
import numpy as np
from gguf import GGMLQuantizationType as Q
from golden_tiny import quantize, weight_types

# types whose quantiser does not search
SIMPLE = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.MXFP4, Q.TQ1_0, Q.TQ2_0, Q.Q1_0]
ROWS = 12

rng = np.random.default_rng(7)
rows = rng.standard_normal((ROWS, 256)).astype(np.float32)
rows[1] *= 1e-3
rows[2] = rng.uniform(0.1, 2.0, 256)
rows[3] = rng.standard_t(2, 256)
rows[4] = 0.0
rows[5] = 0.75
rows[6, ::32] *= 30.0
rows[7] = rng.laplace(size=256) * np.repeat(10.0 ** rng.uniform(-2, 1, 8), 32)
rows[8] = -np.abs(rows[8])

out = pathlib.Path(sys.argv[1])
rows.tofile(out / "pack.f32")
with open(out / "pack.txt", "w", encoding="ascii") as f:
    print(llama.HEADER, file=f)
    for q in weight_types():
        if q in (Q.F16, Q.BF16):
            continue
        blocks = quantize(rows, q)
        error = float(((new_types.dequantize(blocks, q).astype(np.float64) - rows) ** 2).sum())
        print(q.name.lower(), repr(error), blocks.tobytes().hex() if q in SIMPLE else "-", file=f)
