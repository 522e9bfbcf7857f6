#!/usr/bin/env python3
"""Tables of the characters that WordPiece treats in another way, for model/tokenizer/wordpiece.c, from Python's unicodedata.

    tools/unicode_words.py model/tokenizer

It writes words_unicode.h."""
import pathlib
import sys
import unicodedata

from unicode_nfc import header, lines

CODES = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
CLASSES = {"WORD_PUNCTUATION": lambda c, k: k[0] == "P", "WORD_REMOVED": lambda c, k: k in ("Cc", "Cf", "Co") or c == 0xfffd,
           "WORD_MARK": lambda c, k: k == "Mn", "WORD_SPACE": lambda c, k: k in ("Zs", "Zl", "Zp")}


def main():
    ranges, last = [], None
    for c in CODES:
        name = next((n for n, test in CLASSES.items() if test(c, unicodedata.category(chr(c)))), None)
        if name and last and last[1] == c - 1 and last[2] == name:
            last[1] = c
        elif name:
            last = [c, c, name]
            ranges.append(last)
    lower = [(c, ord(chr(c).lower()[0])) for c in CODES if chr(c).lower() != chr(c)]
    body = ("typedef enum WordClass { WORD_OTHER, " + ", ".join(CLASSES) + " } WordClass;\n\n"
            "/* {first, last, WordClass} of the characters that are not WORD_OTHER. By code. */\n"
            "static const uint32_t word_classes[][3] = {\n" + lines(f"{{{a:#x},{b:#x},{k}}}" for a, b, k in ranges) + "\n};\n\n"
            "/* {code, the same in lower case}. By code. */\n"
            "static const uint32_t lower_pairs[][2] = {\n" + lines(f"{{{a:#x},{b:#x}}}" for a, b in lower) + "\n};\n")
    (pathlib.Path(sys.argv[1]) / "words_unicode.h").write_text(
        header("words_unicode.h", "MODEL_TOKENIZER_WORDS_UNICODE_H", "classes of characters, and lower case.", body).replace("unicode_nfc.py", "unicode_words.py"))


if __name__ == "__main__":
    main()
