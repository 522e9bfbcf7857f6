#!/usr/bin/env python3
"""A small WordPiece vocabulary, with the token ids of llama.cpp and of Hugging Face's package tokenizers for many strings.

    tools/golden/golden_wordpiece.py OUT_DIRECTORY

wordpiece.gguf and wordpiece-cased.gguf are the vocabularies. In NAME.txt each line has the bytes of a text in hexadecimal, and the ids
of `tokenizers`. A line of llama.cpp follows where its ids differ: it replaces characters by the first of their decomposition alone,
lower-cases by tables of its own, and has no limit of 100 characters for a word."""
import collections
import pathlib
import sys

import gguf
import llama
import tokenizers
from golden_tokens import cases
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MORE = ["Ünïcödé CAFÉ naïve Ångström", "don't stop-me now!", "$3.50 + 4^2 = `x` ~ <a|b>", "中文字符 mixed 日本語 한국어 text", "İstanbul ǅ ẞ ΣΊΣΥΦΟΣ",
        "a\u00a0b\u2003c\u3000d", "zero\u200bwidth\u00adsoft", "a\u0085b\u000bc\u000cd", "tab\tnl\ncr\rend", "x" * 100, "x" * 101, "e\u0301e\u0301 A\u030a",
        "[CLS] [MASK] x", "\U0001f600 emoji \u2603 \u20ac5", "ﬁ ﬂ Ⅷ ½ ²", "\ufffd\ue000x", "¿Qué? ¡Sí! «oui» „ja“ …", "ตัวอย่าง हिन्दी العربية עברית", "",
        " ", "Tiếng Việt có dấu", "\U00020000\U0002b740", "ЁЖИК Йод", "snake_case camelCase 3D-print", "\u0130\u0131 \u1e9e \u03a3"]


def words_of(normalizer, texts):
    counts = collections.Counter()
    for text in texts:
        for word, _ in BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text)):
            counts[word] += 1
    return counts


def vocabulary(normalizer, texts):
    """Frequent words; beginnings and rests of words; most characters."""
    counts = words_of(normalizer, texts)
    pieces = collections.Counter()
    for word, n in counts.items():
        if len(word) > 40:
            continue
        for i in range(len(word)):
            for m in (1, 2, 3, 5):
                if i + m <= len(word):
                    pieces[("" if i == 0 else "##") + word[i:i + m]] += n * m
    pieces = collections.Counter({p: n for p, n in pieces.items() if "\u2581" not in p})  # files cannot tell it from their mark
    characters = sorted(p for p in pieces if len(p.removeprefix("##")) == 1)
    kept = [c for i, c in enumerate(characters) if i % 9 != 4]  # some words are unknown
    more = [p for p, _ in pieces.most_common(700)] + [w for w, _ in counts.most_common(150) if len(w) < 40 and "\u2581" not in w]
    return list(dict.fromkeys(SPECIAL + kept + more))


def stored(token):
    """As convert_hf_to_gguf.py of llama.cpp stores a token."""
    if token in SPECIAL:
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token


def write(path, tokens, lower):
    w = gguf.GGUFWriter(str(path), "bert")
    w.add_tokenizer_model("bert")
    w.add_token_list([stored(t) for t in tokens])
    w.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    w.add_bos_token_id(2)
    w.add_sep_token_id(3)
    w.add_unk_token_id(1)
    w.add_pad_token_id(0)
    w.add_mask_token_id(4)
    if not lower:
        w.add_bool("tokenizer.ggml.normalizer.lowercase", False)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    out = pathlib.Path(sys.argv[1])
    texts = cases() + MORE
    texts = [t for t in dict.fromkeys(texts) if len(t) < 3000]
    for name, lower in (("wordpiece", True), ("wordpiece-cased", False)):
        normalizer = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lower)
        tokens = vocabulary(normalizer, texts)
        theirs = tokenizers.Tokenizer(WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]", max_input_chars_per_word=100))
        theirs.normalizer, theirs.pre_tokenizer = normalizer, BertPreTokenizer()
        write(out / f"{name}.gguf", tokens, lower)
        model = llama.Model(out / f"{name}.gguf", vocab_only=True)
        same = 0
        with open(out / f"{name}.txt", "w", encoding="ascii") as f:
            print(llama.HEADER + f", tokenizers {tokenizers.__version__}", file=f)
            for text in texts:
                data = text.encode()
                ids = theirs.encode(text, add_special_tokens=False).ids
                llamas = model.tokenize(data, False, False)
                print(data.hex() or "-", *ids, file=f)
                same += ids == llamas
                if ids != llamas:
                    print("# llama.cpp:", *llamas, file=f)
        print(f"{name}: {len(tokens)} tokens, {len(texts)} texts, llama.cpp has the same ids for {same}")


if __name__ == "__main__":
    main()
