#!/usr/bin/env python3
"""Small vocabularies, one for each pre-tokenizer and two for SentencePiece, with llama.cpp's token ids for many strings.

    tools/golden/golden_tokenizers.py OUT_DIRECTORY

One byte-level BPE vocabulary is trained here, on the strings themselves. It is written once per pre-tokenizer, as NAME.gguf,
with the ids in NAME.txt (format: golden_tokens.py). crossing.txt has a line for each name of a pre-tokenizer and each text: the name,
the text in hexadecimal, and the ids."""
import collections
import pathlib
import re
import sys

import gguf
import llama
from golden_tokens import cases

N_MERGES = 450
PRE = ["smollm", "gpt-2", "default", "llama-bpe", "qwen2", "tekken", "gpt-4o", "deepseek-llm", "deepseek-v3", "dbrx", "glm4",
       "smaug-bpe", "chatglm-bpe", "minimax-m2"]
# Further names, with the expressions of one of these or with others.
NAMES = PRE + ["a.x-4.0", "afmoe", "bailingmoe", "bailingmoe2", "bloom", "codeshell", "cohere2moe", "command-r", "deepseek-coder",
               "deepseek-r1-qwen", "exaone", "exaone-moe", "exaone4", "f2llmv2", "falcon", "falcon-h1", "falcon3", "gigachat", "glm5",
               "gpt3-finnish", "granite-docling", "granite-embed-multi-97m", "grok-2", "hunyuan", "hunyuan-dense", "hy_v4", "jais",
               "jina-v5-nano", "joyai-llm", "kanana2", "kimi-k2", "kormo", "laguna", "lfm2", "llada-moe", "llama-v3", "llama3", "llama4",
               "megrez", "mellum", "mellum2", "midm-2.0", "minerva-7b", "minicpm5", "modern-bert", "mpt", "olmo", "phi-2", "pixtral",
               "poro-chat", "qwen35", "refact", "roberta-bpe", "seed-coder", "solar-open", "spark2_5", "stablelm2", "starcoder", "talkie",
               "tiny_aya", "trillion", "ufakzeka", "viking", "youtu"]
# In these the pre-tokenizers differ: marks behind letters, scripts, case, line ends, digits, apostrophes.
MORE = ["\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 \u0928\u092e\u0938\u094d\u0924\u0947", "\u0e01\u0e33\u0e25\u0e31\u0e07 \u0e44\u0e17\u0e22",
        "e\u0301te\u0301 Cafe\u0301s \u0301a", "\u09ac\u09be\u0982\u09b2\u09be \u09ad\u09be\u09b7\u09be", "a\n\n\nb \r\n\r\n c", "x  \n\n y\n\n\n", "!!\n?? /\n// ;\n\n",
        "I'D DON'T 'Tis o'clock we'Ve 'S", "T\u00fcrkiye'de \u0130stanbul'un", "\u4e2d\u6587ABC \u65e5\u672c\u8a9e\u30ab\u30bf\u30ab\u30ca \u4e2d a\u4e2db",
        "\ud55c\uad6d\uc5b4 \u3131\u3134 \uc8fc", "HelloWorld camelCase \u00c0\u00c9\u00ee\u00f5 \u01c5 \u02b0\u02b2 \u0414\u043e\u043c\u0414\u043e\u043c", "1234567 12 3456 12.5e10 007",
        "\u3105\u3106\u3107 \u300c\u5f15\u300d\u2026\u2014 \uff01\uff1f", "foo_bar(baz);\t//x `q` $5 |a|", "\u0905 1\u0966 \u0661\u0662\u0663\u0664", "a b  c   d    e"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER = ["<repo_name>", "  \n"]


def byte_characters():
    """The printable character that stands for each byte in GPT-2's vocabulary."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def train(texts, words=r" ?\w+|\s+|[^\w\s]+"):
    spell = byte_characters()
    words = collections.Counter(w for t in texts for w in re.findall(words, t) if len(w) < 30)
    words = {tuple(spell[b] for b in w.encode()): n for w, n in words.items()}
    merges = []
    while len(merges) < N_MERGES:
        pairs = collections.Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        if not pairs:
            break
        pair = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(pair)
        merged = {}
        for word, n in words.items():
            out, i = [], 0
            while i < len(word):
                if word[i:i + 2] == pair:
                    out.append(word[i] + word[i + 1])
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] = merged.get(tuple(out), 0) + n
        words = merged
    return spell, merges


def write_bpe(path, pre, spell, merges):
    tokens = CONTROL + USER + [spell[b] for b in range(256)] + [a + b for a, b in merges]
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types([3] * len(CONTROL) + [4] * len(USER) + [1] * (256 + len(merges)))
    w.add_token_merges([f"{a} {b}" for a, b in merges])
    w.add_bos_token_id(0)
    w.add_eos_token_id(2)
    close(w)


def write_spm(path, texts, prefix):
    counts = collections.Counter(c for t in texts for c in t.replace(" ", "\u2581"))
    for t in texts:
        t = t.replace(" ", "\u2581")
        for n in (2, 3, 4, 6):
            counts.update(t[i:i + n] for i in range(len(t) - n + 1))
    pieces = [p for p, n in counts.most_common(900) if p.isprintable()]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + CONTROL + USER + pieces
    types = [2, 3, 3] + [6] * 256 + [3] * len(CONTROL) + [4] * len(USER) + [1] * len(pieces)
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_scores([0.0] * (len(tokens) - len(pieces)) + [-float(i % 97) - len(p) * -3.0 for i, p in enumerate(pieces)])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_space_prefix(prefix)
    close(w)


def write_gemma4(path, texts):
    """Merges of characters, as ranks; no text between line ends is split."""
    words = collections.Counter(w for t in texts for w in re.findall("\u2581?[^\u2581\\n]+", t.replace(" ", "\u2581")))
    words = {tuple(w): n for w, n in words.items() if len(w) < 30 and w.isprintable() and "<" not in w}
    characters = sorted({c for w in words for c in w} | {"\u2581", "\n"})
    merges = []
    while len(merges) < 300:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]) for _ in range(words[word]))
        pair = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(pair)
        spelt = {word: re.findall("|".join(map(re.escape, [pair[0] + pair[1]] + sorted(set(word), key=len, reverse=True))),
                                  "".join(word)) for word in words if pair in zip(word, word[1:])}
        for word, parts in spelt.items():
            words[tuple(parts)] = words.get(tuple(parts), 0) + words.pop(word)
    pieces = list(dict.fromkeys([c for c in characters if c.isprintable()] + [a + b for a, b in merges] + ["\n", "\n\n"]))
    tokens = ["<unk>", "<bos>", "<eos>"] + [f"<0x{b:02X}>" for b in range(256)] + CONTROL + USER
    pieces = [p for p in pieces if p not in tokens]
    tokens += pieces
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_tokenizer_model("gemma4")
    w.add_token_list(tokens)
    w.add_token_types([2, 3, 3] + [6] * 256 + [3] * len(CONTROL) + [4] * len(USER) + [1] * len(pieces))
    w.add_token_merges([f"{a} {b}" for a, b in merges])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    close(w)


def close(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_phi3(path, texts):
    """llama.cpp knows by the name of the model that its special tokens take the white space behind them."""
    special = ["<|endoftext|>", "<|assistant|>", "<|user|>", "<|end|>"]
    pieces = [p for p, _ in collections.Counter(c for t in texts for c in t.replace(" ", "\u2581")).most_common(90) if p.isprintable()]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + special + pieces
    w = gguf.GGUFWriter(str(path), "phi3")
    w.add_name("Phi-3 mini")
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_types([2, 3, 3] + [6] * 256 + [3] * len(special) + [1] * len(pieces))
    w.add_token_scores([0.0] * (len(tokens) - len(pieces)) + [-float(i) for i in range(len(pieces))])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    close(w)


def write_crossing(folder):
    """A vocabulary whose merges cross the borders that expressions make: the ids of MORE show where these are."""
    spelling, learnt = train(MORE, r"[\s\S]{1,12}")
    with open(folder / "crossing.txt", "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        for name in NAMES:
            write_bpe(folder / "crossing.gguf", name, spelling, learnt)
            model = llama.Model(folder / "crossing.gguf", vocab_only=True)
            for text in MORE:
                print(name, text.encode().hex(), *model.tokenize(text.encode(), True, False), file=out)
            model.close()
    write_bpe(folder / "crossing.gguf", "default", spelling, learnt)


def write_golden(path, texts):
    model = llama.Model(path, vocab_only=True)
    with open(path.with_suffix(".txt"), "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        for i, text in enumerate(texts):
            add, parse = i % 2, i // 2 % 2
            ids = model.tokenize(text.encode(), bool(add), bool(parse))
            print(f"{add}{parse} {text.encode().hex() or '-'} {' '.join(map(str, ids))}", file=out)
    model.close()


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    all_texts = cases()
    short = [t for i, t in enumerate(all_texts) if i < 150 or i % 6 == 0]
    spelling, learnt = train(all_texts)
    for name in PRE:
        write_bpe(folder / f"{name}.gguf", name, spelling, learnt)
        write_golden(folder / f"{name}.gguf", short)
    write_crossing(folder)
    marks = [a + b + c for a in ("<|user|>", "<|end|>", "</s>", "<s>", "<unk>", "<|endoftext|>")
             for b in ("", " ", "\n", " \n\t ") for c in ("", "ab", "<|assistant|>\n c")]
    write_phi3(folder / "phi3.gguf", short)
    write_golden(folder / "phi3.gguf", [m for m in marks for _ in range(4)])
    write_gemma4(folder / "gemma4.gguf", short)
    write_golden(folder / "gemma4.gguf", short)
    for name, has_prefix in (("spm", True), ("spm-no-prefix", False)):
        write_spm(folder / f"{name}.gguf", all_texts, has_prefix)
        write_golden(folder / f"{name}.gguf", short)
