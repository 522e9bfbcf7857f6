#!/usr/bin/env python3
"""The codebooks of the IQ types, which are facts of the format, as base/codebooks/NAME.h from gguf-py's tables.

    tools/codebooks.py OUT_DIRECTORY

An entry is the 8 values (IQ3: 4) of a group of elements, one byte each. Those of IQ1 are multiplied by 8: with the offset of 1/8
that a group adds to its values of -1, 0 or 1 they are integers."""
import pathlib
import sys

import gguf
import numpy as np

TABLES = {"iq2_xxs": gguf.quants.IQ2_XXS, "iq2_xs": gguf.quants.IQ2_XS, "iq2_s": gguf.quants.IQ2_S,
          "iq3_xxs": gguf.quants.IQ3_XXS, "iq3_s": gguf.quants.IQ3_S, "iq1": gguf.quants.IQ1_S}

for name, table in TABLES.items():
    table.init_grid()
    values = np.asarray(table.grid, np.float32).reshape(table.grid.shape[-2:]) * (8 if name == "iq1" else 1)
    size = values.shape[1]
    words = values.astype(np.int8).view(f"<u{size}").ravel()
    per_line = 5 if size == 8 else 9
    suffix = "ull" if size == 8 else "u"
    guard = f"BASE_CODEBOOKS_{name.upper()}_H"
    lines = [", ".join(f"0x{w:0{2 * size}x}{suffix}" for w in words[i:i + per_line]) for i in range(0, len(words), per_line)]
    text = ", \\\n".join("    " + line for line in lines)
    (pathlib.Path(sys.argv[1]) / f"{name}.h").write_text(
        f"/* {len(words)} entries of {size} values, made by tools/codebooks.py. */\n#ifndef {guard}\n#define {guard}\n\n"
        f"/* clang-format off */\n#define RP_CODEBOOK_{name.upper()} \\\n{text}\n/* clang-format on */\n\n#endif\n")
