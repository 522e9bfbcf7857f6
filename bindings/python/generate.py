#!/usr/bin/env python3
"""Writes those modules of the Python package that repeat the C headers, or says whether they are up to date.

    generate.py [--write]

    src/reprise/_c.py      structs, enumerations, prototypes     from tests/abi/reprise.abi, nn.h and the headers' declarations
    src/reprise/_ops.py    the builder functions of graph.h as methods
    src/reprise/_nn/functions.pyi   the parameters of the functions of nn.h, for editors and type checkers
    functions.txt          the public functions that the package calls

reprise.abi is the compiler's view of the headers (tests/abi/check.sh compares the two): types, layouts and enumerators. Names
of parameters and comments are read from the headers. nn.h is expanded by the C compiler (CC, or cc)."""
import difflib
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
PACKAGE = HERE / "src/reprise"
sys.path[:0] = [str(SOURCE / "tests/abi"), str(SOURCE / "tests/nn")]
import functions as nn_lists  # noqa: E402
import headers  # noqa: E402

BASIC = {"bool": "bool", "char": "char", "double": "f64", "float": "f32", "int": "i32", "long int": "i64",
         "unsigned char": "u8", "unsigned int": "u32", "unsigned long int": "u64", "short int": "i16",
         "unsigned short int": "u16", "void": None}
CTYPES = {"bool": "ct.c_bool", "char": "ct.c_char", "f64": "ct.c_double", "f32": "ct.c_float", "i32": "ct.c_int32",
          "i64": "ct.c_int64", "u8": "ct.c_uint8", "u32": "ct.c_uint32", "u64": "ct.c_uint64", "i16": "ct.c_int16",
          "u16": "ct.c_uint16", "pointer": "ct.c_void_p", "text": "ct.c_char_p", "status": "ct.c_int32"}
PYTHON = {"bool": "bool", "f64": "float", "f32": "float", "pointer": "int | None", "text": "bytes | None", "char": "bytes"}
NN_KINDS = {"int32_t": "i32", "int64_t": "i64", "float": "f32", "uint64_t": "u64", "double": "f64", "uint32_t": "u32"}
# Enumerators without a type, and macros, that the package uses.
CONSTANTS = ["RP_TOK_ADD_SPECIAL", "RP_TOK_PARSE_SPECIAL", "RP_FLAG_INPLACE", "RP_FLAG_FUSED", "RP_SOURCE_WAITS", "RP_MAX_DIMS",
             "RP_MAX_SRC", "RP_NN_ABI_VERSION"]


def public_headers():
    return sorted((SOURCE / "include/reprise").glob("*.h")) + [SOURCE / "cmake/version.h.in"]


class Abi:
    """Types of reprise.abi by their id."""

    def __init__(self):
        self.root = ElementTree.parse(SOURCE / "tests/abi/reprise.abi").getroot()
        self.types = {node.get("id"): node for node in self.root.iter() if node.get("id") and node.tag != "subrange"}

    def strip(self, type_id):
        """The type behind typedefs and const, and whether it is const."""
        node, const = self.types[type_id], False
        while node.tag in ("typedef-decl", "qualified-type-def"):
            const |= node.tag == "qualified-type-def"
            node = self.types[node.get("type-id")]
        return node, const

    def kind(self, type_id, text=True):
        """A key of CTYPES, or an expression. `text`: const char * is a terminated text."""
        node, _ = self.strip(type_id)
        if node.tag == "type-decl":
            return "i32" if "enum-underlying" in node.get("name") else BASIC[node.get("name")]
        if node.tag == "enum-decl":
            return "status" if node.get("name") == "RpStatus" else "i32"
        if node.tag == "pointer-type-def":
            inner, const = self.strip(node.get("type-id"))
            if inner.tag == "function-type":
                return self.callback(inner)
            return "text" if text and const and inner.get("name") == "char" else "pointer"
        if node.tag == "array-type-def":
            return f"{self.ctype(node.get('type-id'))} * {node.find('subrange').get('length')}"
        return node.get("name")

    def ctype(self, type_id, text=True):
        kind = self.kind(type_id, text)
        return CTYPES.get(kind, kind)

    def callback(self, function):
        result = self.kind(function.find("return").get("type-id"))
        inside = [CTYPES.get(result, "None")] + [self.ctype(p.get("type-id"), False) for p in function.findall("parameter")]
        return f"ct.CFUNCTYPE({', '.join(inside)})"

    def enums(self):
        for node in self.root.iter("enum-decl"):
            yield node.get("name"), [(e.get("name"), int(e.get("value"))) for e in node.findall("enumerator")]

    def members(self, node):
        for member in node.findall("data-member"):
            variable = member.find("var-decl")
            yield variable.get("name"), variable.get("type-id"), int(member.get("layout-offset-in-bits", 0)) // 8

    def structs(self):
        """(name, base, [(member, C type, Python type)], bytes) with every struct behind those that it contains."""
        done = []
        nodes = {n.get("name"): n for tag in ("class-decl", "union-decl") for n in self.root.iter(tag)
                 if n.get("size-in-bits") and not n.get("is-anonymous")}

        def visit(name):
            if name in done or name not in nodes:
                return
            fields = []
            for member, type_id, offset in self.members(nodes[name]):
                inner, _ = self.strip(type_id)
                if inner.get("is-anonymous") or nodes[name].tag == "union-decl" and member == "src":
                    # The union of numbered and named sources: the numbered ones.
                    source = next(m for m in self.members(inner if inner.get("is-anonymous") else nodes[name]) if m[0] == "src")
                    fields.append(("src", source[1]))
                    if nodes[name].tag == "union-decl":
                        break
                else:
                    fields.append((member, type_id))
            for _, type_id in fields:
                inner, _ = self.strip(type_id)
                while inner.tag == "array-type-def":
                    inner, _ = self.strip(inner.get("type-id"))
                yield from visit(inner.get("name"))
            done.append(name)
            plain_text = name != "RpGgufString" # its text is not terminated
            listed = []
            for member, type_id in fields:
                kind = self.kind(type_id, plain_text)
                python = PYTHON.get(kind, kind if kind in nodes else "Any" if "ct." in kind or " * " in kind else "int")
                listed.append((member, self.ctype(type_id, plain_text), python))
            yield name, "Union" if nodes[name].tag == "union-decl" else "Structure", listed, int(nodes[name].get("size-in-bits")) // 8
        for name in nodes:
            yield from visit(name)

    def functions(self):
        for node in self.root.iter("function-decl"):
            if any(p.get("is-variadic") for p in node.findall("parameter")):
                continue # rp_fail
            yield (node.get("name"), self.kind(node.find("return").get("type-id")),
                   [self.kind(p.get("type-id")) for p in node.findall("parameter")])


def declarations():
    """{function: its declaration} of the headers, without those of nn.h."""
    return {name: text for header in public_headers() for name, text, inline in headers.functions(header) if not inline}


def parameters(declaration):
    """[(type, name)] of a declaration."""
    inside = declaration[declaration.index("(") + 1:declaration.rindex(")")]
    for text in inside.split(", "):
        if text not in ("void", "..."):
            kind, name = re.match(r"(.*?)(\w+)(?:\[\w*\])?$", text).groups()
            yield kind.strip(), name


def constant(name, text):
    found = re.search(r"(?:#define %s |\b%s\s*= )(\d+(?: << \d+)?)" % (name, name), text)
    if found is None:
        raise SystemExit(f"generate.py: no value of {name} in the headers")
    return eval(found[1])  # noqa: S307: digits and <<


def lines(prefix, items, suffix):
    """A list on lines of at most 120 columns."""
    out, line = [], prefix
    for item in items:
        if len(line) + len(item) + 2 > 118:
            out.append(line.rstrip())
            line = " " * (len(prefix) - len(prefix.lstrip()) + 8)
        line += item + ", "
    return out + [line.rstrip(", ") + suffix]


def c_module():
    abi, declared = Abi(), declarations()
    text = "\n".join(header.read_text() for header in public_headers())
    out = ['"""The C interface of libreprise and libreprise_nn. Written by generate.py from the headers; do not edit."""',
           "import ctypes as ct", "import enum", "from typing import Any", ""]
    out += [f"{name} = {constant(name, text)}" for name in CONSTANTS]
    for name, values in abi.enums():
        out += ["", "", f"class {name}(enum.IntEnum):"] + [f"    {key} = {value}" for key, value in values]
    nn_status = re.search(r"typedef enum RpNnStatus \{(.*?)\}", (SOURCE / "include/reprise/nn.h").read_text(), re.S)[1]
    out += ["", "", "class RpNnStatus(enum.IntEnum):"]
    out += [f"    {key} = {value}" for key, value in re.findall(r"(\w+)\s*= (-?\d+)", nn_status)]
    for name, base, members, size in abi.structs():
        out += ["", "", f"class {name}(ct.{base}): # {size} bytes"]
        out += [f"    {member}: {python}" for member, _, python in sorted(members, key=lambda m: m[0] == "bytes")]
        out += lines("    _fields_ = [", [f'("{member}", {kind})' for member, kind, _ in members], "]")
    out += ["", "", "# {function: (result, [type of each parameter], \"their names\")}",
            "PROTOTYPES: dict[str, tuple[str | None, list[str], str]] = {"]
    missing = set(declared) - {name for name, _, _ in abi.functions()} - {"rp_fail"}
    if missing:
        raise SystemExit(f"generate.py: tests/abi/reprise.abi lacks {sorted(missing)}: tests/abi/check.sh --write")
    for name, result, kinds in sorted(abi.functions()):
        if name not in declared:
            raise SystemExit(f"generate.py: no header declares {name} of tests/abi/reprise.abi: tests/abi/check.sh --write")
        names = [parameter for _, parameter in parameters(declared[name])]
        shown = [repr(kind if kind in CTYPES else "pointer" if kind.startswith("ct.") else kind).replace("'", '"') for kind in kinds]
        assert len(names) == len(kinds), (name, names, kinds)
        # A text with a length need not be terminated.
        shown = ['"pointer"' if kind == '"text"' and after in ("len", "n", f"{name_of}_len") else kind
                 for kind, name_of, after in zip(shown, names, [*names[1:], ""])]
        result = f'"{result}"' if result else "None"
        out.append(f'    "{name}": ({result}, [{", ".join(shown)}], "{" ".join(names)}"),')
    out += ["}", "", "# {function: [(C type, name)]}", "NN: dict[str, list[tuple[str, str]]] = {"]
    for result, symbol, listed in nn_lists.symbols(SOURCE):
        if result == "int32_t":
            shown = ", ".join(f'("{kind}", "{name}")' for kind, name in listed)
            out.append(f'    "{symbol}": [{shown}],')
    out += ["}", "", "# The comments of nn.h.", "NN_DOCS: dict[str, str] = {"]
    for _, symbol, _ in nn_lists.symbols(SOURCE):
        doc = nn_lists.doc_of(SOURCE, symbol.removeprefix("rp_nn_"))
        doc = re.sub(r"----.*?----", "", doc).strip()
        if doc and not symbol.startswith("rp_nn_cpu_"):
            out.append(f'    "{symbol.removeprefix("rp_nn_")}": {doc!r},')
    return "\n".join(out + ["}", ""])


# ---- the builder functions ----

BY_HAND = {"rp_graph_weight_external", "rp_graph_input", "rp_graph_state", "rp_graph_weight", "rp_graph_op", "rp_view", "rp_reshape", "rp_permute",
           "rp_transpose", "rp_node_set_name"}
DEFAULTS = {"bias": "0.0", "freq_base": "10000.0", "freq_scale": "1.0", "attn_factor": "1.0", "beta_fast": "32.0", "beta_slow": "1.0",
            "RpSoftMaxParams.scale": "1.0", "RpRouteParams.scale": "1.0"}
REQUIRED = {"n_dims", "k", "RpAttentionParams.scale"}
SCALARS = {"float": "float", "int32_t": "int", "int": "int", "int64_t": "int"}


def enumerators(abi, name):
    """{"tanh": 0, "erf": 1} of RpGeluKind: what remains without the common beginning."""
    values = dict(abi.enums())[name]
    prefix = os.path.commonprefix([key for key, _ in values])
    prefix = prefix[:prefix.rindex("_") + 1]
    return {key.removeprefix(prefix).lower(): value for key, value in values}


def argument(abi, kind, name, owner=""):
    """(annotation, default or None, expression) of a scalar parameter."""
    if kind in SCALARS or kind == "bool":
        python = SCALARS.get(kind, "bool")
        default = DEFAULTS.get(f"{owner}.{name}", DEFAULTS.get(name))
        if default is None and owner and name not in REQUIRED and f"{owner}.{name}" not in REQUIRED:
            default = {"float": "0.0", "int": "0", "bool": "False"}[python]
        return python, default, name
    if kind == "RpDtype":
        return "DtypeLike", '"f32"' if owner else None, f"dtype_number({name})"
    names = enumerators(abi, kind)
    first = next(iter(names)) if owner else None
    return (f"Literal[{', '.join(repr(n) for n in names)}]".replace("'", '"'), first and f'"{first}"',
            f'choice("{name}", {name}, {names})'.replace("'", '"'))


def struct_members(name):
    text = (SOURCE / "include/reprise/op_params.h").read_text()
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), text, re.S)[1]
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        found = re.match(r"\s*(\w+)\s+(.*?)\s*$", line, re.S)
        if found:
            yield from ((found[1], member) for member in re.split(r",\s*", found[2]) if not member.startswith("unused"))


def comment_above(text, name):
    """The comment of a builder function, which may stand above several of them."""
    before = text[:re.search(r"RP_API TensorNode \*%s\(" % name, text).start()]
    found = before[before.rindex("/*") + 2:before.rindex("*/")]
    return " ".join(re.sub(r"\n \* ?", " ", found).split())


def method(abi, name, declared, text):
    nodes, scalars, passed = [], [], []
    for kind, parameter in list(parameters(declared))[1:]:
        if kind == "TensorNode *":
            optional = parameter.endswith("_or_null")
            parameter = parameter.removesuffix("_or_null")
            nodes.append(f"{parameter}: Node{' | None = None' if optional else ''}")
            passed.append(f"self._source({parameter})")
        elif kind.startswith("const Rp"):
            struct, members = kind.split()[1], []
            for member_kind, member in struct_members(struct):
                annotation, default, expression = argument(abi, member_kind, member, struct)
                scalars.append((member, annotation, default))
                members.append(f"{member}={expression}")
            passed.append(f"ct.byref(params(_c.{struct}, {', '.join(members)}))")
        else:
            annotation, default, expression = argument(abi, kind, parameter)
            scalars.append((parameter, annotation, default))
            passed.append(expression)
    scalars.sort(key=lambda scalar: scalar[2] is not None)
    shown = [f"{n}: {a}" + (f" = {d}" if d else "") for n, a, d in scalars]
    keyword = ["*"] if shown and ("None" in "".join(nodes) or "params(" in "".join(passed)) else []
    out = lines(f"    def {name.removeprefix('rp_')}(", ["self"] + nodes + keyword + shown, ") -> Node:")
    doc = comment_above(text, name)
    words, line = doc.split(), '        """'
    for word in words:
        if len(line) + len(word) > 116:
            out.append(line.rstrip())
            line = "        "
        line += word + " "
    out.append(line.rstrip() + '"""')
    return out + lines(f'        return self._node("{name}", ', passed, ")")


def ops_module():
    abi, text = Abi(), (SOURCE / "include/reprise/graph.h").read_text()
    out = ['"""The builder functions of graph.h as methods. Written by generate.py from the headers; do not edit.',
           "", "Comments give shapes as C does, innermost dimension first; node.shape is the other way round, as in NumPy.",
           '"""', "from __future__ import annotations", "", "import ctypes as ct", "from abc import abstractmethod",
           "from typing import TYPE_CHECKING, Any, Literal", "", "from . import _c", "from ._arrays import DtypeLike, dtype_number",
           "from ._lib import choice, params", "", "if TYPE_CHECKING:", "    from .graph import Node", "", "",
           "class Ops:", "    @abstractmethod", "    def _node(self, function: str, *arguments: Any) -> Node: ...", "",
           "    @abstractmethod", "    def _source(self, node: Node | None) -> int | None: ..."]
    declared = {name: d for name, d in declarations().items()
                if re.search(r"TensorNode \*rp_\w+\(ComputeGraph \*g", d) and name not in BY_HAND}
    for name in sorted(declared, key=lambda n: text.index(f"TensorNode *{n}(")):
        out += [""] + method(abi, name, declared[name], text)
    return "\n".join(out) + "\n"


# ---- the functions of nn.h ----

def nn_call(rule, kinds):
    """The parameters of nn.NAME, by its row of _nn/rules.py: inputs, then by name scalars and outputs."""
    rule = rule.partition("|")[0]
    arrays, _, scalars = rule.partition(";")
    inputs, _, outputs = ([re.match(r"(\w+)([?!+]*)\[(.*)\]", a).groups() for a in re.findall(r"\S+?\[[^\[\]]*\]", side)]
                          for side in arrays.partition("->"))
    shown = []
    for at, (name, _, _) in enumerate(inputs):
        optional = all("?" in marks for _, marks, _ in inputs[at:])
        shown.append(f"{name}: Any{' = None' if optional else ''}")
    shown.append("*")
    for name, _, default in (part.partition("=") for part in scalars.split()):
        kind = "DtypeLike" if name == "type" else {"float": "float", "double": "float"}.get(kinds.get(name), "int")
        shown.append(f"{name}: {kind}{f' = {default}' if default else ''}")
    return shown + [f"{name}: Any = None" for name, _, dims in outputs if dims] + ["stream: Any = None"]


def nn_functions():
    out = ['"""The functions of nn.h with their parameters. Written by generate.py from _nn/rules.py and nn.h; do not edit."""',
           "from typing import Any", "", "from .._arrays import DtypeLike", "from ..nn import Function"]
    rules = {}
    exec((PACKAGE / "_nn/rules.py").read_text(), rules)  # noqa: S102: a file of this package
    called = {}
    for _, symbol, listed in nn_lists.symbols(SOURCE):
        if symbol.startswith("rp_nn_cpu_"):
            name, kinds = symbol.removeprefix("rp_nn_cpu_"), {parameter: kind for kind, parameter in listed}
            rule = rules["RULES"].get(name)
            if rule is None and name.endswith("_workspace"):
                rule = "-> bytes[]; " + " ".join(parameter for _, parameter in listed[:-1])
            if rule is not None:
                called[name] = nn_call(rule, kinds)
    for name, shown in sorted(called.items()):
        out += ["", f"class _{name}(Function):"] + lines("    def __call__(", ["self", *shown], ") -> Any: ...")
    return "\n".join(out + [""] + [f"{name}: _{name}" for name in sorted(called)] + [""])


def functions_list():
    known = set(declarations()) | {symbol for _, symbol, _ in nn_lists.symbols(SOURCE)}
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path not in (PACKAGE / "_c.py", PACKAGE / "_nn/rules.py"):
            found |= set(re.findall(r"\brp_\w+", path.read_text()))
    rules = (PACKAGE / "_nn/rules.py").read_text()
    for name in re.findall(r'^    "(\w+)": ', rules, re.M):
        found |= {f"rp_nn_{name}", f"rp_nn_cpu_{name}", f"rp_nn_{name}_workspace", f"rp_nn_cpu_{name}_workspace"}
    return "".join(f"{name}\n" for name in sorted(found & known))


def main():
    write, bad = sys.argv[1:] == ["--write"], 0
    for path, make in ((PACKAGE / "_c.py", c_module), (PACKAGE / "_ops.py", ops_module),
                       (PACKAGE / "_nn/functions.pyi", nn_functions), (HERE / "functions.txt", functions_list)):
        old, new = path.read_text() if path.exists() else "", make()
        if old == new:
            continue
        if write:
            path.write_text(new)
        else:
            bad = 1
            sys.stdout.writelines(list(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), str(path.relative_to(SOURCE)), "what the headers give"))[:40])
    if bad:
        print("bindings/python/generate.py --write renews these files.")
    return bad


if __name__ == "__main__":
    sys.exit(main())
