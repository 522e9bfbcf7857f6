#!/usr/bin/env python3
"""Writes the calls of test_api_arguments.c: every public function with every bad argument, one function of C for each.

    rows.py SOURCE_DIR VERSION_H >rows.h

For each parameter the calls have that one bad argument, while the others are those of the fixture. A pointer is NULL,
numbers and sizes are out of range, enumerators are no enumerators, floats are NaN, and each member of an options struct is
out of range. It fails for a parameter, a member or a result that the tables of arguments.py do not cover, so a new function
needs its rows there."""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "tests/abi"))
import arguments as table
import headers


def parameters(declaration):
    inside = declaration[declaration.index("(") + 1:declaration.rindex(")")].replace(") RP_PRINTF(2, 3", "")
    for text in inside.split(", "):
        if text not in ("void", "..."):
            kind, name, array = re.match(r"(.*?)(\w+)(\[\w*\])?$", text).groups()
            yield kind.strip() + ("*" if array and not kind.strip().endswith("*") else "*" if array else ""), name


def members(header, struct):
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (struct, struct), header, re.S)[1]
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        callback = re.match(r"\s*(?:bool|void|float|RpStatus) \(\*(\w+)\)", line)
        plain = re.match(r"\s*(.*?[\s*])(\w+(?:\[\w+\])?(?:, \w+(?:\[\w+\])?)*)\s*$", line, re.S)
        if callback:
            yield "callback", callback[1]
        elif plain:
            for name in plain[2].split(", "):
                yield " ".join(plain[1].split()), re.sub(r"\[.*", "[0]", name)
        elif line.strip():
            raise SystemExit(f"rows.py: a member of {struct} is not understood: {line}")


class Function:
    def __init__(self, name, declaration, everything):
        self.name, self.shown = name, name.removesuffix("_sized")
        self.result = re.sub(r"RP_API |RP_NODISCARD ", "", declaration.split(name + "(")[0]).strip()
        self.parameters = list(parameters(declaration))
        self.everything = everything
        self.lines = []

    def value(self, kind, name):
        for key in (f"{self.name}.{name}", f"{kind} {name}".replace("* ", "*"), kind):
            if key in table.VALID:
                return table.VALID[key]
        raise SystemExit(f"arguments.py: VALID has no value for {self.name}: {kind} {name}")

    def call(self, bad, value, others={}):
        given = [value if name == bad else others.get(name) or self.value(kind, name) for kind, name in self.parameters]
        return f"{self.name}({', '.join(given)})"

    def accepted(self, call):
        return f"{call};" if self.result == "void" else f"ACCEPTED({call});"

    def expect(self, call, name, null):
        """The check of one call: what is documented for a bad argument."""
        key = f"{self.name}.{name}"
        if key in table.ALLOWED or (not null and key in table.ANY):
            return self.accepted(call)
        if self.result == "RpStatus":
            return f'REFUSED_NULL({call}, "{self.shown}", "{name}");' if null else f'REFUSED({call}, "{key}");'
        if not null:
            return self.accepted(call)
        if self.result == "void":
            return f"{call};"
        neutral = table.NEUTRAL.get(self.name, table.NEUTRAL.get(self.result))
        if neutral is None:
            raise SystemExit(f"arguments.py: NEUTRAL has nothing for {self.name} or {self.result}")
        return neutral.replace("CALL", call).replace("KEY", f'"{key}"')

    def bad_numbers(self, kind, name):
        for key in (f"{self.name}.{name}", name, kind):
            if key in table.BAD:
                return table.BAD[key]
        raise SystemExit(f"arguments.py: BAD has no row for {self.name}: {kind} {name}")

    def add(self, text):
        self.lines += ["    fresh(x);", "    " + text]

    def struct_rows(self, kind, name):
        struct = re.match(r"const (Rp\w+(?:Options|Params|Description|Pattern|Source|ExternalMemory)) \*$", kind)
        if not struct or struct[1] == "RpOpParams":
            return
        for member_kind, member in members(self.everything, struct[1]):
            bad = table.MEMBERS.get(f"{struct[1]}.{member}", table.BAD.get(member_kind))
            if bad is None:
                raise SystemExit(f"arguments.py: MEMBERS has no row {struct[1]}.{member} ({member_kind})")
            for value in bad:
                may_be_legal, value = value.startswith("?"), value.removeprefix("?")
                call = self.call(name, "&o")
                refused = self.result == "RpStatus" and not may_be_legal and f"{self.name}.{member}" not in table.ANY
                shown = f"{self.shown}: {struct[1]}.{member} = {value}".replace('"', "'")
                check = f'REFUSED({call}, "{shown}");' if refused else self.accepted(call)
                self.add("{ %s o = *(%s)%s; o.%s = %s; %s }" % (struct[1], kind, self.value(kind, name), member, value,
                                                              check))

    def write(self):
        for kind, name in self.parameters:
            if f"{self.name}.{name}" in table.SPECIAL:
                self.add(table.SPECIAL[f"{self.name}.{name}"])
                self.struct_rows(kind, name)
            elif kind.endswith("*") or kind.endswith("*const") or kind in table.CALLBACKS:
                if name != "user":
                    self.add(self.expect(self.call(name, "NULL"), name, True))
                self.struct_rows(kind, name)
            elif name in table.SIZES_OF_OPTIONS: # a newer caller sets members that this library lacks
                self.add(self.expect(self.call(name, "ROOM", {name.removesuffix("_bytes"): "(void *)x->ones"}), name, False))
            elif name != "user":
                for value in self.bad_numbers(kind, name):
                    self.add(self.expect(self.call(name, value), name, False))
        print(f"static void call_{self.name}(Fixture *x) {{\n    (void)x;\n" + "\n".join(self.lines) + "\n}\n")


everything, names = "", []
for header in sorted((source / "include/reprise").glob("*.h")) + [pathlib.Path(sys.argv[2])]:
    everything += header.read_text()
    declared = [(name, text) for name, text, inline in headers.functions(header) if not inline]
    names += [(header.stem, name, text) for name, text in declared]
for _, name, text in names:
    Function(name, text, everything).write()
print("static const Row rows[] = {")
print("\n".join(f'    {{"{header}", "{name}", call_{name}}},' for header, name, _ in names))
print("};")
