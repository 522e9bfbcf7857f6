#!/usr/bin/env python3
"""Files of a training as one version of the program writes them, for tests/trainer/test_train_checkpoints.c and
tests/cli/test_checkpoints.py. Later versions must read them.

    tools/training_files.py PROGRAM NAME tests/golden/checkpoints

writes base.gguf, a model of 8 thousand weights, and tokens.bin if they are not there, then NAME-full.gguf (checkpoint),
NAME-lora.gguf (checkpoint of an adapter) and NAME-adapter.gguf, each after three steps.
    v0   by the program of commit 356c82e: no key train.format, no checksums
    v1   by the first program with checksums (train.format 1)"""
import os
import random
import struct
import subprocess
import sys
import tempfile

EMBD, FF, VOCAB, HEADS, CONTEXT = 32, 32, 32, 2, 16
OPTIONS = ["--token-bytes", "2", "-b", "2", "--seq", "8", "--constant", "--warmup", "0", "--hold-out", "0", "-t", "1", "-q"]
LORA = ["--lora", "2", "--lora-alpha", "3"]
U32, F32, STRING = 4, 6, 8


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(key, kind, x):
    data = text(x) if kind == STRING else struct.pack("<f" if kind == F32 else "<I", x)
    return text(key) + struct.pack("<I", kind) + data


def write_base(path):
    rng = random.Random(1)
    values = [value("general.architecture", STRING, "llama"), value("general.name", STRING, "base"),
              value("tokenizer.ggml.model", STRING, "none")]
    values += [value("llama." + key, U32, x) for key, x in (
        ("block_count", 1), ("context_length", CONTEXT), ("embedding_length", EMBD), ("feed_forward_length", FF),
        ("attention.head_count", HEADS), ("vocab_size", VOCAB))]
    values.append(value("llama.attention.layer_norm_rms_epsilon", F32, 1e-5))
    tensors = [("token_embd.weight", [EMBD, VOCAB]), ("output_norm.weight", [EMBD]), ("blk.0.attn_norm.weight", [EMBD]),
               ("blk.0.ffn_norm.weight", [EMBD]), ("blk.0.ffn_gate.weight", [EMBD, FF]), ("blk.0.ffn_up.weight", [EMBD, FF]),
               ("blk.0.ffn_down.weight", [FF, EMBD])]
    tensors += [(f"blk.0.attn_{m}.weight", [EMBD, EMBD]) for m in ("q", "k", "v", "output")]
    table, data = b"", b""
    for name, ne in tensors:
        n = ne[0] * (ne[1] if len(ne) > 1 else 1)
        table += text(name) + struct.pack("<I", len(ne)) + struct.pack(f"<{len(ne)}Q", *ne) + struct.pack("<IQ", 0, len(data))
        x = [rng.gauss(0.0, 0.2) if len(ne) > 1 else 1.0 + rng.gauss(0.0, 0.1) for _ in range(n)]
        data += struct.pack(f"<{n}f", *x)  # multiples of 32 bytes: no padding
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + table
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


def main():
    program, name, out = sys.argv[1:]
    base, tokens = os.path.join(out, "base.gguf"), os.path.join(out, "tokens.bin")
    if not os.path.exists(base):
        write_base(base)
        with open(tokens, "wb") as f:
            f.write(struct.pack("<400H", *((i * i + 5 * i) % VOCAB for i in range(400))))
    with tempfile.TemporaryDirectory() as tmp:
        for kind, more in (("full", []), ("lora", LORA)):
            checkpoint = os.path.join(out, f"{name}-{kind}.gguf")
            result = os.path.join(out, f"{name}-adapter.gguf") if more else os.path.join(tmp, "model.gguf")
            subprocess.run([program, "train", base, "--tokens", tokens, *OPTIONS, *more, "-n", "3", "-o", result,
                            "--checkpoint", checkpoint], check=True)


if __name__ == "__main__":
    main()
