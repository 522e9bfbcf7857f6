#!/usr/bin/env python3
"""Writes the keys and tensors that llama.cpp reads of a file, for each architecture of model/arch_table.c.

    make_keys.py LLAMA_CPP [OUT]        LLAMA_CPP: the folder vendor/llama.cpp of the sources of llama-cpp-python:
                                        pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
                                        OUT: tests/golden/keys.txt if absent

The section "all" has what is read for every architecture, each other what the functions of an architecture read
beside it. In a key ARCH is the name of the architecture, in a tensor N is the layer. Keys of adapters are not in
the list. tests/cli/test_keys.py compares it with the program. If the sources are written in a way that this script
does not understand, it fails."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
VERSION = re.search(r"^llama-cpp-python==\S+", (ROOT / "tools/requirements.txt").read_text(), re.M)[0]

# What reads files of every architecture: (file, function), and files whose keys are all of this kind.
GENERIC = [("llama-model.cpp", "load_hparams"), ("llama-model.cpp", "load_tensors"), ("llama-model.cpp", "load"),
           ("llama-model.cpp", "llama_model_meta_key_str"), ("llama-model.cpp", "llama_model_chat_template")]
WHOLE_FILES = "llama-vocab.cpp", "llama-model-loader.cpp"
OF_ARCH = "load_arch_hparams", "load_arch_tensors"

Function = collections.namedtuple("Function", "owner name body")


def names(text, table):
    """{constant: text} of a map of llama-arch.cpp."""
    inside = re.search(rf"{table} = \{{\n(.*?)^\}};", text, re.S | re.M)[1]
    return dict(re.findall(r'\{\s*(LLM_\w+),\s*"([^"]*)"\s*\}', inside))


def closing(text, at):
    """The index behind the brace that closes the one at `at`."""
    depth = 0
    for m in re.finditer(r"[{}]", text[at:]):
        depth += 1 if m[0] == "{" else -1
        if depth == 0:
            return at + m.end()
    raise SystemExit(f"a brace is not closed: {text[at:at + 60]!r}")


def without_comments(text):
    """Without the braces of strings and characters too, so that those of the code can be counted."""
    token = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(token, lambda m: " " if m[0][0] == "/" else re.sub("[{}]", "", m[0]), text, flags=re.S)


def functions(text):
    """The functions that begin at the start of a line."""
    head = r"^[A-Za-z][\w:*&<>, ]*?\s[*&]?(?:(\w+(?:::\w+)?)::)?(\w+)\([^;{}]*?\)[^;{}()]*\{"
    for m in re.finditer(head, text, re.M):
        yield Function(m[1], m[2], text[m.end() - 1:closing(text, m.end() - 1)])


def without_others(body, arch):
    """Without blocks of `if (arch == ...)` that compare with other architectures only; an else stays."""
    test = re.compile(r"if \(((?:[\w.]*arch == LLM_ARCH_\w+(?: \|\| )?)+)\) \{")
    m = test.search(body)
    while m:
        if arch not in re.findall(r"LLM_ARCH_\w+", m[1]):
            body = body[:m.start()] + "{}" + body[closing(body, m.end() - 1):]
        m = test.search(body, m.start() + 2)
    return body


class Source:
    def __init__(self, folder):
        src = folder / "src"
        arch = (src / "llama-arch.cpp").read_text()
        self.archs = {name: constant for constant, name in names(arch, "LLM_ARCH_NAMES").items()}
        self.keys, self.tensors = names(arch, "LLM_KV_NAMES"), names(arch, "LLM_TENSOR_NAMES")
        model = without_comments((src / "llama-model.cpp").read_text())
        self.classes = dict(re.findall(r"case (LLM_ARCH_\w+):\s*return new (\w+)\(params\)", model))
        paths = [src / "llama-model.cpp", *(src / n for n in WHOLE_FILES), *sorted((src / "models").glob("*.cpp"))]
        self.files = {path.name: without_comments(path.read_text()) for path in paths}
        headers = (src / "models/models.h").read_text() + (src / "llama-model.h").read_text()
        self.base = dict(re.findall(r"^struct (\w+) : public (\w+)", headers, re.M))
        self.functions = {name: list(functions(text)) for name, text in self.files.items()}
        self.alignment = re.findall(r'#define GGUF_KEY_\w+ "(.*)"', (folder / "ggml/include/gguf.h").read_text())
        if min(len(self.archs), len(self.keys), len(self.tensors), len(self.classes)) < 100 or not self.alignment:
            raise SystemExit("the tables of llama-arch.cpp were not found")

    def definition(self, owner, name):
        """(file, function) of a member of this class or of the nearest above it that has one."""
        while owner:
            for file, all_of_file in self.functions.items():
                for f in all_of_file:
                    if (f.owner, f.name) == (owner, name):
                        return file, f
            owner = self.base.get(owner)
        return None

    def read(self, file, f, arch, seen):
        """The keys and tensors of a function and of all that it calls, but for those of OF_ARCH."""
        if (file, f.owner, f.name) in seen:
            return set()
        seen.add((file, f.owner, f.name))
        body = without_others(f.body, arch)
        found = self.found(body)
        for qualifier, name in re.findall(r"(?:\b(\w+)::)?\b(\w+)\(", body):
            if name in OF_ARCH and not qualifier:
                continue
            called = [(file, g) for g in self.functions[file] if g.name == name and g.owner in (None, f.owner)]
            member = self.definition(qualifier or self.classes.get(arch), name)
            for where, g in called + ([member] if member else []):
                if re.search("LLM_(KV|TENSOR)_|::load_arch_", g.body):
                    found |= self.read(where, g, arch, seen)
        return found

    def keys_of(self, body):
        found = {("key", self.keys[k].replace("%s", "ARCH")) for k in re.findall(r"\bLLM_KV_\w+", body)}
        return found | {("key", k) for k in re.findall(r'return "(general\.[\w.]+)"', body)}

    def found(self, body):
        """The keys and tensors of a text. A tensor is tn(NAME, "suffix", ...) or, without one, tn(NAME, layer)."""
        found = self.keys_of(body)
        named = list(re.finditer(r'\btn\(\s*(LLM_TENSOR_\w+)\s*(?:,\s*(?:"(\w+)"|(\w+))\s*)?[,)]', body))
        if len(named) != len(re.findall(r"\bLLM_TENSOR_\w", body)):
            raise SystemExit(f"a tensor is not named by tn(): {re.findall(r'[^;]*LLM_TENSOR_[^;]*;', body)}")
        for m in named:
            if m[3] not in (None, "i", "il", "bid"):
                raise SystemExit(f"the suffix of a tensor is not known: {m[0]}")
            name = self.tensors[m[1]].replace("%d", "N", 1).replace("%d", "E")
            found.add(("tensor", f"{name}.{m[2]}" if m[2] else name))
        return found

    def generic(self):
        found = {("key", name) for name in self.alignment}
        for file in WHOLE_FILES:
            found |= self.keys_of(self.files[file])
        for file, name in GENERIC:
            all_of_name = [f for f in self.functions[file] if f.name == name]
            if not all_of_name:
                raise SystemExit(f"{file} has no function {name}")
            for f in all_of_name:
                found |= self.read(file, f, None, set())
        return found

    def of_arch(self, name):
        if name not in self.archs:
            raise SystemExit(f"llama.cpp has no architecture {name}")
        arch = self.archs[name]
        found, seen = set(), set()
        for function in OF_ARCH:
            at = self.definition(self.classes[arch], function)
            if at is None:
                raise SystemExit(f"{self.classes[arch]}::{function} was not found")
            found |= self.read(*at, arch, seen)
        if len(found) < 10:
            raise SystemExit(f"only {found} for {name}")
        return found


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    source = Source(pathlib.Path(sys.argv[1]))
    out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "tests/golden/keys.txt"
    table = re.findall(r'^        \.name\s*= "([\w-]+)",', (ROOT / "model/arch_table.c").read_text(), re.M)
    generic = source.generic()
    lines = [f"# keys and tensors that llama.cpp reads, of {VERSION}, by tools/make_keys.py", "all"]
    lines += [f"  {kind} {name}" for kind, name in sorted(generic)]
    for name in sorted(table):
        lines += [name, *(f"  {kind} {what}" for kind, what in sorted(source.of_arch(name) - generic))]
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
