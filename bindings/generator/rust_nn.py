"""The safe functions of nn.h in Rust: reprise/src/nn/functions.rs, for slices and for buffers of a device."""
from rust_raw import NAMES, identifier
from shapes import expression, query_of
from wrapped import lines_of

HEAD = """// The functions of reprise/nn.h on slices, and on buffers of a device. Made by bindings/generator; do not edit.
#![allow(non_snake_case, unused_imports, clippy::all)]
use super::check::{check, count32, finish, HostWorkspace, Size};
use super::device::{Buffer, Stream};
use crate::error::{check_nn, Result};
use reprise_sys as sys;
use std::ptr::null_mut;
"""


def element(kind):
    return NAMES["uint8_t" if kind[1][1] == "void" else kind[1][1]]


class Writer:
    """One function: on the host, or on a device; with `alias` (output, input) the variant in place."""

    def __init__(self, function, functions, host, alias=None):
        self.f, self.host, self.alias = function, host, alias
        self.symbol = f"rp_nn_{'cpu_' if host else ''}{function.name}"
        self.stream = function.host_stream if host else function.device_stream
        self.query = query_of(function, functions) if function.workspace else None
        self.indent = "" if host else "    "

    def memory(self, kind, output):
        inner = f"[{element(kind)}]" if self.host else f"Buffer<'_, {element(kind)}>"
        return f"&mut {inner}" if output else f"&{inner}"

    def parameters(self):
        f = self.f
        for kind, name in f.parameters:
            if name in f.counts or name in (f.returns, "workspace_bytes") or self.alias and name == self.alias[0]:
                continue
            if name == "workspace":
                if not self.host:
                    yield "workspace: &mut Buffer<'_, u8>"
                continue
            if self.alias and name == self.alias[1]: # the output stands in the place of the input
                name = self.alias[0]
                kind = f.kinds[name]
            if kind[0] != "pointer":
                yield f"{identifier(name)}: {NAMES[kind[1]]}"
                continue
            shown = self.memory(kind, f.is_output(name))
            yield f"{identifier(name)}: " + (f"Option<{shown}>" if f.arrays[name].optional else shown)

    def given(self):
        return [a for a in self.f.arrays.values() if not (self.alias and a.name == self.alias[1])]

    def borrowed(self, array):
        return f"{identifier(array.name)}.{'as_deref()' if self.f.is_output(array.name) else 'as_ref()'}"

    def size(self, tree):
        return expression(tree, lambda name: f"{identifier(name)} as i128", "super::check::")

    def checks(self):
        for a in self.given():
            sizes = "&[" + ", ".join(self.size(s) for s in a.sizes) + "]"
            if a.optional:
                yield f'Size::optional("{a.name}", {self.borrowed(a)}.map(|a| a.len()), {sizes})'
            else:
                yield f'Size::of("{a.name}", {identifier(a.name)}.len(), {sizes})' + (".at_least()" if a.at_least else "")

    def buffers(self):
        for a in self.given():
            on = f"{self.borrowed(a)}.map(|a| a.on())" if a.optional else f"Some({identifier(a.name)}.on())"
            yield f'("{a.name}", {on})'
        if self.f.workspace:
            yield '("workspace", Some(workspace.on()))'

    def argument(self, kind, name):
        f, shown = self.f, identifier(name)
        if name == "workspace_bytes":
            return "workspace.bytes()"
        if name == "workspace":
            return "workspace.address().cast()"
        if kind[0] != "pointer":
            return shown
        if name == f.returns:
            return f"&mut {shown}"
        cast = ".cast()" if kind[1][1] == "void" else ""
        if self.alias and name in self.alias: # one address is input and output
            return f"shared{cast}"
        way = ("of" if self.host else "at") + ("_mut" if f.is_output(name) else "")
        return f"run.{'optional_' if f.arrays[name].optional else ''}{way}({shown}){cast}"

    def body(self):
        f = self.f
        for n, array in f.counts.items():
            shown = identifier(self.alias[0] if self.alias and array == self.alias[1] else array)
            if f.kinds[n][1] == "int32_t":
                yield f'let {identifier(n)} = count32("{f.name}", "{array}", {shown}.len())?;'
            else:
                yield f"let {identifier(n)} = {shown}.len() as {NAMES[f.kinds[n][1]]};"
        if f.returns:
            yield f"let mut {f.returns} = Default::default();"
        if f.arrays or self.stream:
            yield f'let run = check("{f.name}", &['
            yield from (f"    {c}," for c in self.checks())
            yield "])?;"
        if not self.host and self.stream:
            yield f'self.enter("{f.name}", &[{", ".join(self.buffers())}])?;'
        if f.workspace and self.host:
            given = ", ".join("&mut bytes" if p not in f.kinds else identifier(p) for p in self.query)
            yield "let mut bytes = 0;"
            yield f"check_nn(unsafe {{ sys::rp_nn_cpu_{f.name}_workspace({given}) }})?;"
            yield "let mut workspace = HostWorkspace::new(bytes)?;"
        if self.alias:
            yield f"let shared = run.{'of_mut' if self.host else 'at_mut'}({identifier(self.alias[0])});"
        inside = [self.argument(kind, name) for kind, name in f.parameters]
        if self.stream:
            inside.append("null_mut()" if self.host else "self.raw()")
        yield f"let status = unsafe {{ sys::{self.symbol}({', '.join(inside)}) }};"
        end = f'finish("{f.name}", run, status)' if f.arrays or self.stream else "check_nn(status)"
        yield end + "?;" if f.returns else end
        if f.returns:
            yield f"Ok({f.returns})"

    def doc(self):
        f = self.f
        if self.alias:
            link = f"[`{f.name}`]" + ("" if self.host else f"(Self::{f.name})")
            return [f"{link} with `{self.alias[0]}` as its own `{self.alias[1]}`."]
        if f.doc:
            return ["```text", *lines_of(f.doc), "```"]
        return [f"`{self.symbol}` of reprise/nn.h."]

    def write(self):
        f, tab = self.f, self.indent
        name = identifier(f.name) + ("_in_place" if self.alias else "")
        result = NAMES[f.kinds[f.returns][1][1]] if f.returns else "()"
        inside = ([] if self.host else ["&self"]) + list(self.parameters())
        lines = [*(f"{tab}/// {line}" for line in self.doc()),
                 f"{tab}pub fn {name}({', '.join(inside)}) -> Result<{result}> {{",
                 *(f"{tab}    {line}" for line in self.body()), tab + "}"]
        return "\n".join(lines)


def generate(functions):
    host, device = [], []
    for f in functions:
        for alias in [None, *f.may_be[:1]]:
            if f.host:
                host.append(Writer(f, functions, True, alias).write())
            if f.device:
                device.append(Writer(f, functions, False, alias).write())
    text = HEAD + "\n" + "\n\n".join(host)
    text += "\n\n/// The functions of [`crate::nn`] on memory of a device. They return when the work is enqueued.\n"
    return text + "impl Stream {\n" + "\n\n".join(device) + "\n}\n"
