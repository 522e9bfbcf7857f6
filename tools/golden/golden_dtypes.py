#!/usr/bin/env python3
"""Golden values of the types of examples/dtypes.c, by numpy and ml_dtypes (pip install numpy==2.4.6 ml_dtypes==0.6.0).

    tools/golden/golden_dtypes.py tests/golden/dtypes.txt

Floats are printed as the eight hexadecimal digits of their f32.

    value CODE X               fp8_e4m3: ml_dtypes' float8_e4m3fn
    code X CODE                the same, X clipped to +-448: midpoints of neighbours, numbers beside these, others
    table K X                  nf4: quantiles of the normal distribution (QLoRA, appendix E), by Python's statistics
    nf4 X*64 BLOCK             largest magnitude, then two codes a byte, the first in the high half
    ternary X*64 BLOCK         scale, then five digits a byte, the first has the factor 1
    weighted X*64 W*64 BLOCK   the same with an importance of each element"""
import pathlib
import statistics
import sys

import ml_dtypes
import numpy as np

TIE = 1e-5  # elements nearer to a boundary, which f32 may round to either side, are moved


def hexed(x):
    return "".join(f"{v:08x}" for v in np.asarray(x, np.float32).reshape(-1).view(np.uint32))


def fp8():
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    for code, value in zip(codes, values):
        yield f"value {code:02x} {hexed(value)}"
    finite = np.unique(values[np.isfinite(values)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    rng = np.random.default_rng(3)
    x = np.concatenate([finite, middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf)),
                        rng.standard_normal(200).astype(np.float32) * np.float32(10) ** rng.integers(-4, 3, 200).astype(np.float32),
                        np.array([-0.0, 449, 464, 465, 480, 1e30, np.inf, -np.inf, 2**-10, 2**-11, 1e-45, np.nan], np.float32)])
    for v in x:
        code = np.clip(v, np.float32(-448), np.float32(448)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        yield f"code {hexed(v)} {int(code):02x}"


def nf4_table():
    ppf, offset = statistics.NormalDist().inv_cdf, 0.9677083  # (1/2) (1 - 1/32 + 1 - 1/30), as rounded in the QLoRA code
    above = [ppf(p) for p in np.linspace(offset, 0.5, 9)[:-1]]
    below = [-ppf(p) for p in np.linspace(offset, 0.5, 8)[:-1]]
    table = np.sort(np.array([*above, 0.0, *below]))
    return table / np.abs(table).max()


def nf4(rng):
    table = nf4_table()
    for k, v in enumerate(table):
        yield f"table {k:x} {hexed(v)}"
    middle = (table[1:] + table[:-1]) / 2
    for scale in (1, 1e-3, 1e4, 0):
        x = (rng.standard_normal(64) * scale).astype(np.float32)
        largest = np.abs(x).max()
        near = np.abs(x[:, None].astype(np.float64) / (largest or 1) - middle).min(1) < TIE
        x[near] *= np.float32(1 - 8 * TIE)
        code = np.abs(x[:, None].astype(np.float64) / (largest or 1) - table).argmin(1).astype(np.uint8)
        yield f"nf4 {hexed(x)} {hexed(largest)}{(code[::2] << 4 | code[1::2]).tobytes().hex()}"


def ternary(rng):
    for scale, weighted in ((1, False), (1e-3, False), (0, False), (1, True), (1e2, True)):
        x = (rng.standard_normal(64) * scale).astype(np.float32)
        w = rng.exponential(1, 64).astype(np.float32)
        half = np.abs(x.astype(np.float64)).mean() / 2
        x[np.abs(np.abs(x) - half) < TIE * half] *= np.float32(1.001)
        q = np.where(np.abs(x) > half, np.sign(x), 0).astype(int)
        fit = w.astype(np.float64) if weighted else np.ones(64)
        d = (fit * x * q).sum() / (fit * q * q).sum() if scale else 0.0
        digits = np.concatenate([q + 1, [0]]).reshape(13, 5) @ 3 ** np.arange(5)
        yield (f"weighted {hexed(x)} {hexed(w)} " if weighted else f"ternary {hexed(x)} ") + hexed(d) + bytes(digits.tolist()).hex()


if __name__ == "__main__":
    generator = np.random.default_rng(5)
    lines = [f"# numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}", *fp8(), *nf4(generator), *ternary(generator)]
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n")
