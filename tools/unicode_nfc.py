#!/usr/bin/env python3
"""Tables of decomposition and composition for model/tokenizer/nfc.c, from Python's unicodedata.

    tools/unicode_nfc.py model/tokenizer

It writes nfc_pairs.h, nfc_marks.h and nfkd_codes.h."""
import pathlib
import sys
import unicodedata

CODES = [c for c in range(0x110000) if not 0xac00 <= c < 0xd7a4 and not 0xd800 <= c < 0xe000]

# Characters of Unicode 12 to 14, whose compatibility decompositions the package tokenizers (0.23.3) does not have.
NEWER = {0x32ff, 0xa7f2, 0xa7f3, 0xa7f4, 0xab69, *range(0x10781, 0x107bb), 0x1f16c, *range(0x1fbf0, 0x1fbfa)}


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
    rows, codes = [], []
    for c in CODES:
        if not unicodedata.decomposition(chr(c)).startswith("<") or c in NEWER:
            continue
        form = [ord(x) for x in unicodedata.normalize("NFKD", chr(c))]
        if rows and rows[-1][1] == c - 1 and rows[-1][3] == len(form):
            rows[-1][1] = c
        else:
            rows.append([c, c, len(codes), len(form)])
        codes += form
    assert max(codes) < 1 << 16
    body = ("/* {first, last, at, n}: character first + i becomes the n codes from nfkd_codes[at + i * n] on. By code. */\n"
            "static const uint32_t nfkd_rows[][4] = {\n" + lines(f"{{{a:#x},{b:#x},{at},{n}}}" for a, b, at, n in rows) + "\n};\n\n"
            "static const uint16_t nfkd_codes[] = {\n" + lines(f"{c:#x}" for c in codes) + "\n};\n")
    (out / "nfkd_codes.h").write_text(header("nfkd_codes.h", "MODEL_TOKENIZER_NFKD_CODES_H", "complete compatibility decompositions.", body))


if __name__ == "__main__":
    main()
