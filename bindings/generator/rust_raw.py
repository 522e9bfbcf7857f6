"""The declarations of the headers in Rust: reprise-sys/src/reprise.rs and nn.rs, and layout.rs, which checks them."""
import re

NAMES = {
    "int": "c_int", "unsigned": "c_uint", "char": "c_char", "unsigned char": "c_uchar", "float": "f32", "double": "f64",
    "void": "c_void", "_Bool": "bool", "size_t": "usize", "int8_t": "i8", "uint8_t": "u8", "int16_t": "i16",
    "uint16_t": "u16", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "uintptr_t": "usize",
}
KEYWORDS = {"as", "box", "fn", "gen", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "ref", "self", "trait",
            "type", "use", "where", "yield", "final", "override", "priv", "try", "macro", "dyn", "async", "await"}


def identifier(name):
    return name + "_" if name in KEYWORDS else name


class Raw:
    def __init__(self, declarations, values, sizes):
        self.d, self.values, self.sizes = declarations, values, sizes

    def type(self, kind):
        if kind[0] == "name":
            return NAMES.get(kind[1], kind[1])
        if kind[0] == "pointer":
            inner = kind[1]
            if inner[0] == "function" or inner[0] == "name" and self.is_function(inner[1]):
                return self.type(inner)
            constant = inner[2] if inner[0] in ("name", "pointer") else False
            return f"*{'const' if constant else 'mut'} {self.type(inner)}"
        if kind[0] == "array":
            length = kind[2] if re.fullmatch(r"\d+", kind[2]) else str(self.values[kind[2]])
            return f"[{self.type(kind[1])}; {length}]"
        if kind[0] == "function":
            inside = ", ".join(f"{identifier(name)}: {self.type(p)}" if name else self.type(p) for p, name in kind[2])
            return f"Option<unsafe extern \"C\" fn({inside}){self.result(kind)}>"
        raise SystemExit(f"rust_raw.py: no type for {kind}")

    def is_function(self, name):
        return name in self.d.aliases and self.d.aliases[name][0] == "function"

    def result(self, function):
        return "" if function[1] == ("name", "void", False) else f" -> {self.type(function[1])}"

    def enums(self, header):
        for key, (tag, names) in self.d.enums.items():
            if self.d.header[key] == header:
                kind = tag or "c_int"
                if tag:
                    yield f"pub type {tag} = c_int;"
                yield from (f"pub const {name}: {kind} = {self.values[name]};" for name in names)

    def members(self, tag):
        """(name, type). Structs without a tag in a union give names to the elements of its array, which stands for them."""
        what, members = self.d.aggregates[tag]
        for kind, name in members:
            if what == "union" and kind[0] == "aggregate":
                continue
            if name is None:
                kind, name = kind[2][0]
            yield name, self.type(kind)

    def aggregates(self, header):
        for tag, (what, _) in self.d.aggregates.items():
            if self.d.header[tag] != header:
                continue
            yield f"#[repr(C)]\n#[derive(Clone, Copy)]\npub {what} {tag} {{"
            yield from (f"    pub {identifier(name)}: {kind}," for name, kind in self.members(tag))
            yield "}"

    def functions(self, header):
        found = [name for name in self.d.functions if self.d.header[name] == header]
        if not found:
            return
        yield "extern \"C\" {"
        for name in found:
            function = self.d.functions[name]
            inside = [f"{identifier(p)}: {self.type(kind)}" for kind, p in function[2]] + ["..."] * function[3]
            yield f"    pub fn {name}({', '.join(inside)}){self.result(function)};"
        yield "}"

    def one_header(self, header):
        yield f"\n// ---- reprise/{header} ----"
        for name in self.d.opaque:
            if self.d.header[name] == header:
                yield f"#[repr(C)]\npub struct {name} {{\n    _opaque: [u8; 0],\n}}"
        yield from self.enums(header)
        for name, kind in self.d.aliases.items():
            if self.d.header[name] == header:
                yield f"pub type {name} = {self.type(kind)};"
        yield from self.aggregates(header)
        yield from self.functions(header)

    def file(self, headers, about):
        yield f"// {about} Made by bindings/generator; do not edit."
        yield "use std::os::raw::*;"
        for header in headers:
            yield from self.one_header(header)

    def reprise(self):
        order = list(dict.fromkeys(h for h in self.d.header.values() if h != "nn.h"))
        text = self.file(order, "The declarations of reprise/reprise.h.")
        extra = ["", "/// `FILE` of the C library.", "#[repr(C)]", "pub struct FILE {", "    _opaque: [u8; 0],", "}",
                 "/// The target of a `cudaStream_t`.", "#[repr(C)]", "pub struct CUstream_st {", "    _opaque: [u8; 0],", "}"]
        return "\n".join([*text, *extra]) + "\n"

    def nn(self):
        return "\n".join(self.file(["nn.h"], "The declarations of reprise/nn.h.")) + "\n"

    def layout(self):
        """Sizes and offsets as the C compiler has them."""
        out = ["// Sizes and offsets of the structs, as the C compiler has them. Made by bindings/generator; do not edit.",
               "use crate::*;", "use std::mem::{align_of, size_of, MaybeUninit};", "", "macro_rules! offset {",
               "    ($struct:ident, $member:ident) => {{", "        let memory = MaybeUninit::<$struct>::uninit();",
               "        let start = memory.as_ptr();",
               "        unsafe { std::ptr::addr_of!((*start).$member) as usize - start as usize }", "    }};", "}", "", "#[test]",
               "fn structs_are_laid_out_as_in_c() {"]
        for tag, (size, alignment, members) in self.sizes.items():
            out.append(f"    assert_eq!((size_of::<{tag}>(), align_of::<{tag}>()), ({size}, {alignment}), \"{tag}\");")
            known = {name for name, _ in self.members(tag)}
            for name, offset in members:
                if name not in known:
                    continue
                out.append(f"    assert_eq!(offset!({tag}, {identifier(name)}), {offset}, \"{tag}.{name}\");")
        return "\n".join([*out, "}"]) + "\n"
