"""The functions that include/reprise/nn.h declares, read from its lists.

    for name, parameters in functions(source, "RP_NN_FUNCTIONS"): ...      parameters: [("const float *", "x"), ...]
"""
import os
import pathlib
import re
import subprocess


def functions(source, which):
    header = (pathlib.Path(source) / "include/reprise/nn.h").read_text()
    body = re.search(r"#define %s\(F\)(.*?[^\\])\n" % which, header, re.S)[1].replace("\\\n", " ")
    body = re.sub(r"/\*.*?\*/", " ", body, flags=re.S)
    for name, inside in re.findall(r"\bF\((\w+), \((.*?)\),", body):
        parameters = [re.match(r"\s*(.*?)(\w+)\s*$", text).groups() for text in inside.split(",")]
        yield name, [(" ".join(kind.split()), parameter) for kind, parameter in parameters]


def types(source):
    """{"q4_0": (4, 32), ...}: the number of each RpDtype and the elements of its block."""
    header = (pathlib.Path(source) / "include/reprise/tensor.h").read_text()
    body = re.search(r"#define RP_DTYPES\(X\)(.*?[^\\])\n", header, re.S)[1]
    return {name: (i, int(block)) for i, (name, block) in enumerate(re.findall(r'X\(\w+, "(\w+)", (\d+)', body))}


def doc_of(source, name):
    """The comment above a function."""
    header = (pathlib.Path(source) / "include/reprise/nn.h").read_text()
    found = re.search(r"/\*((?:(?!\*/).)*)\*/\s*\\\n\s*F\(%s," % name, header, re.S)
    return " ".join(found[1].replace("\\\n", " ").replace(" * ", " ").split()) if found else ""


def symbols(source):
    """(result, symbol, parameters) of every function that nn.h declares, as the C compiler (CC, or cc) expands its lists."""
    include = pathlib.Path(source) / "include"
    text = subprocess.run([os.environ.get("CC", "cc"), "-E", "-P", "-I", include, include / "reprise/nn.h"], capture_output=True,
                          text=True, check=True).stdout
    for result, symbol, inside in re.findall(r"(int32_t|const char \*)\s*(rp_nn_\w+)\s*\(([^)]*)\);", text):
        parameters = [re.match(r"\s*(.*?)(\w+)\s*$", part).groups() for part in inside.split(",") if inside != "void"]
        yield result, symbol, [(" ".join(kind.split()), parameter) for kind, parameter in parameters]
