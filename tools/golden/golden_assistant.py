#!/usr/bin/env python3
"""Tiny assistants (gemma4-assistant) of the tiny Gemma 4 models in tests/golden/tiny, with their logits by llama.cpp.

    tools/golden/golden_assistant.py tests/golden/assistant

NAME.gguf is the assistant of tiny/NAME.gguf. NAME.txt has, after prompts of several lengths: the token behind the prompt, the hidden state
of the model behind its last norm, and for each of N_GUESSES guesses the token and the hidden state that the assistant got, its logits and
the hidden state for the next guess. Each guess is the most probable token before it. All have the position of the first. For
quantised weights the results are those of the same weights as f32, because llama.cpp then does not quantise activations."""
import pathlib
import sys
import tempfile

import golden_tiny
import llama
import numpy as np
from gguf import GGMLQuantizationType as Q

N_GUESSES = 3
LENGTHS = (3, 12, 20)
WINDOW_DIM, FULL_DIM = 16, 32


class Assistant(golden_tiny.Tiny):
    """Three layers with a window and one without, which read the caches of the model. `of`: the width of the model.
    `preselects`: the file has the tables by which candidates are chosen, but not the one for llama.cpp."""

    def __init__(self, name, types, *, of, preselects=False, **options):
        self.of, self.preselects = of, preselects
        window = [True, True, True, False]
        super().__init__(name, "gemma4-assistant", types, layers=4, heads=4, dim=FULL_DIM, heads_kv=[2, 2, 2, 1], ff=32, keys={
            "attention.sliding_window": ("uint32", 8), "attention.sliding_window_pattern": ("array", window),
            "attention.shared_kv_layers": ("uint32", 4), "attention.key_length_swa": ("uint32", WINDOW_DIM),
            "attention.value_length_swa": ("uint32", WINDOW_DIM), "rope.dimension_count_swa": ("uint32", WINDOW_DIM),
            "rope.dimension_count": ("uint32", FULL_DIM), "rope.freq_base": ("float32", 1e6), "rope.freq_base_swa": ("float32", 1e4),
            "embedding_length_per_layer_input": ("uint32", 0), "embedding_length_out": ("uint32", of),
            "nextn_predict_layers": ("uint32", 4)}, rope_factors=True, tied=True, **options)

    def layer(self, i):
        p, dim = f"blk.{i}.", FULL_DIM if i == 3 else WINDOW_DIM
        if i == 0:
            self.matrix("nextn.pre_projection.weight", 2 * self.of, self.embd)
            self.matrix("nextn.post_projection.weight", self.embd, self.of)
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            self.vector(p + name + ".weight", self.embd, 1.0)
        self.matrix(p + "attn_q.weight", self.embd, self.heads * dim)
        self.vector(p + "attn_q_norm.weight", dim, dim ** -0.5, 0.04)
        self.matrix(p + "attn_output.weight", self.heads * dim, self.embd)
        for name, n, rows in (("gate", self.embd, self.ff), ("up", self.embd, self.ff), ("down", self.ff, self.embd)):
            self.matrix(p + f"ffn_{name}.weight", n, rows)
        self.vector(p + "layer_output_scale.weight", 1, 0.8)
        if i == 3 and self.preselects and not self.dequantized:
            self.writer.add_tensor("masked_embd_centroids.weight", np.zeros((4, self.embd), np.float32))
            self.writer.add_tensor("masked_embd_ordering", np.arange(self.vocab, dtype=np.int32))


def assistants():
    yield Assistant("gemma4-f32", [Q.F32], of=64, embd=32, seed=500, preselects=True)
    yield Assistant("gemma4-mix", golden_tiny.MIX_32, of=64, embd=32, seed=501)


def line(what, numbers):
    return what + " " + " ".join(f"{x:.9g}" for x in numbers) + "\n"


def write_prompt(out, tiny, target, drafter, n):
    tokens = [(7 * i + 5 * n) % (target.n_vocab - 3) + 3 for i in range(n)]
    target.reset()
    token = int(target.eval(tokens)[-1].argmax())
    hidden = llama.hidden_of(target.context, n - 1, tiny.of)
    out.write(line("tokens", tokens) + line("next", [token]) + line("hidden", hidden))
    for _ in range(N_GUESSES):
        logits, hidden = drafter.guess([token], [hidden], n)
        out.write(line("logits", logits) + line("hidden", hidden))
        token = int(logits.argmax())


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    targets = {tiny.name: tiny for tiny in golden_tiny.models()}
    with tempfile.TemporaryDirectory() as plain:
        for tiny in assistants():
            files = [pathlib.Path(plain) / what for what in ("target.gguf", "assistant.gguf")]
            tiny.write(folder / f"{tiny.name}.gguf")
            targets[tiny.name].write(files[0], dequantized=True)
            tiny.write(files[1], dequantized=True)
            target = llama.Model(files[0])
            drafter = llama.Guesser(files[1], target)
            with open(folder / f"{tiny.name}.txt", "w", encoding="ascii") as out:
                out.write(llama.HEADER + "\n")
                for n in LENGTHS:
                    write_prompt(out, tiny, target, drafter, n)
            drafter.close()
            target.close()


main()
