#!/usr/bin/env python3
"""Golden rows of every weight type: NAME.bin as quantised by ggml, NAME.f32 as dequantised by gguf-py or new_types.py.

    tools/golden/golden_quants.py OUT_DIRECTORY"""
import pathlib
import sys

import new_types
import numpy as np
from golden_tiny import quantize, weight_types

ROWS, N = 4, 512

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    data = np.random.default_rng(7).standard_normal((ROWS, N)).astype(np.float32)
    data[1] *= 1000.0
    data[2] *= 1e-4
    data[3, :256] = 0.0
    for qtype in weight_types():
        blocks = quantize(data, qtype)
        (folder / f"{qtype.name.lower()}.bin").write_bytes(blocks.tobytes())
        floats = new_types.dequantize(blocks, qtype).astype(np.float32)
        (folder / f"{qtype.name.lower()}.f32").write_bytes(floats.tobytes())
