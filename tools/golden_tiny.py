#!/usr/bin/env python3
"""Tiny models of random weights, one for each family and weight type, with llama.cpp's logits for them.

    tools/golden_tiny.py OUT_DIRECTORY

NAME.gguf is the model; NAME.txt its ids, the logits of a batch over most of them and of the last decoded one by one, and
then, as "exact", the logits of the same weights widened to f32: what both engines would give without rounding
activations."""
import ctypes
import pathlib
import sys

import gguf
import llama
import llama_cpp
import numpy as np
from gguf import GGMLQuantizationType as Q

N_PROMPT, N_DECODE = 20, 4
MIX_32 = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.F16, Q.BF16]
MIX_K = [Q.Q4_K, Q.Q5_K, Q.Q6_K]

ggml = None
for _name in ("libggml-base.so", "libggml.so"):
    for _path in pathlib.Path(llama_cpp.__file__).parent.rglob(_name):
        ggml = ggml or ctypes.CDLL(str(_path))
ggml.ggml_quantize_chunk.restype = ctypes.c_size_t


def quantize(data, qtype):
    """Rows of f32 to blocks, by ggml's own code."""
    data = np.ascontiguousarray(data, np.float32)
    if qtype == Q.F32:
        return data
    if qtype in (Q.F16, Q.BF16):
        return gguf.quants.quantize(data, qtype)
    rows, n = data.shape
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    out = np.zeros((rows, n // block * size), np.uint8)
    ggml.ggml_quantize_chunk(ctypes.c_int(int(qtype)), data.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                             ctypes.c_int64(0), ctypes.c_int64(rows), ctypes.c_int64(n), ctypes.c_void_p(0))
    return out


class Tiny:
    def __init__(self, name, arch, types, *, seed, embd=64, layers=2, heads=4, heads_kv=2, dim=16, ff=64, vocab=64, tied=False,
                 bias=False, qk_norm=False, keys=None, rope_factors=False, post_norm=False):
        self.__dict__.update(locals())

    def next_type(self, n):
        qtype = self.types[self.n_matrices % len(self.types)]
        self.n_matrices += 1
        return qtype if n % gguf.GGML_QUANT_SIZES[qtype][0] == 0 else Q.F32

    def matrix(self, name, n, rows, scale=1.0):
        data = self.rng.standard_normal((rows, n)).astype(np.float32) * scale / np.sqrt(n)
        qtype = self.next_type(n)
        blocks = quantize(data, qtype)
        if self.widen:
            blocks, qtype = gguf.quants.dequantize(blocks, qtype).astype(np.float32), Q.F32
        self.writer.add_tensor(name, blocks, raw_dtype=qtype)

    def vector(self, name, n, mean, spread=0.2):
        self.writer.add_tensor(name, (mean + spread * self.rng.standard_normal(n)).astype(np.float32))

    def metadata(self):
        w = self.writer
        w.add_context_length(512)
        w.add_embedding_length(self.embd)
        w.add_block_count(self.layers)
        w.add_feed_forward_length(self.ff)
        w.add_head_count(self.heads)
        w.add_head_count_kv(self.heads_kv)
        w.add_key_length(self.dim)
        w.add_value_length(self.dim)
        w.add_layer_norm_rms_eps(1e-5)
        for key, (kind, value) in (self.keys or {}).items():
            getattr(w, f"add_{kind}")(f"{self.arch}.{key}", value)

    def vocabulary(self):
        tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{b:02X}>".encode() for b in range(256)]
        tokens = tokens[:3] + [bytes([c]) for c in range(33, 33 + self.vocab - 3)]
        types = [2, 3, 3] + [1] * (self.vocab - 3)
        self.writer.add_tokenizer_model("llama")
        self.writer.add_token_list(tokens)
        self.writer.add_token_scores([0.0] * self.vocab)
        self.writer.add_token_types(types)
        self.writer.add_bos_token_id(1)
        self.writer.add_eos_token_id(2)
        self.writer.add_unk_token_id(0)

    def layer(self, i):
        p, q, kv = f"blk.{i}.", self.heads * self.dim, self.heads_kv * self.dim
        self.vector(p + "attn_norm.weight", self.embd, 1.0)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            self.matrix(p + f"attn_{name}.weight", self.embd, rows)
            if self.bias:
                self.vector(p + f"attn_{name}.bias", rows, 0.0)
        if self.qk_norm:
            self.vector(p + "attn_q_norm.weight", self.dim, 1.0)
            self.vector(p + "attn_k_norm.weight", self.dim, 1.0)
        self.matrix(p + "attn_output.weight", q, self.embd)
        self.vector(p + "ffn_norm.weight", self.embd, 1.0)
        self.matrix(p + "ffn_gate.weight", self.embd, self.ff)
        self.matrix(p + "ffn_up.weight", self.embd, self.ff)
        self.matrix(p + "ffn_down.weight", self.ff, self.embd)
        if self.post_norm:
            self.vector(p + "post_attention_norm.weight", self.embd, 1.0)
            self.vector(p + "post_ffw_norm.weight", self.embd, 1.0)

    def write(self, path, widen=False):
        self.widen = widen
        self.rng = np.random.default_rng(self.seed)
        self.n_matrices = 0
        self.writer = gguf.GGUFWriter(str(path), self.arch)
        self.metadata()
        self.vocabulary()
        self.matrix("token_embd.weight", self.embd, self.vocab, scale=3.0 if self.tied else 8.0)
        for i in range(self.layers):
            self.layer(i)
        self.vector("output_norm.weight", self.embd, 1.0)
        if not self.tied:
            self.matrix("output.weight", self.embd, self.vocab, scale=2.0)
        if self.rope_factors:
            self.writer.add_tensor("rope_freqs.weight", np.linspace(1.0, 8.0, self.dim // 2, dtype=np.float32))
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def logits_of(path, ids, label, out):
    model = llama.Model(path, n_ctx=64)
    model.reset()
    rows = list(model.eval(ids[:N_PROMPT]))
    for token in ids[N_PROMPT:]:
        rows.extend(model.eval([token]))
    model.close()
    for row in rows:
        print(label, *(f"{x:.7g}" for x in row), file=out)


def write_golden(tiny, folder):
    path, wide = folder / f"{tiny.name}.gguf", folder / "widened.gguf"
    tiny.write(path)
    tiny.write(wide, widen=True)
    ids = [int(i) for i in np.random.default_rng(tiny.seed + 1000).integers(3, tiny.vocab, N_PROMPT + N_DECODE)]
    with open(folder / f"{tiny.name}.txt", "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        print("ids", *ids, file=out)
        logits_of(path, ids, "logits", out)
        logits_of(wide, ids, "exact", out)
    wide.unlink()
    print(f"{tiny.name} {path.stat().st_size} bytes")


def models():
    gemma = {"attention.sliding_window": ("uint32", 8), "rope.freq_base": ("float32", 1e6)}
    yarn = {"rope.scaling.type": ("string", "yarn"), "rope.scaling.factor": ("float32", 4.0),
            "rope.scaling.original_context_length": ("uint32", 128)}
    wide = dict(embd=256, layers=1, heads=16, heads_kv=1, dim=16, ff=256, tied=True)
    yield Tiny("llama-f32", "llama", [Q.F32], seed=1)
    for i, q in enumerate(MIX_32 + MIX_K):
        yield Tiny(f"llama-{q.name.lower()}", "llama", [q], seed=10 + i, **(wide if q in MIX_K else {}))
    yield Tiny("llama-mix", "llama", MIX_32, seed=30, tied=True)
    yield Tiny("llama-mix-k", "llama", MIX_K + [Q.Q8_0], seed=31, **wide)
    yield Tiny("llama-bias-mha-linear", "llama", [Q.F32], seed=32, bias=True, heads_kv=4,
               keys={"rope.scaling.type": ("string", "linear"), "rope.scaling.factor": ("float32", 2.0)})
    yield Tiny("llama-factors", "llama", [Q.F32], seed=33, rope_factors=True, keys={"rope.freq_base": ("float32", 5e5)})
    yield Tiny("llama-yarn", "llama", [Q.F32], seed=35, keys=yarn)
    yield Tiny("qwen2-f32", "qwen2", [Q.F32], seed=40, bias=True)
    yield Tiny("qwen2-mix", "qwen2", MIX_32, seed=41, bias=True, tied=True, heads_kv=1)
    yield Tiny("qwen2-mix-k", "qwen2", MIX_K, seed=42, bias=True, **wide)
    yield Tiny("qwen2-yarn", "qwen2", [Q.F16], seed=43, bias=True, keys=yarn)
    yield Tiny("qwen3-f32", "qwen3", [Q.F32], seed=50, qk_norm=True, heads=2, heads_kv=1, dim=32)
    yield Tiny("qwen3-mix", "qwen3", MIX_32, seed=51, qk_norm=True, tied=True)
    yield Tiny("qwen3-mix-k", "qwen3", MIX_K, seed=52, qk_norm=True, **wide)
    local = dict(qk_norm=True, post_norm=True, tied=True, layers=7, embd=32, ff=32, keys=gemma)
    yield Tiny("gemma3-f32", "gemma3", [Q.F32], seed=60, **local)
    yield Tiny("gemma3-mix", "gemma3", MIX_32, seed=61, **local)
    yield Tiny("gemma3-mix-k", "gemma3", MIX_K, seed=62, qk_norm=True, post_norm=True, keys=gemma, **wide)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for tiny in models():
        write_golden(tiny, target)
