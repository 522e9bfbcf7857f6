#!/usr/bin/env python3
"""Tiny models that make embeddings, of random weights, with the embeddings and scores of llama.cpp.

    tools/golden/golden_embed.py OUT_DIRECTORY [NAME...]

NAME.gguf is the model. NAME.txt has N token ids, then lines "SOURCE POOLING numbers": the hidden state of each token ("none"), and
one line for each pooling. SOURCE is "llama", the weights of the file, or "exact", the same weights dequantised to f32, for which
llama.cpp does not quantise activations."""
import ctypes
import pathlib
import sys

import golden_tiny as tiny
import llama
import numpy as np
from gguf import GGMLQuantizationType as Q
from llama_cpp import llama_cpp as lib

N = 21
POOLINGS = {"none": 0, "mean": 1, "cls": 2, "last": 3, "rank": 4}
LABELS = {2: ["yes", "no"], 3: ["a", "b", "c"]}


class Embed(tiny.Tiny):
    """`pooling` of the file; `cls`: a hidden layer of the classification head; `labels`: results of it; `dense`: the middle length of
    two dense layers; `types`: rows of the embeddings of token types; `qkv_bias`, `ff_bias`: biases."""

    def __init__(self, name, arch, types, *, pooling, cls=False, labels=0, dense=0, token_types=2, **more):
        super().__init__(name, arch, types, **more)
        self.pooling, self.cls, self.labels, self.middle, self.token_types = pooling, cls, labels, dense, token_types
        self.theirs, self.scales = False, False

    def of_bert(self):
        return self.arch in ("bert", "nomic-bert")

    def metadata(self):
        w, a = self.writer, self.arch
        w.add_context_length(64)
        w.add_embedding_length(self.embd)
        w.add_block_count(self.layers)
        w.add_feed_forward_length(self.ff)
        w.add_head_count(self.heads)
        w.add_head_count_kv(self.heads_kv)
        w.add_key_length(self.dim)
        w.add_value_length(self.dim)
        if self.of_bert() or a == "modern-bert":
            w.add_layer_norm_eps(1e-5)
        else:
            w.add_layer_norm_rms_eps(1e-5)
        if a in ("bert", "nomic-bert", "modern-bert", "eurobert"):
            w.add_causal_attention(False)
        if self.pooling:
            w.add_uint32(f"{a}.pooling_type", POOLINGS[self.pooling])
        if self.arch == "qwen3" and self.labels:
            w.add_string("tokenizer.chat_template.rerank", "<s>!{query}</s>?{document}.")
        if self.labels > 1:
            w.add_array(f"{a}.classifier.output_labels", LABELS[self.labels])
        if self.middle:
            for key, n in (("dense_2_feat_in", self.embd), ("dense_2_feat_out", self.middle), ("dense_3_feat_in", self.middle),
                           ("dense_3_feat_out", self.embd)):
                w.add_uint32(f"{a}.{key}", n)
        for key, (kind, value) in (self.keys or {}).items():
            getattr(w, f"add_{kind}")(f"{a}.{key}", value)

    def vocabulary(self):
        if not self.of_bert():
            return super().vocabulary()
        w = self.writer
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokens += ["\u2581" + chr(c) for c in range(97, 123)] + [chr(c) for c in range(97, 123)] + ["\u2581" + c for c in ".,!?+-"]
        tokens += [f"[unused{i}]" for i in range(self.vocab - len(tokens))]
        w.add_tokenizer_model("bert")
        w.add_token_list(tokens)
        w.add_token_types([3] * 5 + [1] * (len(tokens) - 5))
        w.add_token_type_count(self.token_types)
        w.add_bos_token_id(2)
        w.add_sep_token_id(3)
        w.add_unk_token_id(1)
        w.add_pad_token_id(0)
        w.add_mask_token_id(4)

    def norm(self, name, bias):
        self.vector(name + ".weight", self.embd, 1.0)
        if bias:
            self.vector(name + ".bias", self.embd, 0.0)

    def layer(self, i):
        p, b = f"blk.{i}.", self.of_bert()
        q, kv = self.heads * self.dim, self.heads_kv * self.dim
        gemma = self.arch == "gemma-embedding"
        if not b and not (self.arch == "modern-bert" and i == 0):
            self.norm(p + "attn_norm", False)
        joined = self.arch in ("nomic-bert", "modern-bert")
        for name, rows in (("qkv", q + 2 * kv),) if joined else (("q", q), ("k", kv), ("v", kv)):
            self.matrix(p + f"attn_{name}.weight", self.embd, rows)
            if self.bias:
                self.vector(p + f"attn_{name}.bias", rows, 0.0)
        if self.qk_norm:
            self.vector(p + "attn_q_norm.weight", self.dim, 1.0)
            self.vector(p + "attn_k_norm.weight", self.dim, 1.0)
        self.matrix(p + "attn_output.weight", q, self.embd)
        if self.bias and self.arch == "bert":
            self.vector(p + "attn_output.bias", self.embd, 0.0)
        if b:
            self.norm(p + "attn_output_norm", True)
        else:
            self.norm(p + "ffn_norm", False)
        if gemma:
            self.norm(p + "post_attention_norm", False)
            self.norm(p + "post_ffw_norm", False)
        if self.arch == "modern-bert":
            self.matrix(p + "ffn_up.weight", self.embd, 2 * self.ff)
        else:
            if self.arch != "bert":
                self.matrix(p + "ffn_gate.weight", self.embd, self.ff)
            self.matrix(p + "ffn_up.weight", self.embd, self.ff)
        self.matrix(p + "ffn_down.weight", self.ff, self.embd)
        if self.bias and self.arch == "bert":
            self.vector(p + "ffn_up.bias", self.ff, 0.0)
            self.vector(p + "ffn_down.bias", self.embd, 0.0)
        if b:
            self.norm(p + "layer_output_norm", True)

    def write(self, path, dequantized=False, theirs=False):
        self.dequantized, self.theirs = dequantized, theirs
        self.rng = np.random.default_rng(self.seed)
        self.n_matrices = 0
        self.writer = tiny.gguf.GGUFWriter(str(path), self.arch)
        self.metadata()
        self.vocabulary()
        self.matrix("token_embd.weight", self.embd, self.vocab, scale=8.0)
        if self.of_bert():
            self.matrix("token_types.weight", self.embd, self.token_types, scale=4.0, qtype=Q.F32)
        if self.arch == "bert":
            self.matrix("position_embd.weight", self.embd, 64, scale=4.0, qtype=Q.F32)
        if self.of_bert() or self.arch == "modern-bert":
            self.norm("token_embd_norm", self.of_bert())
        for i in range(self.layers):
            self.layer(i)
        if not self.of_bert():
            self.norm("output_norm", False)
        if self.cls:
            self.matrix("cls.weight", self.embd, self.embd)
            if self.arch == "bert":
                self.vector("cls.bias", self.embd, 0.0)
            else:
                self.vector("cls.norm.weight", self.embd, 1.0)
        if self.labels:
            self.matrix("cls.output.weight", self.embd, self.labels, qtype=Q.F32)
            if self.arch != "qwen3":
                self.vector("cls.output.bias", self.labels, 0.0)
        if self.middle:
            self.matrix("dense_2.weight", self.embd, self.middle)
            self.matrix("dense_3.weight", self.middle, self.embd)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def embeddings(path, ids, pooling):
    """Rows of llama.cpp for one text."""
    model = llama.Model(path, vocab_only=False)
    lib.llama_free(model.context)
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 64
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = lib.GGML_TYPE_F16
    params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.swa_full = True
    params.embeddings = True
    params.pooling_type = POOLINGS[pooling]
    model.context = lib.llama_init_from_model(model.model, params)
    batch = lib.llama_batch_init(len(ids), 0, 1)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    batch.n_tokens = len(ids)
    assert lib.llama_decode(model.context, batch) == 0
    n = lib.llama_model_n_embd(model.model)
    if pooling == "none":
        rows = [np.ctypeslib.as_array(lib.llama_get_embeddings_ith(model.context, i), (n,)).copy() for i in range(len(ids))]
    else:
        n = lib.llama_model_n_cls_out(model.model) if pooling == "rank" else n
        rows = [np.ctypeslib.as_array(lib.llama_get_embeddings_seq(model.context, 0), (n,)).copy()]
    lib.llama_batch_free(batch)
    model.close()
    return rows


def pair_score(path, ids, types):
    """The score of a pair by NumPy in float64: llama.cpp gives every token the type 0. GELU by tanh."""
    w = {t.name: np.array(t.data, np.float64) for t in tiny.gguf.GGUFReader(path).tensors}

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    x = norm(w["token_embd.weight"][ids] + w["token_types.weight"][types] + w["position_embd.weight"][:len(ids)], "token_embd_norm")
    for i in range(2):
        p = f"blk.{i}."
        q, k, v = (linear(x, p + f"attn_{n}").reshape(len(ids), 2, 16).transpose(1, 0, 2) for n in "qkv")
        e = np.exp(q @ k.transpose(0, 2, 1) / 4.0)
        h = ((e / e.sum(axis=-1, keepdims=True)) @ v).transpose(1, 0, 2).reshape(len(ids), 32)
        x = norm(x + linear(h, p + "attn_output"), p + "attn_output_norm")
        h = linear(x, p + "ffn_up")
        h = 0.5 * h * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (h + 0.044715 * h ** 3)))
        x = norm(x + linear(h, p + "ffn_down"), p + "layer_output_norm")
    return float(np.squeeze(linear(np.tanh(linear(x[0], "cls")), "cls.output")))


def write_pairs(path):
    """[CLS] query [SEP] document [SEP] of letters, the document of type 1."""
    with open(path.with_name("pairs.txt"), "w", encoding="ascii") as out:
        print(f"# numpy {np.__version__}: query, document, score", file=out)
        for query, document in (("a", "b"), ("abc", "z"), ("x", "hello"), ("embed", "rank")):
            words = [[5 + ord(t[0]) - 97] + [31 + ord(c) - 97 for c in t[1:]] for t in (query, document)]
            ids = [2, *words[0], 3, *words[1], 3]
            types = [0] * (len(words[0]) + 2) + [1] * (len(words[1]) + 1)
            print(query, document, f"{pair_score(path, ids, types):.9g}", file=out)


def write_golden(m, folder):
    path, exact = folder / f"{m.name}.gguf", folder / "exact.gguf"
    m.write(path)
    m.write(exact, dequantized=True)
    ids = [int(i) for i in np.random.default_rng(m.seed + 1000).integers(5, m.vocab, N)]
    with open(folder / f"{m.name}.txt", "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        print("ids", *ids, file=out)
        for pooling in POOLINGS:
            if pooling == "rank" and not m.labels:
                continue
            for source, file in (("llama", path), ("exact", exact)):
                for row in embeddings(file, ids, pooling):
                    print(source, pooling, *(f"{x:.9g}" for x in row), file=out)
    exact.unlink()
    if m.name == "bert-pair-f32":
        write_pairs(path)
    print(f"{m.name} {path.stat().st_size} bytes")


def models():
    small = dict(embd=32, ff=32, heads=2, heads_kv=2, vocab=64, layers=2)
    wide = dict(embd=64, ff=96, heads=4, heads_kv=4, vocab=64, layers=2)
    mix = tiny.MIX_32
    yield Embed("bert-f32", "bert", [Q.F32], seed=600, pooling="mean", bias=True, **small)
    yield Embed("bert-mix", "bert", mix, seed=601, pooling="cls", bias=True, **wide)
    yield Embed("bert-bare", "bert", [Q.F32], seed=602, pooling=None, **small | dict(heads=1, dim=32, heads_kv=1))
    yield Embed("bert-rank", "bert", [Q.F32], seed=603, pooling="rank", bias=True, cls=True, labels=1, token_types=1, **small)
    yield Embed("bert-pair-f32", "bert", [Q.F32], seed=605, pooling="rank", bias=True, cls=True, labels=1, **small)
    yield Embed("bert-rank-mix", "bert", mix, seed=604, pooling="rank", bias=True, labels=3, **wide)
    yield Embed("nomic-bert-f32", "nomic-bert", [Q.F32], seed=610, pooling="mean", keys={"rope.freq_base": ("float32", 1000.0)}, **small)
    yield Embed("nomic-bert-mix", "nomic-bert", mix, seed=611, pooling="mean", **wide)
    modern = {"attention.sliding_window": ("uint32", 8), "rope.freq_base": ("float32", 160000.0), "rope.freq_base_swa": ("float32", 10000.0)}
    yield Embed("modern-bert-f32", "modern-bert", [Q.F32], seed=620, pooling="mean", keys=modern, **small | dict(layers=4))
    yield Embed("modern-bert-mix", "modern-bert", mix, seed=621, pooling="cls", keys=modern, **wide | dict(layers=4))
    silu = modern | {"hidden_activation": ("string", "silu")}
    yield Embed("modern-bert-silu", "modern-bert", [Q.F32], seed=623, pooling="mean", keys=silu, **small)
    yield Embed("modern-bert-rank", "modern-bert", [Q.F32], seed=622, pooling="rank", cls=True, labels=1, keys=modern, **small)
    yield Embed("eurobert-f32", "eurobert", [Q.F32], seed=630, pooling="mean", **small)
    yield Embed("eurobert-mix", "eurobert", mix, seed=631, pooling="last", **wide | dict(heads_kv=2))
    gemma = dict(qk_norm=True, post_norm=True, keys={"attention.sliding_window": ("uint32", 9), "rope.freq_base": ("float32", 1e6),
                                                      "attention.sliding_window_pattern": ("uint32", 2)})
    yield Embed("gemma-embedding-f32", "gemma-embedding", [Q.F32], seed=640, pooling="mean", dense=48, **small | gemma)
    yield Embed("gemma-embedding-mix", "gemma-embedding", mix, seed=641, pooling="mean", **wide | gemma | dict(heads_kv=1))
    yield Embed("qwen3-embed-mix", "qwen3", mix, seed=650, pooling="last", qk_norm=True, **wide | dict(heads_kv=2))
    yield Embed("qwen3-rank-f32", "qwen3", [Q.F32], seed=651, pooling="rank", qk_norm=True, labels=2, **small | dict(heads_kv=1))
    yield Embed("llama-embed-f32", "llama", [Q.F32], seed=660, pooling="last", **small | dict(heads_kv=1))
    yield Embed("llama-both-f32", "llama", [Q.F32], seed=661, pooling="mean", keys={"attention.causal": ("bool", False)}, **small)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for m in models():
        if len(sys.argv) < 3 or m.name in sys.argv[2:]:
            write_golden(m, target)
