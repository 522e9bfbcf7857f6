#!/usr/bin/env python3
"""Tables of canonical decomposition and composition for model/tokenizer/nfc.c, from Python's unicodedata.

    tools/unicode_nfc.py model/tokenizer

It writes nfc_pairs.h and nfc_marks.h."""
import pathlib
import sys
import unicodedata

CODES = [c for c in range(0x110000) if not 0xac00 <= c < 0xd7a4 and not 0xd800 <= c < 0xe000]


def lines(items, width=116):
    text, line = [], ""
    for item in items:
        if len(line) + len(item) + 2 > width:
            text.append(line)
            line = ""
        line += (" " if line else "") + item + ","
    return "\n".join("    " + x for x in [*text, line])


def header(name, guard, about, body):
    return (f"/* {name} - {about}\n * Unicode {unicodedata.unidata_version}; written by tools/unicode_nfc.py. */\n#ifndef {guard}\n#define {guard}\n\n"
            f"#include <stdint.h>\n\n/* clang-format off */\n{body}/* clang-format on */\n\n#endif\n")


def main():
    pairs = []
    for c in CODES:
        parts = unicodedata.decomposition(chr(c))
        if parts and not parts.startswith("<"):
            a, b = ([int(x, 16) for x in parts.split()] + [0])[:2]
            pairs.append((c, a, b))
    order = sorted((a, b, i) for i, (c, a, b) in enumerate(pairs) if b and unicodedata.normalize("NFC", chr(c)) == chr(c))
    marks, last = [], None
    for c in CODES:
        k = unicodedata.combining(chr(c))
        if k and last and last[1] == c - 1 and last[2] == k:
            last[1] = c
        elif k:
            last = [c, c, k]
            marks.append(last)
    out = pathlib.Path(sys.argv[1])
    body = ("/* {code, first, second} of its canonical decomposition, which may be decomposed further; second 0: none. By code. */\n"
            "static const uint32_t nfc_pairs[][3] = {\n" + lines(f"{{{c:#x},{a:#x},{b:#x}}}" for c, a, b in pairs) + "\n};\n\n"
            "/* Places in nfc_pairs of those that are composed, by (first, second). */\n"
            "static const uint16_t nfc_composed[] = {\n" + lines(str(i) for _, _, i in order) + "\n};\n")
    (out / "nfc_pairs.h").write_text(header("nfc_pairs.h", "MODEL_TOKENIZER_NFC_PAIRS_H", "canonical decompositions and compositions without Hangul.", body))
    body = ("/* {first, last, class}: canonical combining classes other than 0. */\n"
            "static const uint32_t nfc_marks[][3] = {\n" + lines(f"{{{a:#x},{b:#x},{k}}}" for a, b, k in marks) + "\n};\n")
    (out / "nfc_marks.h").write_text(header("nfc_marks.h", "MODEL_TOKENIZER_NFC_MARKS_H", "canonical combining classes.", body))


if __name__ == "__main__":
    main()
