#!/usr/bin/env python3
"""Logits of the layer with latent attention that predicts further tokens (MTP), by llama.cpp, in the form of golden_mtp.py.

    tools/golden/golden_mtp_latent.py tests/golden/tiny/deepseek2-nextn.gguf tests/golden/mtp_latent.txt"""
import pathlib
import sys

import llama
import numpy as np

N, N_EMBD = 9, 32


def main():
    path = pathlib.Path(sys.argv[1])
    target = llama.Model(path)
    layer = llama.Guesser(path, target)
    tokens = [(11 * i + 5) % (target.n_vocab - 3) + 3 for i in range(N)]
    i, j = np.meshgrid(np.arange(N), np.arange(N_EMBD), indexing="ij")
    logits, hidden = layer.guess(tokens, (37 * i + 11 * j) % 101 / 50 - 1, 0)
    with open(sys.argv[2], "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        print("model", path.stem, file=out)
        for what, numbers in (("tokens", tokens), ("hidden", hidden), ("logits", logits)):
            print(what, *(f"{x:.9g}" for x in numbers), file=out)
    layer.close()
    target.close()


main()
