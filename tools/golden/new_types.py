"""Types of ggml (llama.cpp in llama-cpp-python 0.3.36) that gguf 0.19.0 does not know or does not dequantise.

    Q1_0   128 elements: f16 d, then a bit for each, of element 8k + n bit n of byte k.      x = d or -d
    Q2_0   64 elements: f16 d, then two bits for each, of element 4k + n bits 2n of byte k.  x = d * (q - 1)

Importing this adds Q2_0 to GGMLQuantizationType; dequantize() is gguf.quants.dequantize for all types."""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

if "Q2_0" not in Q.__members__:
    _q = int.__new__(Q, 42)
    _q._name_, _q._value_ = "Q2_0", 42
    Q._member_map_["Q2_0"] = Q._value2member_map_[42] = _q
    Q._member_names_.append("Q2_0")
    gguf.GGML_QUANT_SIZES[_q] = (64, 18)

BITS = {Q.Q1_0: 1, Q["Q2_0"]: 2}


def dequantize(blocks, qtype):
    """Rows of blocks, uint8 [rows, bytes], as f32 [rows, elements]."""
    qtype = Q(qtype)
    if qtype not in BITS:
        return gguf.quants.dequantize(blocks, qtype)
    bits, size = BITS[qtype], gguf.GGML_QUANT_SIZES[qtype][1]
    rows = np.ascontiguousarray(blocks).reshape(len(blocks), -1, size)
    d = np.ascontiguousarray(rows[..., :2]).view(np.float16).astype(np.float32)
    q = rows[..., 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1
    q = q.reshape(*rows.shape[:2], -1).astype(np.float32)
    values = 2 * q - 1 if bits == 1 else q - 1
    return (d * values).astype(np.float32).reshape(len(blocks), -1)
