#!/usr/bin/env python3
"""Golden token ids of many strings by llama.cpp.

    tools/golden/golden_tokens.py MODEL.gguf OUT.txt

One line per case: two digits (1: special tokens are added, 1: special tokens in the text are parsed), the text in
hexadecimal or - if empty, the ids."""
import random
import sys

import llama

SCRIPTS = [
    "Grüße aus Köln, naïve façade, Ångström", "Привет, как дела? Ёлка", "Γειά σου Κόσμε, ἀρχή", "שלום עולם", "مرحبا بالعالم ١٢٣",
    "नमस्ते दुनिया १२३", "สวัสดีชาวโลก", "你好，世界。１２３", "こんにちは世界、カタカナ", "안녕하세요 세계", "ሰላም ልዑል", "გამარჯობა",
    "Xin chào thế giới", "İstanbul'da ığdır", "ﬁne ﬂour ½ ² ³ ™ №", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝕋𝕖𝕩𝕥", "e\u0301 a\u0308 n\u0303 (combining)",
    "👍🏽 👨\u200d👩\u200d👧\u200d👦 🇩🇪 🏳️\u200d🌈 ☕️", "zero\u200bwidth\u200djoiner\ufeffbom", "non\u00a0breaking\u2009thin\u3000wide",
]
CODE = [
    "int main(void) {\n    return 0;\n}\n", "def f(x):\n\treturn x ** 2  # square\n", "<div class=\"a\">&nbsp;</div>",
    "SELECT * FROM t WHERE id >= 10;", "x = [1, 2.5, -3e10, 0xFF, 1_000_000]", "if (a != b && c <= d || !e) { i++; }",
    "https://example.org/a/b?c=d&e=%20f#g", "user.name+tag@example.com", "C:\\path\\to\\file.txt", "\\frac{a}{b} $x^2$",
    "{\"key\": [null, true, 1.5e-3]}", "#!/bin/sh\nset -eu\n\necho \"$HOME\"\n", "2024-01-31T23:59:59Z", "v1.2.3-rc.4+build.5",
]
WORDS = [
    "Hello", " Hello", "hello world", "The quick brown fox jumps over the lazy dog.", "I'm you're he'll we've they'd it's can't",
    "I'M YOU'RE HE'LL WE'VE", "don’t ‘quoted’ “text” — dash… end", "ALLCAPS MixedCase camelCase snake_case kebab-case",
    "1", "12", "123", "1234", "12345678901234567890", "3.14159", "1,000,000", "-42", "50%", "$9.99", "a1b2c3", "№5", "1st 2nd 3rd",
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", " \n", "\n ", "\r\n", "\r\n\r\n", "\t\t", " \t \n \t ", "a  b   c    d",
    "trailing  ", "  leading", "line one\nline two\n\n  indented\n", "\u0000", "\x01\x02\x1f\x7f", "!!!", "?!?!", "...", "----", "====",
    "(((a)))", "[[x]]", "<<<>>>", "a,b;c:d", "'", "\"", "`", "''", "\"\"", "```python\nprint(1)\n```",
    "a" * 300, "ab" * 200, " " * 120, "\n" * 40, "0" * 100, "=" * 90, "é" * 60, "🙂" * 30, "x " * 100,
]
SPECIAL = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "a<|endoftext|>b", "<s>[INST] hi [/INST]</s>",
    "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<|begin_of_text|><|eot_id|>", "<unk>", "<pad>", "<mask>",
    "<|im_start|", "|im_end|>", "<<|im_end|>>", " <|im_end|> ", "<unused0><unused1>", "<table><tr><td>", "<0x41>", "▁", "▁▁word",
    "<repo_name>x<file_sep>", "<eos>", "<h1>a</h1>", "<tool>", "[toxicity=0]",
]


def cases():
    rng = random.Random(20240229)
    texts = SCRIPTS + CODE + WORDS + SPECIAL
    pool = SCRIPTS + CODE + WORDS[:60] + SPECIAL
    for _ in range(220):  # two or three strings joined by various separators
        parts = rng.sample(pool, rng.randint(2, 3))
        texts.append(rng.choice(["", " ", "\n", "  ", "\t", ", "]).join(parts))
    ranges = [(0x20, 0x7e)] * 4 + [(0xa0, 0x24f), (0x370, 0x52f), (0x5d0, 0x6ff), (0x900, 0x97f), (0x3040, 0x30ff), (0x4e00, 0x9fff),
                                   (0x1f300, 0x1f64f), (0x2000, 0x206f)]
    for _ in range(220):  # random characters of three ranges
        chosen = rng.sample(ranges, 3)
        texts.append("".join(chr(rng.randint(*rng.choice(chosen))) for _ in range(rng.randint(1, 40))))
    return texts


def write(model, path):
    with open(path, "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        for i, text in enumerate(cases()):
            data = text.encode()
            flags = [(1, 1), (0, 0)] if i % 5 == 0 else [(i % 2, 1 - i % 3 % 2)]
            for add, parse in flags:
                ids = model.tokenize(data, bool(add), bool(parse))
                print(f"{add}{parse} {data.hex() or '-'} {' '.join(map(str, ids))}", file=out)


if __name__ == "__main__":
    write(llama.Model(sys.argv[1], vocab_only=True), sys.argv[2])
