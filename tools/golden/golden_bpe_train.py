#!/usr/bin/env python3
"""Byte-level BPE vocabularies that Hugging Face's tokenizers train, for tests/model/test_bpe_train.c.

    apt-get install bible-kjv
    pip install tokenizers==0.23.3
    tools/golden/golden_bpe_train.py tests/golden/bpe_train
    tools/golden/golden_bpe_train.py --texts FILE --vocab N        the merges for other texts, on standard output

text.txt has documents, separated by blank lines: chapters of the King James Bible, and words with which merges are ambiguous.
merges-N.txt has the merges for a vocabulary of N tokens, and before them one line with the number of tokens. The tokenizer is
the byte-level one of `reprise train`: no pre-tokenisation but GPT-2's, and one end token."""
import argparse
import json
import pathlib
import subprocess

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

END = "<|end|>"
CHAPTERS = ["Ge1:", "Psa23:", "Eccl3:", "Mat5:", "1Cor13:"]
ODD = """aaaa aaaaaaa aaa aaaaaaaaaaaaaaaa abababab babababa abcabcabc
	tabs	and  two   spaces    here
don't we'll I'm they've you're he'd it's 'sure' 'tis

äöü ÄÖÜ ß éèê ñ ç naïve café Ærøskøbing
Καλημέρα κόσμε здравствуй мир こんにちは世界 你好，世界 안녕하세요 שלום مرحبا
😀😃😄 👩‍👩‍👧 e\u0301 \u00a0no\u00a0break\u2003em \u00ad \x7f
12345 3.14159 0x7fff 2^64-1 1,000,000 ½ ² Ⅷ

x = [f(i) for i in range(10) if i % 2 == 0]; // code { } -> != <= >= && ||
ab bc abc ab bc abc abcd bcd abcd abc bc ab cab bca"""


def chapters():
    text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(" ", 1) for line in text.splitlines()]
    return [" ".join(verse.strip() for reference, verse in lines if reference.startswith(c)) for c in CHAPTERS]


def train(texts, vocab):
    tk = Tokenizer(models.BPE())
    tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tk.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocab, special_tokens=[END], show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    merges = json.loads(tk.to_str())["model"]["merges"]
    return [m if isinstance(m, str) else " ".join(m) for m in merges], tk.get_vocab_size()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?")
    parser.add_argument("--texts")
    parser.add_argument("--vocab", type=int, default=4096)
    args = parser.parse_args()
    if args.texts:
        merges, _ = train(pathlib.Path(args.texts).read_text().split("\n\n"), args.vocab)
        print("\n".join(merges))
        return
    out = pathlib.Path(args.out)
    out.mkdir(exist_ok=True)
    text = "\n\n".join([*chapters(), ODD])
    (out / "text.txt").write_text(text)
    for vocab in (300, 1024, 8192):
        merges, n = train(text.split("\n\n"), vocab)
        (out / f"merges-{vocab}.txt").write_text("\n".join([f"# tokenizers {tokenizers.__version__}: {n} tokens", *merges]) + "\n")


main()
