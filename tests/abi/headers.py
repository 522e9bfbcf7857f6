"""What the public headers declare, read from their text.

    headers.py stubs HEADER...      prints C with an empty definition of each exported function
"""
import pathlib
import re
import sys


def plain(text):
    """A header without comments, preprocessor lines, extern "C", and with every body {...} as {}."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif$", "", text, flags=re.S | re.M)
    text = re.sub(r"^#(.*\\\n)*.*$", "", text, flags=re.M)
    while (shorter := re.sub(r"\{[^{}]+\}", "{}", text)) != text:
        text = shorter
    return text


def functions(header):
    """(name, declaration, is inline) of each function of a header. Those of nn.h are of another library."""
    for piece in re.split(r";|(?<=\))\s*\{\}", plain(pathlib.Path(header).read_text())):
        words = " ".join(piece.split())
        name = re.search(r"(?<!\w)(rp_\w+)\(", words)
        if name and not name[1].startswith("rp_nn_") and not words.startswith("typedef") and "{" not in words:
            yield name[1], words, "static inline" in words


def stubs(headers):
    """Definitions that a compiler checks against the headers."""
    lines = ['#include "reprise/reprise.h"']
    for header in headers:
        for _, text, inline in functions(header):
            if not inline:
                lines.append(re.sub(r" RP_PRINTF\(.*\)$", "", text) + " { __builtin_trap(); }")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    assert sys.argv[1] == "stubs", __doc__
    print(stubs(sys.argv[2:]))
