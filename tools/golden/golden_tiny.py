#!/usr/bin/env python3
"""Tiny models of random weights, one for each family and weight type, with their logits by llama.cpp.

    tools/golden/golden_tiny.py OUT_DIRECTORY [NAME...]
    tools/golden/golden_tiny.py tests/fuzz/corpus/gguf --seeds

NAME.gguf is the model. NAME.txt has N_PROMPT + N_DECODE token ids, then the logits after each: the first N_PROMPT are run as
one batch, the others one by one. "logits" are those of the model, "exact" those of the same weights dequantised to f32, for
which llama.cpp does not quantise activations. --seeds writes small models for fuzzing, without logits."""
import ctypes
import pathlib
import re
import sys

import gguf
import llama
import llama_cpp
import new_types
import numpy as np
from gguf import GGMLQuantizationType as Q

N_PROMPT, N_DECODE = 20, 4
MIX_32 = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.F16, Q.BF16]
MIX_K = [Q.Q4_K, Q.Q5_K, Q.Q6_K]
GRANITE = {"embedding_scale": ("float32", 3.0), "residual_scale": ("float32", 0.5), "logit_scale": ("float32", 2.0),
           "attention.scale": ("float32", 0.2)}


# Families by what their layers have.
NORM_BIASES = ("starcoder2", "nemotron", "stablelm", "gpt2", "starcoder")
LAYER_NORM = (*NORM_BIASES, "cohere2", "command-r")
UNGATED = ("starcoder2", "nemotron", "gpt2", "starcoder", "arcee", "apertus")
POSITIONS = ("gpt2", "starcoder")


def weight_types():
    """ggml's numbers of the types in RP_DTYPES (include/reprise/tensor.h) that weights may have, without f32."""
    header = (pathlib.Path(__file__).resolve().parents[2] / "include/reprise/tensor.h").read_text()
    table = re.search(r"#define RP_DTYPES\(X\)(.*?[^\\])\n", header, re.S)[1]
    return [Q(int(gguf_type)) for name, gguf_type in re.findall(r"X\((\w+), .*, (\d+)\)", table) if name not in ("F32", "I32")]


ggml = None
for _name in ("libggml-base.so", "libggml.so"):
    for _path in pathlib.Path(llama_cpp.__file__).parent.rglob(_name):
        ggml = ggml or ctypes.CDLL(str(_path))
ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
ggml.ggml_quantize_requires_imatrix.restype = ctypes.c_bool


def quantize(data, qtype):
    """Quantises rows of f32 to blocks by ggml's code; where it needs an importance matrix, all weights are as important."""
    data = np.ascontiguousarray(data, np.float32)
    if qtype == Q.F32:
        return data
    if qtype in (Q.F16, Q.BF16):
        return gguf.quants.quantize(data, qtype)
    rows, n = data.shape
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    out = np.zeros((rows, n // block * size), np.uint8)
    ggml.ggml_quantize_chunk(ctypes.c_int(int(qtype)), data.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                             ctypes.c_int64(0), ctypes.c_int64(rows), ctypes.c_int64(n),
                             np.ones(n, np.float32).ctypes.data_as(ctypes.c_void_p)
                             if ggml.ggml_quantize_requires_imatrix(ctypes.c_int(int(qtype))) else ctypes.c_void_p(0))
    return out


class Tiny:
    """One model: shape, weight types (matrices take them in turn) and seed. `keys` is further metadata {key: (kind, value)}, under
    the architecture's prefix; `mla` has ranks and head sizes of latent attention (deepseek2). With `delta` the model has gated
    delta nets, and a full layer after each `interval` - 1 of them; with "old" each has one input matrix. The last `nextn` layers
    predict further tokens. Layers whose element of `heads_kv` is 0 are recurrent: they have short convolutions with `taps` taps
    (lfm2), or selective scans of `ssm`. `latent` is the width of the experts. With `joined_experts` gate and up of all experts
    are one tensor; with `ff_bias` the dense feed-forward has biases. There are `shared_counted` shared experts of `ff_shared`
    each. `context` is the length of training; with
    `parallel` attention and feed-forward read one norm. With `scales` matrices of layers have a number by which products are multiplied, and one for activations; those of
    experts have one number for each expert."""

    def __init__(self, name, arch, types, *, seed, embd=64, layers=2, heads=4, heads_kv=2, dim=16, ff=64, vocab=64, tied=False,
                 bias=False, qk_norm=False, keys=None, rope_factors=False, post_norm=False, experts=0, used=0, ff_expert=0,
                 ff_shared=0, dense=0, mla=None, choice_bias=False, expert_types=None,
                 keys_theirs=None, nextn=0, rope_long=False, layer_embd=0, delta=None, joined=False, taps=0, ssm=None,
                 latent=0, scales=False, joined_experts=False, ff_bias=False, shared_counted=1,
                 context=512, parallel=False):
        self.__dict__.update(locals())

    def next_type(self, n):
        qtype = self.types[self.n_matrices % len(self.types)]
        self.n_matrices += 1
        return qtype if n % gguf.GGML_QUANT_SIZES[qtype][0] == 0 else Q.F32

    def matrix(self, name, n, rows, scale=1.0, of=1, qtype=None):
        """Adds one tensor of `of` random matrices: of > 1 for one matrix per expert or head."""
        data = self.rng.standard_normal((of * rows, n)).astype(np.float32) * scale / np.sqrt(n)
        qtype = self.next_type(n) if qtype is None else qtype
        blocks = quantize(data, qtype)
        has_scales = self.scales and name.startswith("blk.") and "ffn_gate_inp" not in name
        numbers = np.array([0.7 + 0.2 * ((self.n_matrices + i) % 3) for i in range(of)], np.float32)
        if self.dequantized:
            blocks, qtype = new_types.dequantize(blocks, qtype).astype(np.float32), Q.F32
            if has_scales:
                blocks = blocks * np.repeat(numbers, rows)[:, None]
        elif has_scales:
            self.writer.add_tensor(name.replace(".weight", ".scale"), numbers)
            self.writer.add_tensor(name.replace(".weight", ".input_scale"), numbers / 8)
        if of > 1:
            blocks = blocks.reshape(of, rows, -1)
        self.writer.add_tensor(name, blocks, raw_dtype=qtype)

    def expert_type(self, n):
        if self.expert_types is None:
            return self.next_type(n)
        self.n_matrices += 1
        return self.expert_types[self.n_matrices % len(self.expert_types)]

    def vector(self, name, n, mean, spread=0.2):
        self.writer.add_tensor(name, (mean + spread * self.rng.standard_normal(n)).astype(np.float32))

    def metadata(self):
        w = self.writer
        w.add_context_length(self.context)
        w.add_embedding_length(self.embd)
        w.add_block_count(self.layers)
        w.add_feed_forward_length(self.ff)
        w.add_head_count(self.heads)
        w.add_head_count_kv(self.heads_kv)
        if self.mla:
            head = self.mla["nope"] + self.mla["rope"]
            if self.mla.get("joined"):
                w.add_key_length(head)
                w.add_value_length(self.mla["value"])
            else:
                w.add_key_length(self.mla["kv"] + self.mla["rope"])
                w.add_value_length(self.mla["kv"])
                w.add_key_length_mla(head)
                w.add_value_length_mla(self.mla["value"])
            w.add_kv_lora_rank(self.mla["kv"])
            w.add_rope_dimension_count(self.mla["rope"])
            if self.mla["q"]:
                w.add_q_lora_rank(self.mla["q"])
        else:
            w.add_key_length(self.dim)
            w.add_value_length(self.dim)
        if self.experts:
            w.add_expert_count(self.experts)
            w.add_expert_used_count(self.used)
            if self.arch not in ("llama", "mistral3", "olmoe", "granitemoe", "granitehybrid"):
                w.add_expert_feed_forward_length(self.ff_expert)
            if self.dense:
                w.add_leading_dense_block_count(self.dense)
            if self.ff_shared and self.arch in ("deepseek", "deepseek2", "mistral4", "glm4moe", "dots1", "afmoe"):
                w.add_expert_shared_count(self.ff_shared // self.ff_expert)
            elif self.ff_shared:
                w.add_expert_shared_feed_forward_length(self.ff_shared)
        if self.nextn:
            w.add_uint32(f"{self.arch}.nextn_predict_layers", self.nextn)
        if self.delta:
            self.delta_metadata()
        if self.taps:
            w.add_shortconv_l_cache(self.taps)
        if self.ssm:
            w.add_ssm_conv_kernel(self.ssm["taps"])
            w.add_ssm_state_size(self.ssm["state"])
            w.add_ssm_group_count(self.ssm["groups"])
            w.add_ssm_time_step_rank(self.ssm["heads"])
            w.add_ssm_inner_size(self.ssm["inner"])
        if self.latent:
            w.add_uint32(f"{self.arch}.moe_latent_size", self.latent)
        if self.arch.startswith("nemotron_h") or self.arch in LAYER_NORM:
            w.add_layer_norm_eps(1e-5)
        w.add_layer_norm_rms_eps(1e-5)
        for key, (kind, value) in ((self.keys_theirs if self.theirs and self.keys_theirs else self.keys) or {}).items():
            getattr(w, f"add_{kind}")(key if key.startswith("xielu.") else f"{self.arch}.{key}", value)

    def delta_metadata(self):
        w, d = self.writer, self.delta
        w.add_ssm_conv_kernel(d["taps"])
        w.add_ssm_state_size(d["dim"])
        w.add_ssm_group_count(d["keys"])
        w.add_ssm_time_step_rank(d["heads"])
        w.add_ssm_inner_size(d["dim"] * d["heads"])
        w.add_rope_dimension_count(d["rope"])
        if "sections" in d:
            w.add_rope_dimension_sections(d["sections"])
        if "interval" in d:
            w.add_uint32(f"{self.arch}.full_attention_interval", d["interval"])

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

    def short_convolution(self, p):
        self.matrix(p + "shortconv.in_proj.weight", self.embd, 3 * self.embd)
        self.matrix(p + "shortconv.conv.weight", self.taps, self.embd, qtype=Q.F32)
        self.matrix(p + "shortconv.out_proj.weight", self.embd, self.embd)

    def selective_scan(self, p):
        s = self.ssm
        channels = s["inner"] + 2 * s["groups"] * s["state"]
        self.matrix(p + "ssm_in.weight", self.embd, s["inner"] + channels + s["heads"])
        self.matrix(p + "ssm_conv1d.weight", s["taps"], channels, qtype=Q.F32)
        self.vector(p + "ssm_conv1d.bias", channels, 0.0)
        self.vector(p + "ssm_dt.bias", s["heads"], 0.0, 1.0)
        self.writer.add_tensor(p + "ssm_a", (-np.exp(0.5 * self.rng.standard_normal((s["heads"], 1)))).astype(np.float32))
        self.writer.add_tensor(p + "ssm_d", (1.0 + 0.2 * self.rng.standard_normal((s["heads"], 1))).astype(np.float32))
        if s.get("norm", True):
            weight = 1.0 + 0.2 * self.rng.standard_normal((s["groups"], s["inner"] // s["groups"]))
            self.writer.add_tensor(p + "ssm_norm.weight", weight.astype(np.float32))
        self.matrix(p + "ssm_out.weight", s["inner"], self.embd)

    def nemotron_layer(self, i):
        """A layer is attention, a selective scan or a feed-forward without a gate."""
        p = f"blk.{i}."
        self.vector(p + "attn_norm.weight", self.embd, 1.0)
        if self.ff[i] == 0:
            return self.selective_scan(p) if self.is_recurrent(i) else self.plain_attention(p, i)
        if self.experts:
            return self.expert_feed_forward(p)
        self.matrix(p + "ffn_up.weight", self.embd, self.ff[i])
        self.matrix(p + "ffn_down.weight", self.ff[i], self.embd)

    def is_recurrent(self, i):
        return isinstance(self.heads_kv, list) and self.heads_kv[i] == 0

    def plain_attention(self, p, i):
        heads_kv = self.heads_kv[i] if isinstance(self.heads_kv, list) else self.heads_kv
        q, kv = self.heads * self.dim, heads_kv * self.dim
        wide = 2 * q if self.delta else q
        for name, rows in (("qkv", wide + 2 * kv),) if self.arch == "phi3" or self.joined else (("q", wide), ("k", kv), ("v", kv)):
            self.matrix(p + f"attn_{name}.weight", self.embd, rows)
            if self.bias:
                self.vector(p + f"attn_{name}.bias", rows, 0.0)
        if self.qk_norm:
            whole = self.arch in ("olmoe", "olmo2", "minimax-m2")
            for name, rows in (("q", q), ("k", kv)):
                if self.arch in ("command-r", "stablelm"):  # weights for each head
                    weight = 1.0 + 0.2 * self.rng.standard_normal((rows // self.dim, self.dim))
                    self.writer.add_tensor(p + f"attn_{name}_norm.weight", weight.astype(np.float32))
                else:
                    self.vector(p + f"attn_{name}_norm.weight", rows if whole else self.dim, 1.0)
        if self.arch == "gpt-oss":
            self.vector(p + "attn_sinks.weight", self.heads, 0.5, 1.0)
        if self.arch == "gpt-oss" or (self.arch in NORM_BIASES and self.bias and self.arch != "stablelm"):
            self.vector(p + "attn_output.bias", self.embd, 0.0)
        if self.arch in ("afmoe", "muse-glimmer"):
            self.matrix(p + "attn_gate.weight", self.embd, q)
        self.matrix(p + "attn_output.weight", q, self.embd)

    def delta_net(self, p):
        d = self.delta
        values = d["dim"] * d["heads"]
        channels = values + 2 * d["dim"] * d["keys"]
        if d.get("old"):
            self.matrix(p + "ssm_in.weight", self.embd, channels + values)
        else:
            self.matrix(p + "attn_qkv.weight", self.embd, channels)
            self.matrix(p + "attn_gate.weight", self.embd, values)
        self.matrix(p + "ssm_conv1d.weight", d["taps"], channels, qtype=Q.F32)
        self.vector(p + "ssm_dt.bias", d["heads"], 0.0, 1.0)
        self.writer.add_tensor(p + "ssm_a", (-np.exp(0.5 * self.rng.standard_normal(d["heads"]))).astype(np.float32))
        if self.arch == "qwen3next":
            self.matrix(p + "ssm_ba.weight", self.embd, 2 * d["heads"])
        else:
            self.matrix(p + "ssm_beta.weight", self.embd, d["heads"])
            self.matrix(p + "ssm_alpha.weight", self.embd, d["heads"])
        self.vector(p + "ssm_norm.weight", d["dim"], 1.0)
        self.matrix(p + "ssm_out.weight", values, self.embd)

    def is_delta_net(self, i):
        return self.delta and i < self.layers - self.nextn and (i + 1) % self.delta.get("interval", 4) != 0

    def latent_attention(self, p):
        m = self.mla
        rows = self.heads * (m["nope"] + m["rope"])
        if m["q"]:
            self.matrix(p + "attn_q_a.weight", self.embd, m["q"])
            self.vector(p + "attn_q_a_norm.weight", m["q"], 1.0)
            self.matrix(p + "attn_q_b.weight", m["q"], rows)
        else:
            self.matrix(p + "attn_q.weight", self.embd, rows)
        self.matrix(p + "attn_kv_a_mqa.weight", self.embd, m["kv"] + m["rope"])
        self.vector(p + "attn_kv_a_norm.weight", m["kv"], 1.0)
        if m.get("joined"):
            self.matrix(p + "attn_kv_b.weight", m["kv"], self.heads * (m["nope"] + m["value"]))
        else:
            self.matrix(p + "attn_k_b.weight", m["nope"], m["kv"], of=self.heads)
            self.matrix(p + "attn_v_b.weight", m["kv"], m["value"], of=self.heads)
        self.matrix(p + "attn_output.weight", self.heads * m["value"], self.embd)

    def expert_feed_forward(self, p):
        self.matrix(p + "ffn_gate_inp.weight", self.embd, self.experts, scale=2.0, qtype=Q.F32)
        if self.choice_bias:
            self.vector(p + "exp_probs_b.bias", self.experts, 0.0)
        embd, gated = self.latent or self.embd, not self.arch.startswith("nemotron_h")
        if self.latent:
            self.matrix(p + "ffn_latent_down.weight", self.embd, self.latent)
            self.matrix(p + "ffn_latent_up.weight", self.latent, self.embd)
        first = (("gate_up", 2 * self.ff_expert),) if self.joined_experts else (("gate", self.ff_expert), ("up", self.ff_expert))
        for name, n, rows in [(name, embd, rows) for name, rows in first] + [("down", self.ff_expert, embd)]:
            if name == "gate" and not gated:
                continue
            self.matrix(p + f"ffn_{name}_exps.weight", n, rows, of=self.experts, qtype=self.expert_type(n))
            if self.arch == "gpt-oss":
                bias = 0.2 * self.rng.standard_normal((self.experts, rows))
                self.writer.add_tensor(p + f"ffn_{name}_exps.bias", bias.astype(np.float32))
        if self.arch == "gpt-oss":
            self.vector(p + "ffn_gate_inp.bias", self.experts, 0.0)
        if self.arch in ("qwen2moe", "qwen3next", "qwen35moe"):
            self.vector(p + "ffn_gate_inp_shexp.weight", self.embd, 0.0)
        if self.ff_shared:
            ff = self.ff_shared * self.shared_counted
            if gated:
                self.matrix(p + "ffn_gate_shexp.weight", self.embd, ff)
            self.matrix(p + "ffn_up_shexp.weight", self.embd, ff)
            self.matrix(p + "ffn_down_shexp.weight", ff, self.embd)

    def gemma4_layer(self, i):
        """Layers with a window have heads of 16 elements. Odd layers attend to all positions, with heads of 32; the first of
        them has no values. Without experts the last two have no keys and values."""
        p, dim = f"blk.{i}.", (16, 32)[i % 2]
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            self.vector(p + name + ".weight", self.embd, 1.0)
        self.matrix(p + "attn_q.weight", self.embd, self.heads * dim)
        self.vector(p + "attn_q_norm.weight", dim, dim ** -0.5, 0.04)  # in place of the scale of scores
        if self.experts or i < self.layers - 2:
            for name in "k" if i == 1 else "kv":
                self.matrix(p + f"attn_{name}.weight", self.embd, self.heads_kv[i] * dim)
            self.vector(p + "attn_k_norm.weight", dim, 1.0)
        self.matrix(p + "attn_output.weight", self.heads * dim, self.embd)
        for name, n, rows in (("gate", self.embd, self.ff[i]), ("up", self.embd, self.ff[i]), ("down", self.ff[i], self.embd)):
            self.matrix(p + f"ffn_{name}.weight", n, rows)
        if self.experts:
            self.vector(p + "ffn_gate_inp.scale", self.embd, 1.0)
            for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
                self.vector(p + name + ".weight", self.embd, 1.0)
            self.expert_feed_forward(p)
            if i % 2 == 0:
                self.vector(p + "ffn_down_exps.scale", self.experts, 1.0)
        self.vector(p + "layer_output_scale.weight", 1, 0.8)
        if self.layer_embd:
            self.matrix(p + "inp_gate.weight", self.embd, self.layer_embd)
            self.matrix(p + "proj.weight", self.layer_embd, self.embd)
            self.vector(p + "post_norm.weight", self.embd, 1.0)

    def layer(self, i):
        if self.arch == "gemma4":
            return self.gemma4_layer(i)
        if self.arch.startswith("nemotron_h"):
            return self.nemotron_layer(i)
        p = f"blk.{i}."
        if self.arch not in ("olmo2", "exaone4"):
            self.vector(p + "attn_norm.weight", self.embd, 1.0)
        if self.arch in NORM_BIASES:
            self.vector(p + "attn_norm.bias", self.embd, 0.0)
            if not self.parallel:
                self.vector(p + "ffn_norm.bias", self.embd, 0.0)
        if self.mla:
            self.latent_attention(p)
        elif self.is_delta_net(i):
            self.delta_net(p)
        elif self.is_recurrent(i):
            self.selective_scan(p) if self.ssm else self.short_convolution(p)
        else:
            self.plain_attention(p, i)
        if self.arch == "falcon-h1":
            self.selective_scan(p)
        if self.arch not in ("olmo2", "exaone4", "cohere2", "command-r") and not self.parallel:
            is_post = self.arch in ("gpt-oss", "glm4moe", "seed_oss") or self.delta
            name = "post_attention_norm.weight" if is_post else "ffn_norm" if self.arch == "falcon-h1" else "ffn_norm.weight"
            self.vector(p + name, self.embd, 1.0)
        if self.experts and i >= self.dense:
            self.expert_feed_forward(p)
        elif self.arch in ("phi3", "glm4"):
            self.matrix(p + "ffn_up.weight", self.embd, 2 * self.ff)
            self.matrix(p + "ffn_down.weight", self.ff, self.embd)
        else:
            gated = self.arch not in UNGATED
            if gated:
                self.matrix(p + "ffn_gate.weight", self.embd, self.ff)
            self.matrix(p + "ffn_up.weight", self.embd, self.ff)
            self.matrix(p + "ffn_down.weight", self.ff, self.embd)
            if self.ff_bias:
                if gated:
                    self.vector(p + "ffn_gate.bias", self.ff, 0.0)
                self.vector(p + "ffn_up.bias", self.ff, 0.0)
                self.vector(p + "ffn_down.bias", self.embd, 0.0)
        if self.post_norm:
            self.vector(p + "post_attention_norm.weight", self.embd, 1.0)
            self.vector(p + "post_ffw_norm.weight", self.embd, 1.0)
        if i >= self.layers - self.nextn:
            if self.arch == "bailingmoe2":
                self.vector(p + "layer_output_norm.weight", self.embd, 1.0)
            self.matrix(p + "nextn.eh_proj.weight", 2 * self.embd, self.embd)
            for name in ("enorm", "hnorm", "shared_head_norm"):
                self.vector(p + f"nextn.{name}.weight", self.embd, 1.0)

    def write(self, path, dequantized=False, theirs=False):
        """`dequantized`: all weights as f32. `theirs`: with llama.cpp's metadata keys where they differ from Reprise's."""
        self.dequantized, self.theirs = dequantized, theirs
        self.rng = np.random.default_rng(self.seed)
        self.n_matrices = 0
        self.writer = gguf.GGUFWriter(str(path), self.arch)
        self.metadata()
        self.vocabulary()
        self.matrix("token_embd.weight", self.embd, self.vocab, scale=3.0 if self.tied else 8.0)
        if self.layer_embd:
            self.matrix("per_layer_token_embd.weight", self.layer_embd * self.layers, self.vocab, scale=8.0)
            self.matrix("per_layer_model_proj.weight", self.embd, self.layer_embd * self.layers)
            self.vector("per_layer_proj_norm.weight", self.layer_embd, 1.0)
        if self.arch in POSITIONS:
            self.matrix("position_embd.weight", self.embd, self.context, scale=2.0, qtype=Q.F32)
        for i in range(self.layers):
            self.layer(i)
        if self.arch in NORM_BIASES:
            self.vector("output_norm.bias", self.embd, 0.0)
        self.vector("token_embd_norm.weight" if self.taps else "output_norm.weight", self.embd, 1.0)
        if not self.tied:
            self.matrix("output.weight", self.embd, self.vocab, scale=2.0)
        if self.rope_factors:
            self.writer.add_tensor("rope_freqs.weight", np.linspace(1.0, 8.0, self.dim // 2, dtype=np.float32))
        if self.rope_long:
            for name, most in (("long", 16.0), ("short", 2.0)):
                factors = np.linspace(1.0, most, self.dim // 2, dtype=np.float32)
                self.writer.add_tensor(f"rope_factors_{name}.weight", factors)
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
    path, dequantized = folder / f"{tiny.name}.gguf", folder / "dequantized.gguf"
    tiny.write(path)
    tiny.write(dequantized, dequantized=True, theirs=True)
    same = folder / "theirs.gguf"
    tiny.write(same, theirs=True)
    ids = [int(i) for i in np.random.default_rng(tiny.seed + 1000).integers(3, tiny.vocab, N_PROMPT + N_DECODE)]
    with open(folder / f"{tiny.name}.txt", "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        print("ids", *ids, file=out)
        logits_of(same, ids, "logits", out)
        logits_of(dequantized, ids, "exact", out)
    dequantized.unlink()
    same.unlink()
    print(f"{tiny.name} {path.stat().st_size} bytes")


def models():
    gemma = {"attention.sliding_window": ("uint32", 8), "rope.freq_base": ("float32", 1e6)}
    yarn = {"rope.scaling.type": ("string", "yarn"), "rope.scaling.factor": ("float32", 4.0),
            "rope.scaling.original_context_length": ("uint32", 128)}
    wide = dict(embd=256, layers=1, heads=16, heads_kv=1, dim=16, ff=256, tied=True)
    yield Tiny("llama-f32", "llama", [Q.F32], seed=1)
    for i, q in enumerate(MIX_32 + MIX_K):
        yield Tiny(f"llama-{q.name.lower()}", "llama", [q], seed=10 + i, **(wide if q in MIX_K else {}))
    for q in weight_types():
        if q not in MIX_32 + MIX_K:
            yield Tiny(f"llama-{q.name.lower()}", "llama", [q], seed=200 + q,
                       **(wide if gguf.GGML_QUANT_SIZES[q][0] > 32 else {}))
    yield Tiny("llama-nvfp4-scaled", "llama", [Q.NVFP4], seed=29, scales=True, **{**wide, "layers": 2})
    yield Tiny("llama-mix", "llama", MIX_32, seed=30, tied=True)
    yield Tiny("llama-mix-k", "llama", MIX_K + [Q.Q8_0], seed=31, **wide)
    yield Tiny("llama-bias-mha-linear", "llama", [Q.F32], seed=32, bias=True, heads_kv=4,
               keys={"rope.scaling.type": ("string", "linear"), "rope.scaling.factor": ("float32", 2.0)})
    yield Tiny("llama-ff-bias", "llama", [Q.F32], seed=37, bias=True, ff_bias=True, tied=True, embd=32, ff=32, heads=2)
    yield Tiny("llama-factors", "llama", [Q.F32], seed=33, rope_factors=True, keys={"rope.freq_base": ("float32", 5e5)})
    yield Tiny("llama-yarn", "llama", [Q.F32], seed=35, keys=yarn)
    # llama.cpp has no key for NTK scaling: its file has the scaled base
    yield Tiny("llama-ntk", "llama", [Q.F32], seed=36,
               keys={"rope.scaling.type": ("string", "ntk"), "rope.scaling.alpha": ("float32", 8.0)},
               keys_theirs={"rope.freq_base": ("float32", 10000.0 * 8.0 ** (16 / 14))})
    yield Tiny("qwen2-f32", "qwen2", [Q.F32], seed=40, bias=True)
    yield Tiny("qwen2-mix", "qwen2", MIX_32, seed=41, bias=True, tied=True, heads_kv=1)
    yield Tiny("qwen2-mix-k", "qwen2", MIX_K, seed=42, bias=True, **wide)
    yield Tiny("qwen2-yarn", "qwen2", [Q.F16], seed=43, bias=True, keys=yarn)
    yield Tiny("qwen3-f32", "qwen3", [Q.F32], seed=50, qk_norm=True, heads=2, heads_kv=1, dim=32)
    yield Tiny("qwen3-mix", "qwen3", MIX_32, seed=51, qk_norm=True, tied=True)
    yield Tiny("qwen3-mix-k", "qwen3", MIX_K, seed=52, qk_norm=True, **wide)
    # M-RoPE: sections in order, or in turns that reach all pairs
    yield Tiny("qwen2vl-f32", "qwen2vl", [Q.F32], seed=44, bias=True, embd=32, ff=32, heads=2, keys={
        "rope.dimension_sections": ("array", [2, 3, 3, 0]), "rope.freq_base": ("float32", 1e6)})
    yield Tiny("qwen2vl-mix", "qwen2vl", MIX_32, seed=45, bias=True, tied=True, keys={
        "rope.dimension_sections": ("array", [3, 3, 2, 0])})
    vl = {"n_deepstack_layers": ("uint32", 2), "rope.dimension_sections": ("array", [3, 3, 2, 0])}
    yield Tiny("qwen3vl-f32", "qwen3vl", [Q.F32], seed=53, qk_norm=True, embd=32, ff=32, heads=2, keys=vl)
    yield Tiny("qwen3vl-mix", "qwen3vl", MIX_32, seed=54, qk_norm=True, tied=True, keys=vl | {"rope.freq_base": ("float32", 5e6)})
    local = dict(qk_norm=True, post_norm=True, tied=True, layers=7, embd=32, ff=32, keys=gemma)
    yield Tiny("gemma3-f32", "gemma3", [Q.F32], seed=60, **local)
    yield Tiny("gemma3-mix", "gemma3", MIX_32, seed=61, **local)
    yield Tiny("gemma3-mix-k", "gemma3", MIX_K, seed=62, qk_norm=True, post_norm=True, keys=gemma, **wide)
    # the file says which layers have a window
    yield Tiny("gemma3-pattern", "gemma3", [Q.F32], seed=63, **local | dict(layers=5, keys=gemma | {
        "attention.sliding_window_pattern": ("array", [True, False, False, True, True])}))
    yield Tiny("granite-mix", "granite", MIX_32, seed=80, keys=GRANITE)
    yield Tiny("granite-nope", "granite", [Q.F32], seed=81, embd=32, ff=32, tied=True,
               keys=GRANITE | {"rope.scaling.finetuned": ("bool", False)})
    # RoPE in all layers but each fourth
    yield Tiny("smollm3-f32", "smollm3", [Q.F32], seed=70, tied=True, layers=5, embd=32, ff=32)
    yield Tiny("smollm3-mix", "smollm3", MIX_32, seed=71, layers=4)
    # norms of results only; with a window these are models of OLMo 3
    olmo2 = dict(qk_norm=True, post_norm=True)
    yield Tiny("olmo2-f32", "olmo2", [Q.F32], seed=300, **olmo2 | dict(embd=32, ff=32, heads=2))
    yield Tiny("olmo2-mix", "olmo2", MIX_32, seed=301, **olmo2)
    olmo3 = {"attention.sliding_window": ("uint32", 8), "rope.scaling.type": ("string", "yarn"),
             "rope.scaling.factor": ("float32", 8.0), "rope.scaling.original_context_length": ("uint32", 64)}
    yield Tiny("olmo3-f32", "olmo2", [Q.F32], seed=302, keys=olmo3, **olmo2 | dict(embd=32, ff=32, heads=2, layers=5))
    yield Tiny("olmo3-mix", "olmo2", MIX_32, seed=303, keys=olmo3, **olmo2 | dict(layers=4))
    # the temperature of attention grows each 8 positions
    ministral = {"rope.scaling.type": ("string", "yarn"), "rope.scaling.factor": ("float32", 16.0),
                 "rope.scaling.original_context_length": ("uint32", 8), "rope.scaling.yarn_log_multiplier": ("float32", 1.0),
                 "rope.scaling.yarn_beta_fast": ("float32", 4.0), "attention.temperature_scale": ("float32", 0.5)}
    yield Tiny("mistral3-f32", "mistral3", [Q.F32], seed=310, embd=32, ff=32, heads=2, tied=True)
    yield Tiny("mistral3-mix", "mistral3", MIX_32, seed=311)
    yield Tiny("ministral-f32", "mistral3", [Q.F32], seed=312, keys=ministral, embd=32, ff=32, heads=2)
    yield Tiny("ministral-mix", "mistral3", MIX_32, seed=313, keys=ministral, tied=True)
    # queries, keys and values in one tensor, gate and up in another; factors for long and for short contexts
    phi3 = {"rope.scaling.original_context_length": ("uint32", 32), "rope.scaling.attn_factor": ("float32", 1.2)}
    yield Tiny("phi3-f32", "phi3", [Q.F32], seed=320, embd=32, ff=32, heads=2, heads_kv=2)
    yield Tiny("phi3-mix", "phi3", MIX_32, seed=321, tied=True)
    yield Tiny("phi3-long", "phi3", [Q.F32], seed=322, keys=phi3, rope_long=True, embd=32, ff=32, heads=2, heads_kv=1)
    yield Tiny("phi3-short", "phi3", [Q.Q8_0], seed=323, rope_long=True, keys=phi3 | {
        "rope.scaling.original_context_length": ("uint32", 512), "rope.scaling.type": ("string", "longrope")})
    # half of a head is rotated
    glm4 = {"rope.dimension_count": ("uint32", 8), "rope.freq_base": ("float32", 1e6)}
    yield Tiny("glm4-f32", "glm4", [Q.F32], seed=330, keys=glm4, post_norm=True, embd=32, ff=32, heads=2)
    yield Tiny("glm4-mix", "glm4", MIX_32, seed=331, keys=glm4, post_norm=True, bias=True)
    yield Tiny("glm4-sections", "glm4", [Q.F32], seed=332, post_norm=True, embd=32, ff=32, heads=2, keys=glm4 | {
        "rope.dimension_sections": ("array", [2, 1, 1, 0])})
    yield Tiny("gemma-f32", "gemma", [Q.F32], seed=345, tied=True, embd=32, ff=32)
    yield Tiny("gemma-mix", "gemma", MIX_32, seed=346, tied=True)
    gemma2 = {"attention.sliding_window": ("uint32", 8), "attn_logit_softcapping": ("float32", 4.0),
              "final_logit_softcapping": ("float32", 5.0)}
    yield Tiny("gemma2-f32", "gemma2", [Q.F32], seed=340, keys=gemma2, post_norm=True, tied=True, embd=32, ff=32, layers=3)
    yield Tiny("gemma2-mix", "gemma2", MIX_32, seed=341, keys=gemma2, post_norm=True, tied=True)
    gemma4 = dict(tied=True, layers=6, dim=32, heads_kv=[2, 1, 2, 1, 2, 1], rope_factors=True, keys={
        "attention.sliding_window": ("uint32", 8), "attention.sliding_window_pattern": ("array", [True, False] * 3),
        "attention.shared_kv_layers": ("uint32", 2), "attention.key_length_swa": ("uint32", 16),
        "attention.value_length_swa": ("uint32", 16), "rope.dimension_count_swa": ("uint32", 16),
        "rope.dimension_count": ("uint32", 32), "rope.freq_base": ("float32", 1e6), "rope.freq_base_swa": ("float32", 1e4),
        "final_logit_softcapping": ("float32", 5.0)})
    for name, types, embd, layer_embd in (("f32", [Q.F32], 64, 32), ("mix", MIX_32, 64, 32), ("plain", [Q.F32], 32, 0)):
        embeddings = {"embedding_length_per_layer_input": ("uint32", layer_embd)}
        yield Tiny(f"gemma4-{name}", "gemma4", types, seed=390 + len(name) + layer_embd, embd=embd, layer_embd=layer_embd,
                   ff=[32] * 4 + [64] * 2, **gemma4 | dict(keys=gemma4["keys"] | embeddings))
    # experts beside the dense feed-forward, some with a scale each
    experts = dict(layers=3, heads=2, heads_kv=[2, 1, 2], ff=[32] * 3, ff_expert=32, vocab=48, keys=gemma4["keys"] | {
        "attention.sliding_window_pattern": ("array", [True, False, True]), "attention.shared_kv_layers": ("uint32", 0),
        "embedding_length_per_layer_input": ("uint32", 0)})
    yield Tiny("gemma4-moe-f32", "gemma4", [Q.F32], seed=394, **gemma4 | experts | dict(embd=32, experts=4, used=2))
    yield Tiny("gemma4-moe-mix", "gemma4", MIX_32, seed=396, joined_experts=True, expert_types=MIX_32, **gemma4 | experts | dict(
        embd=64, experts=8, used=3))
    yield Tiny("ernie4_5-f32", "ernie4_5", [Q.F32], seed=350, embd=32, ff=32, heads=2, tied=True)
    yield Tiny("ernie4_5-mix", "ernie4_5", MIX_32, seed=351)
    yield Tiny("seed_oss-f32", "seed_oss", [Q.F32], seed=530, bias=True, embd=32, ff=32, heads=2, tied=True)
    yield Tiny("seed_oss-mix", "seed_oss", MIX_32, seed=531, bias=True)
    # norms of queries and keys behind RoPE
    yield Tiny("hunyuan-dense-f32", "hunyuan-dense", [Q.F32], seed=540, qk_norm=True, embd=32, ff=32, heads=2, tied=True)
    yield Tiny("hunyuan-dense-mix", "hunyuan-dense", MIX_32, seed=541, qk_norm=True, keys={
        "rope.scaling.alpha": ("float32", 8.0), "rope.scaling.type": ("string", "none")})
    # models with windows have no RoPE in the layers without one; in llama.cpp these have 64 layers
    exaone = dict(qk_norm=True, post_norm=True, embd=32, ff=32, heads=2)
    yield Tiny("exaone4-f32", "exaone4", [Q.F32], seed=550, rope_factors=True, tied=True, **exaone)
    yield Tiny("exaone4-mix", "exaone4", MIX_32, seed=551, **exaone | dict(embd=64, ff=64, heads=4))
    yield Tiny("exaone4-window", "exaone4", [Q.F16], seed=552, layers=64, keys={"attention.sliding_window": ("uint32", 8)},
               **exaone | dict(heads_kv=1, vocab=48))
    # attention and feed-forward read one norm
    cohere = {"attention.sliding_window": ("uint32", 8), "logit_scale": ("float32", 0.25), "rope.scaling.type": ("string", "none")}
    yield Tiny("cohere2-f32", "cohere2", [Q.F32], seed=560, tied=True, keys=cohere, embd=32, ff=32, heads=2, layers=5)
    yield Tiny("command-r-f32", "command-r", [Q.F32], seed=562, tied=True, keys={"logit_scale": ("float32", 0.25)}, embd=32, ff=32,
               heads=2)
    yield Tiny("command-r-mix", "command-r", MIX_32, seed=563, tied=True, keys={"logit_scale": ("float32", 0.5)})
    yield Tiny("cohere2-mix", "cohere2", MIX_32, seed=561, tied=True, layers=3, keys=cohere | {
        "attention.sliding_window_pattern": ("array", [True, False, True])})
    yield from expert_models()
    yield from delta_models()
    yield from short_convolution_models()
    yield from selective_scan_models()


def selective_scan_models():
    """Mamba-2 layers with attention between them or beside them; layers that are one half, with experts of another width."""
    scan = dict(taps=4, state=16, groups=1, heads=4, inner=64)
    groups = scan | dict(groups=2, state=8, inner=128)
    small = dict(heads=2, embd=32, ff=32, vocab=48, tied=True)
    wide = small | dict(embd=64)
    granite = small | dict(layers=3, heads_kv=[0, 1, 0])
    yield Tiny("granitehybrid-f32", "granitehybrid", [Q.F32], seed=420, ssm=scan, keys=GRANITE, **granite)
    yield Tiny("granitehybrid-mix", "granitehybrid", MIX_32, seed=421, ssm=groups, **granite | dict(embd=64),
               keys=GRANITE | {"rope.scaling.finetuned": ("bool", False)})
    yield Tiny("granitehybrid-moe", "granitehybrid", MIX_32, seed=422, ssm=groups, keys=GRANITE, experts=4, used=2, ff_expert=32,
               ff_shared=32, expert_types=MIX_32, **granite | dict(embd=64))
    nemotron = dict(layers=5, heads_kv=[0, 0, 1, 0, 0], tied=False)
    experts = dict(experts=4, used=2, ff_expert=32, ff_shared=64, choice_bias=True,
                   keys={"expert_weights_norm": ("bool", True), "expert_weights_scale": ("float32", 1.5)})
    yield Tiny("nemotron_h-f32", "nemotron_h", [Q.F32], seed=430, ssm=scan, **small | nemotron | dict(ff=[0, 32, 0, 0, 64]))
    yield Tiny("nemotron_h-mix", "nemotron_h", MIX_32, seed=431, ssm=groups, **wide | nemotron | dict(ff=[0, 32, 0, 0, 64]))
    yield Tiny("nemotron_h_moe-f32", "nemotron_h_moe", [Q.F32], seed=440, ssm=scan, **experts,
               **small | nemotron | dict(ff=[0, 32, 0, 0, 32]))
    yield Tiny("nemotron_h_moe-mix", "nemotron_h_moe", MIX_32, seed=443, ssm=groups, latent=32, expert_types=MIX_32, **experts,
               **wide | nemotron | dict(ff=[0, 32, 0, 0, 32]))
    yield Tiny("falcon-h1-f32", "falcon-h1", [Q.F32], seed=450, ssm=scan | dict(norm=False), **small | dict(heads_kv=1))
    yield Tiny("falcon-h1-mix", "falcon-h1", MIX_32, seed=451, ssm=groups, **wide | dict(heads_kv=1))


def short_convolution_models():
    """Short convolutions and attention in turns; with a window, and with experts after a dense layer."""
    lfm2 = dict(qk_norm=True, heads=2, heads_kv=[0, 1, 0], layers=3, taps=3, embd=32, ff=32, vocab=48, tied=True)
    experts = dict(experts=4, used=2, ff_expert=32, dense=1, choice_bias=True,
                   keys={"expert_gating_func": ("uint32", 2), "rope.freq_base": ("float32", 1e6)})
    yield Tiny("lfm2-f32", "lfm2", [Q.F32], seed=400, **lfm2)
    yield Tiny("lfm2-mix", "lfm2", MIX_32, seed=401, **lfm2 | dict(embd=64, heads=4, heads_kv=[0, 0, 2, 1], layers=4, taps=4))
    yield Tiny("lfm2-window", "lfm2", [Q.F32], seed=402, keys={"attention.sliding_window": ("uint32", 8)}, **lfm2)
    yield Tiny("lfm2moe-f32", "lfm2moe", [Q.F32], seed=410, **lfm2, **experts)
    yield Tiny("lfm2moe-mix", "lfm2moe", MIX_32, seed=413, expert_types=MIX_32, **experts | dict(experts=16, used=5, dense=2),
               **lfm2 | dict(embd=64, heads=4, heads_kv=[0, 2, 0]))


def delta_models():
    """Gated delta nets with one full layer of two, or of four; heads of values in groups, or tiled over the key heads."""
    small = dict(qk_norm=True, heads=2, heads_kv=1, embd=32, ff=32, vocab=48)
    net = dict(taps=4, dim=16, keys=2, heads=4, rope=8, interval=2)
    text = net | dict(sections=[2, 1, 1, 0])
    experts = dict(experts=4, used=2, ff_expert=32, ff_shared=32)
    yield Tiny("qwen35-f32", "qwen35", [Q.F32], seed=300, delta=text, **small)
    yield Tiny("qwen35-mix", "qwen35", MIX_32, seed=301, delta=text | dict(dim=32, keys=1, heads=3, interval=4), nextn=1,
               **small | dict(layers=5, embd=64, tied=True))
    yield Tiny("qwen35-joined", "qwen35", [Q.F32], seed=302, delta=text, joined=True, **small)
    yield Tiny("qwen35moe-f32", "qwen35moe", [Q.F32], seed=310, delta=text, **small, **experts)
    yield Tiny("qwen35moe-mix", "qwen35moe", MIX_32, seed=317, delta=text | dict(heads=2), nextn=1, **small | dict(layers=4),
               **experts)
    yield Tiny("qwen35moe-joined", "qwen35moe", [Q.Q8_0], seed=306, delta=text, joined_experts=True, **small, **experts)
    yield Tiny("qwen3next-f32", "qwen3next", [Q.F32], seed=320, delta=net, **small, **experts)
    yield Tiny("qwen3next-joined", "qwen3next", MIX_32, seed=322, delta=net | dict(old=True), **small, **experts)
    yield Tiny("qwen3next-mix", "qwen3next", MIX_32, seed=321, delta=net | dict(dim=32, heads=6, interval=3), nextn=1,
               **small | dict(layers=4), **experts)


def expert_models():
    """Models with experts: each family in two or three shapes."""
    few = dict(experts=4, used=2, ff_expert=32, embd=32, vocab=48)
    many = dict(experts=16, used=5, ff_expert=32, embd=64, heads=2, heads_kv=1, dim=32, vocab=48)
    wide = dict(embd=256, layers=1, heads=4, heads_kv=2, dim=32, ff=256, experts=2, used=1, ff_expert=256, vocab=48, tied=True)
    mix = dict(expert_types=MIX_32)
    yield Tiny("mixtral-f32", "llama", [Q.F32], seed=100, **few | dict(ff=32))
    yield Tiny("mixtral-mix", "llama", MIX_32, seed=101, **many | dict(ff=32), **mix)
    yield Tiny("mixtral-mix-k", "llama", MIX_K, seed=102, **wide)
    yield Tiny("qwen2moe-f32", "qwen2moe", [Q.F32], seed=110, bias=True, ff_shared=64, **few | dict(heads=2))
    yield Tiny("qwen2moe-mix", "qwen2moe", MIX_32, seed=111, bias=True, ff_shared=96, **many, **mix)
    yield Tiny("qwen3moe-f32", "qwen3moe", [Q.F32], seed=120, qk_norm=True, **few)
    yield Tiny("qwen3moe-mix", "qwen3moe", MIX_32, seed=121, qk_norm=True, **many, **mix)
    yield Tiny("qwen3moe-mix-k", "qwen3moe", MIX_K, seed=122, qk_norm=True, **wide)
    yield Tiny("qwen3moe-scaled", "qwen3moe", [Q.Q8_0, Q.Q4_0], seed=123, qk_norm=True, scales=True, **few)
    vl = {"n_deepstack_layers": ("uint32", 1), "rope.dimension_sections": ("array", [3, 3, 2, 0])}
    yield Tiny("qwen3vlmoe-f32", "qwen3vlmoe", [Q.F32], seed=124, qk_norm=True, keys=vl, **few | dict(heads=2))
    yield Tiny("qwen3vlmoe-mix", "qwen3vlmoe", MIX_32, seed=125, qk_norm=True, keys=vl | {
        "rope.dimension_sections": ("array", [6, 5, 5, 0])}, **many, **mix)
    yield Tiny("olmoe-f32", "olmoe", [Q.F32], seed=130, qk_norm=True, **few | dict(heads=2, heads_kv=2, ff=32))
    yield Tiny("olmoe-mix", "olmoe", MIX_32, seed=131, qk_norm=True, **many | dict(heads_kv=2, ff=32), **mix)
    yield Tiny("granitemoe-f32", "granitemoe", [Q.F32], seed=140, keys=GRANITE, **few | dict(ff=32))
    yield Tiny("granitemoe-mix", "granitemoe", MIX_32, seed=141, keys=GRANITE, ff_shared=64, tied=True,
               **many | dict(ff=32), **mix)
    oss = {"attention.sliding_window": ("uint32", 8), "rope.freq_base": ("float32", 150000.0),
           "rope.scaling.type": ("string", "yarn"), "rope.scaling.factor": ("float32", 32.0),
           "rope.scaling.original_context_length": ("uint32", 64)}
    yield Tiny("gpt-oss-f32", "gpt-oss", [Q.F32], seed=150, bias=True, keys=oss, **few | dict(layers=3))
    yield Tiny("gpt-oss-mxfp4", "gpt-oss", [Q.Q8_0], seed=151, bias=True, keys=oss, expert_types=[Q.MXFP4], **many)
    v2 = {"expert_weights_scale": ("float32", 1.5), "rope.scaling.type": ("string", "yarn"),
          "rope.scaling.factor": ("float32", 8.0), "rope.scaling.original_context_length": ("uint32", 64),
          "rope.scaling.yarn_log_multiplier": ("float32", 0.0707)}
    v3 = {"expert_gating_func": ("uint32", 2), "expert_weights_norm": ("bool", True), "expert_group_count": ("uint32", 4),
          "expert_group_used_count": ("uint32", 2), "expert_weights_scale": ("float32", 2.5)}
    lite = dict(q=0, kv=32, rope=16, nope=32, value=16)
    full = dict(q=64, kv=64, rope=16, nope=32, value=32)
    yield Tiny("deepseek2-f32", "deepseek2", [Q.F32], seed=160, mla=full, heads_kv=1, dense=1, ff_shared=64, keys=v2,
               **few | dict(heads=2))
    yield Tiny("deepseek2-nextn", "deepseek2", [Q.F32], seed=166, mla=full, heads_kv=1, dense=1, ff_shared=32, keys={
        "expert_gating_func": ("uint32", 2), "expert_weights_norm": ("bool", True)}, choice_bias=True, nextn=1,
               **few | dict(heads=2, layers=3))
    yield Tiny("deepseek2-mix", "deepseek2", MIX_32, seed=161, mla=full, dense=1, ff_shared=32, keys=v3, choice_bias=True,
               **many | dict(used=4), **mix)
    yield Tiny("deepseek2-lite", "deepseek2", [Q.Q4_0], seed=162, mla=lite, heads=2, heads_kv=1, dense=1, ff_shared=32,
               layers=26, **few | dict(experts=2))
    yield Tiny("deepseek2-joined", "deepseek2", MIX_32, seed=164, mla=full | dict(joined=True), dense=1, ff_shared=32,
               keys=v2, **many | dict(heads_kv=2), **mix)
    large = {"attention.temperature_scale": ("float32", 0.5), "attention.temperature_length": ("uint32", 5)}  # Mistral Large 3
    yield Tiny("deepseek2-temperature", "deepseek2", MIX_32, seed=165, mla=full, dense=1, ff_shared=32, keys=v2 | large,
               **many, **mix)
    yield Tiny("mistral4-f32", "mistral4", [Q.F32], seed=167, mla=full, heads_kv=1, ff_shared=32, joined_experts=True,
               keys=v2 | {"expert_weights_norm": ("bool", True)}, **few | dict(heads=2))
    yield Tiny("mistral4-mix", "mistral4", MIX_32, seed=168, mla=full, dense=1, ff_shared=32, keys=v2 | large, **many, **mix)

    dots = {"expert_gating_func": ("uint32", 2), "expert_weights_norm": ("bool", True), "expert_weights_scale": ("float32", 1.5)}
    yield Tiny("dots1-f32", "dots1", [Q.F32], seed=500, qk_norm=True, dense=1, ff_shared=32, choice_bias=True, keys=dots,
               **few | dict(heads=2, heads_kv=2, layers=3, ff=32))
    yield Tiny("dots1-mix", "dots1", MIX_32, seed=501, qk_norm=True, dense=1, ff_shared=64, choice_bias=True, keys=dots,
               **many | dict(heads_kv=2), **mix)
    # shared experts with a length of their own; groups of experts; the last layer is not run
    ling = dots | {"expert_shared_count": ("uint32", 2), "rope.dimension_count": ("uint32", 8)}
    groups = {"expert_group_count": ("uint32", 4), "expert_group_used_count": ("uint32", 2)}
    yield Tiny("bailingmoe2-f32", "bailingmoe2", [Q.F32], seed=510, qk_norm=True, joined=True, dense=1, ff_shared=32,
               shared_counted=2, choice_bias=True, keys=ling, nextn=1, **few | dict(heads=2, layers=3, ff=32))
    yield Tiny("bailingmoe2-mix", "bailingmoe2", MIX_32, seed=511, qk_norm=True, joined=True, dense=1, ff_shared=32,
               choice_bias=True, keys=ling | groups | {"expert_shared_count": ("uint32", 1)}, **many | dict(used=4), **mix)
    yield Tiny("hunyuan-moe-f32", "hunyuan-moe", [Q.F32], seed=520, qk_norm=True, ff_shared=64, tied=True,
               **few | dict(heads=2, ff=32))
    yield Tiny("hunyuan-moe-mix", "hunyuan-moe", MIX_32, seed=522, qk_norm=True, ff_shared=32, **many | dict(ff=32), **mix)

    # the last layer predicts the token after the next, and is not run
    glm = {"rope.dimension_count": ("uint32", 8), "expert_gating_func": ("uint32", 2), "expert_weights_norm": ("bool", True),
           "expert_weights_scale": ("float32", 1.5)}
    for name, seed in (("exaone", 570), ("internlm2", 572), ("arcee", 574)):
        yield Tiny(f"{name}-f32", name, [Q.F32], seed=seed, embd=32, ff=32, heads=2)
        yield Tiny(f"{name}-mix", name, MIX_32, seed=seed + 1, tied=name != "internlm2", rope_factors=name == "exaone")
    yield Tiny("maincoder-f32", "maincoder", [Q.F32], seed=576, qk_norm=True, embd=32, ff=32, heads=2)
    yield Tiny("maincoder-mix", "maincoder", MIX_32, seed=577, qk_norm=True, tied=True)
    yield Tiny("apertus-f32", "apertus", [Q.F32], seed=568, qk_norm=True, embd=32, ff=32, heads=2, keys={
        "xielu.alpha_p": ("array", [0.3, -0.5]), "xielu.alpha_n": ("array", [-0.2, 0.8]), "xielu.beta": ("array", [0.5, 0.25]),
        "xielu.eps": ("array", [-1e-6, -1e-3])})
    yield Tiny("apertus-mix", "apertus", MIX_32, seed=569, qk_norm=True, rope_factors=True, keys={
        f"xielu.{key}": ("float32", value) for key, value in (("alpha_p", 0.55), ("alpha_n", 0.9), ("beta", 0.5), ("eps", -1e-6))})
    gated = dict(qk_norm=True, post_norm=True)
    glimmer = {"attention.sliding_window": ("uint32", 8), "logit_scale": ("float32", 0.5)}
    yield Tiny("muse-glimmer-f32", "muse-glimmer", [Q.F32], seed=578, **gated, keys=glimmer, layers=4, embd=48, ff=48)
    yield Tiny("muse-glimmer-mix", "muse-glimmer", MIX_32, seed=599, **gated, keys=glimmer | {
        "attention.sliding_window_pattern": ("uint32", 2), "rope.freq_base_swa": ("float32", 5e5),
        "final_logit_softcapping": ("float32", 3.0)})
    for name, seed, bias in (("starcoder2", 580, True), ("nemotron", 582, False), ("stablelm", 584, False)):
        part = {"rope.dimension_count": ("uint32", 8)} if name != "starcoder2" else None
        yield Tiny(f"{name}-f32", name, [Q.F32], seed=seed, bias=bias, ff_bias=bias, keys=part, embd=32, ff=32, heads=2)
        yield Tiny(f"{name}-mix", name, MIX_32, seed=seed + 1, bias=True, ff_bias=name != "stablelm", keys=part, tied=name == "starcoder2")
    yield Tiny("stablelm-parallel", "stablelm", [Q.Q8_0], seed=566, qk_norm=True, parallel=True, keys={"rope.dimension_count": ("uint32", 8)})
    table = dict(joined=True, bias=True, ff_bias=True, tied=True, context=128)
    yield Tiny("gpt2-f32", "gpt2", [Q.F32], seed=586, **table, embd=32, ff=32, heads=2, heads_kv=2)
    yield Tiny("gpt2-mix", "gpt2", MIX_32, seed=587, **table, heads_kv=4)
    yield Tiny("starcoder-f32", "starcoder", [Q.F32], seed=588, **table, embd=32, ff=32, heads=2, heads_kv=1)
    yield Tiny("starcoder-mix", "starcoder", MIX_32, seed=589, **table, heads_kv=1)
    yield Tiny("deepseek-f32", "deepseek", [Q.F32], seed=590, dense=1, ff_shared=32, **few | dict(heads=2))
    yield Tiny("deepseek-mix", "deepseek", MIX_32, seed=591, dense=1, ff_shared=64, keys={"expert_weights_scale": ("float32", 1.5)},
               **many, **mix)
    yield Tiny("mellum-f32", "mellum", [Q.F32], seed=592, qk_norm=True, keys={"attention.sliding_window": ("uint32", 8)},
               **few | dict(layers=4, heads=2))
    yield Tiny("mellum-mix", "mellum", MIX_32, seed=593, qk_norm=True, **many, **mix, keys={
        "attention.sliding_window": ("uint32", 8), "attention.sliding_window_pattern": ("uint32", 2),
        "rope.scaling.type": ("string", "yarn"), "rope.scaling.factor": ("float32", 4.0),
        "rope.scaling.original_context_length": ("uint32", 128)})
    afmoe = {"expert_weights_norm": ("bool", True), "expert_weights_scale": ("float32", 2.5)}
    yield Tiny("afmoe-f32", "afmoe", [Q.F32], seed=594, **gated, dense=1, ff_shared=32, choice_bias=True, keys=afmoe | {
        "attention.sliding_window": ("uint32", 8)}, **few | dict(layers=5, heads=2))
    yield Tiny("afmoe-mix", "afmoe", MIX_32, seed=598, **gated, dense=1, ff_shared=64, choice_bias=True, keys=afmoe | {
        "attention.sliding_window": ("uint32", 8)}, **many | dict(layers=4), **mix)
    yield Tiny("glm4moe-f32", "glm4moe", [Q.F32], seed=360, bias=True, qk_norm=True, dense=1, ff_shared=32, choice_bias=True,
               keys=glm, nextn=1, **few | dict(layers=3, ff=32))
    yield Tiny("glm4moe-mix", "glm4moe", MIX_32, seed=361, bias=True, dense=1, ff_shared=32, choice_bias=True,
               keys=glm | {"rope.dimension_count": ("uint32", 16)}, **many, **mix)
    ernie = {"interleave_moe_layer_step": ("uint32", 1)}
    yield Tiny("ernie4_5-moe-f32", "ernie4_5-moe", [Q.F32], seed=370, dense=1, ff_shared=64, choice_bias=True, keys=ernie,
               **few | dict(layers=3, ff=32))
    yield Tiny("ernie4_5-moe-mix", "ernie4_5-moe", MIX_32, seed=371, dense=1, keys=ernie, **many, **mix)
    minimax = {"rope.dimension_count": ("uint32", 8), "expert_gating_func": ("uint32", 2)}
    yield Tiny("minimax-m2-f32", "minimax-m2", [Q.F32], seed=380, qk_norm=True, choice_bias=True, keys=minimax,
               **few | dict(ff=32))
    yield Tiny("minimax-m2-mix", "minimax-m2", MIX_32, seed=381, qk_norm=True, choice_bias=True,
               keys=minimax | {"rope.dimension_count": ("uint32", 16)}, **many | dict(ff=32), **mix)


def seeds():
    """The smallest models, from which fuzzing starts."""
    small = dict(experts=2, used=1, ff_expert=32, ff=32, embd=32, heads=1, heads_kv=1, dim=32, layers=1, vocab=16, tied=True)
    yield Tiny("qwen3moe", "qwen3moe", [Q.Q4_0], seed=1, qk_norm=True, **small)
    yield Tiny("gpt-oss", "gpt-oss", [Q.MXFP4], seed=2, bias=True, **small | dict(tied=False),
               keys={"attention.sliding_window": ("uint32", 8)})
    yield Tiny("deepseek2", "deepseek2", [Q.Q4_0], seed=3, mla=dict(q=32, kv=32, rope=16, nope=32, value=32), ff_shared=32,
               **small, keys={"expert_group_count": ("uint32", 2), "expert_group_used_count": ("uint32", 1)})


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    if sys.argv[2:] == ["--seeds"]:
        for tiny in seeds():
            tiny.write(target / f"{tiny.name}.gguf")
        sys.exit()
    for tiny in models():
        if len(sys.argv) < 3 or tiny.name in sys.argv[2:]:
            write_golden(tiny, target)
