"""The public headers as data: functions, structs, enumerations, and the layout that the C compiler gives them.

The compiler expands the lists of macros (`cc -E`); the declarations that remain are parsed here. A type is a tuple:

    ("name", "int32_t", is_const)      ("pointer", type, is_const)      ("array", type, length)
    ("function", result, [(type, name)], is_variadic)                   ("aggregate", "struct" or "union", members)

Members and parameters are pairs (type, name)."""
import os
import pathlib
import re
import subprocess
import tempfile

CC = os.environ.get("CC", "cc")
TOKEN = re.compile(r"[A-Za-z_]\w*|\d\w*|\.\.\.|<<|\"(?:\\.|[^\"\\])*\"|\S")
BASIC = {"char", "int", "unsigned", "long", "short", "signed", "float", "double", "void", "_Bool"}


class Declarations:
    """What the headers declare, in their order. `headers[name]` is the header of a name."""

    def __init__(self):
        self.functions, self.aliases, self.aggregates, self.enums = {}, {}, {}, {}
        self.opaque, self.header = [], {}


class Parser:
    def __init__(self, text, header, into):
        self.tokens, self.at, self.header, self.into = TOKEN.findall(text), 0, header, into

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted=None):
        token = self.peek()
        if wanted is not None and token != wanted:
            raise SystemExit(f"{self.header}: '{wanted}' expected before: {' '.join(self.tokens[self.at:self.at + 12])}")
        self.at += 1
        return token

    def skip(self, opening, closing):
        depth = 0
        while True:
            token = self.take()
            depth += (token == opening) - (token == closing)
            if depth == 0:
                return

    def specifiers(self):
        """(type, storage words) in front of the declarators."""
        words, const, storage, kind = [], False, set(), None
        while True:
            token = self.peek()
            if token in ("typedef", "static", "inline", "extern"):
                storage.add(self.take())
            elif token == "__attribute__":
                self.take()
                self.skip("(", ")")
            elif token == "const":
                const = bool(self.take())
            elif token in ("struct", "union", "enum"):
                kind = self.tagged(self.take())
            elif token in BASIC:
                words.append(self.take())
            elif kind is None and not words and re.match(r"[A-Za-z_]", token):
                words.append(self.take())
            else:
                break
        if kind is None:
            kind = ("name", " ".join(words), const)
        elif kind[0] == "name":
            kind = ("name", kind[1], const)
        return kind, storage

    def tagged(self, what):
        tag = self.take() if re.match(r"\w", self.peek()) else None
        if self.peek() != "{":
            return ("name", tag, False)
        self.take("{")
        if what == "enum":
            names = []
            while self.peek() != "}":
                names.append(self.take())
                while self.peek() not in (",", "}"):
                    self.take()
                if self.peek() == ",":
                    self.take()
            self.take("}")
            self.into.enums[tag or names[0]] = (tag, names)
            self.into.header[tag or names[0]] = self.header
            return ("name", tag, False)
        members = []
        while self.peek() != "}":
            kind, _ = self.specifiers()
            if self.peek() == ";":
                members.append((kind, None))
            while self.peek() != ";":
                members.append(self.declarator(kind))
                if self.peek() == ",":
                    self.take()
            self.take(";")
        self.take("}")
        if tag is None:
            return ("aggregate", what, members)
        self.into.aggregates[tag] = (what, members)
        self.into.header[tag] = self.header
        return ("name", tag, False)

    def declarator(self, kind):
        while self.peek() == "*":
            self.take()
            const = self.peek() == "const" and bool(self.take())
            kind = ("pointer", kind, const)
        name, inner = None, None
        if self.peek() == "(" and self.tokens[self.at + 1] == "*":
            self.take("(")
            inner = self.at
            depth = 1
            while depth:
                token = self.take()
                depth += (token == "(") - (token == ")")
        elif re.match(r"[A-Za-z_]", self.peek()):
            name = self.take()
        kind = self.suffixes(kind)
        if inner is not None:
            end, self.at = self.at, inner
            kind, name = self.declarator(kind)
            self.at = end
        while self.peek() == "__attribute__":
            self.take()
            self.skip("(", ")")
        return kind, name

    def suffixes(self, kind):
        if self.peek() == "[":
            self.take()
            length = []
            while self.peek() != "]":
                length.append(self.take())
            self.take("]")
            return ("array", self.suffixes(kind), " ".join(length))
        if self.peek() == "(":
            self.take()
            parameters, variadic = [], False
            while self.peek() != ")":
                if self.peek() == "...":
                    variadic = bool(self.take())
                else:
                    parameter, _ = self.specifiers()
                    parameter, name = self.declarator(parameter)
                    if parameter[0] == "array":
                        parameter = ("pointer", parameter[1], False)
                    elif parameter[0] == "name" and parameter[1] in self.into.aliases \
                            and self.into.aliases[parameter[1]][0] == "function":
                        parameter = ("pointer", parameter, False)
                    if parameter != ("name", "void", False):
                        parameters.append((parameter, name))
                if self.peek() == ",":
                    self.take()
            self.take(")")
            return ("function", kind, parameters, variadic)
        return kind

    def item(self):
        kind, storage = self.specifiers()
        while self.peek() != ";":
            declared, name = self.declarator(kind)
            if "typedef" in storage:
                if declared != ("name", name, False):
                    self.into.aliases[name] = declared
                    self.into.header[name] = self.header
                elif name not in self.into.aggregates and name not in self.into.enums:
                    self.into.opaque.append(name)
                    self.into.header[name] = self.header
            elif declared[0] == "function" and "inline" not in storage:
                self.into.functions[name] = declared
                self.into.header[name] = self.header
            if self.peek() == "{":
                self.skip("{", "}")
                return
            if self.peek() == ",":
                self.take()
        self.take(";")

    def parse(self):
        while self.at < len(self.tokens):
            self.item()


def include_folder(source, into):
    """A folder with version.h, which a build makes of version.h.in."""
    text = (source / "cmake/version.h.in").read_text()
    (into / "reprise").mkdir()
    (into / "reprise/version.h").write_text(re.sub(r"@\w+@", "0", text))
    return [f"-I{source / 'include'}", f"-I{into}"]


def of_headers(text):
    """(header, text) of the pieces of preprocessed text that come from reprise/*.h."""
    name = None
    pieces = []
    for line in text.splitlines():
        mark = re.match(r'# \d+ "(.*)"', line)
        if mark:
            found = re.search(r"/reprise/(\w+\.h)$", mark[1])
            name = found[1] if found else None
        elif name is not None:
            if pieces and pieces[-1][0] == name:
                pieces[-1][1].append(line)
            else:
                pieces.append((name, [line]))
    return [(name, "\n".join(lines)) for name, lines in pieces]


def read(source, names=("reprise.h", "nn.h")):
    """Declarations of the headers, and what the compiler says of them: values {enumerator: number}, sizes
    {struct: (size, alignment, [(member, offset)])}."""
    source = pathlib.Path(source).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        flags = include_folder(source, folder)
        lines = "".join(f'#include "reprise/{name}"\n' for name in names)
        text = subprocess.run([CC, "-std=c17", "-E", *flags, "-"], input=lines, capture_output=True, text=True, check=True).stdout
        found = Declarations()
        # A header is cut into pieces by its includes, and no declaration reaches over one.
        for header, piece in of_headers(text):
            Parser(piece, header, found).parse()
        return found, *measure(found, lines, flags, folder)


def measure(found, includes, flags, folder):
    """A C program prints the values of enumerators, and sizes and offsets of structs."""
    out = [includes, "#include <stdio.h>\n#include <stddef.h>\nint main(void) {\n"]
    for _, names in found.enums.values():
        out += [f'printf("value {name} %lld\\n", (long long){name});\n' for name in names]
    for tag, (_, members) in found.aggregates.items():
        out.append(f'printf("size {tag} %zu %zu\\n", sizeof({tag}), _Alignof({tag}));\n')
        out += [f'printf("offset {tag} {name} %zu\\n", offsetof({tag}, {name}));\n' for _, name in members if name]
    out.append("return 0;\n}\n")
    (folder / "measure.c").write_text("".join(out))
    subprocess.run([CC, "-std=c17", *flags, "-o", folder / "measure", folder / "measure.c"], check=True)
    values, sizes = {}, {}
    for line in subprocess.run([folder / "measure"], capture_output=True, text=True, check=True).stdout.splitlines():
        what, name, *rest = line.split()
        if what == "value":
            values[name] = int(rest[0])
        elif what == "size":
            sizes[name] = (int(rest[0]), int(rest[1]), [])
        else:
            sizes[name][2].append((rest[0], int(rest[1])))
    return values, sizes
