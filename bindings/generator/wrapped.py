"""functions.txt of a binding: the public C functions that its code calls, one a line. Lines of a doc comment."""
import pathlib
import re
import textwrap


def wrapped(folder, patterns, known):
    """The functions of `known` that the sources of `folder` call. `patterns` has the form of a call for each kind of file:
    {"*.go": "C."} finds C.rp_tokenize. A function that is inline in C stands for the one that it calls, NAME_sized."""
    found = set()
    for files, call in patterns.items():
        for path in sorted(pathlib.Path(folder).glob(files)):
            text = re.sub(r"^\s*(//|/?\*).*$", "", path.read_text(), flags=re.M)
            found |= set(re.findall(re.escape(call) + r"\b(rp_\w+)", text))
    names = {name if name in known else name + "_sized" for name in found} & set(known)
    return "".join(f"{name}\n" for name in sorted(names))


def lines_of(text):
    """`text` in lines of at most 100 characters; no word or name is cut."""
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)
