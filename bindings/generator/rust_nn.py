"""The safe functions of nn.h in Rust: reprise/src/nn/functions.rs, for slices and for buffers of a device."""
import re

from rust_raw import NAMES, identifier

HEAD = """// The functions of reprise/nn.h on slices, and on buffers of a device. Made by bindings/generator; do not edit.
#![allow(non_snake_case, clippy::too_many_arguments)]
use super::check::{check, finish, Size};
use super::device::{Buffer, Stream};
use crate::error::Result;
use reprise_sys as sys;
use std::ptr::null_mut;
"""


def element(kind):
    inner = kind[1][1]
    return "u8" if inner == "void" else NAMES[inner]


def is_output(kind):
    return not kind[1][2]


class RustFunction:
    def __init__(self, function):
        self.f = function
        self.kinds = {name: kind for kind, name in function.parameters}

    def size(self, text):
        def word(match):
            name = match[0]
            return "super::check::row_bytes" if name == "bytes" else f"{identifier(name)} as i128"
        return re.sub(r"[A-Za-z_]\w*", word, text)

    def sizes(self, array):
        return "&[" + ", ".join(self.size(s) for s in array.sizes) + "]"

    def parameters(self, memory, alias=None):
        """memory(element, is_output) is the type of an array."""
        for kind, name in self.f.parameters:
            if name in self.f.derived or name == self.f.returns or alias and name == alias[0]:
                continue
            if alias and name == alias[1]: # the output stands in the place of the input
                name, kind = alias[0], self.kinds[alias[0]]
            if kind[0] != "pointer":
                yield f"{identifier(name)}: {NAMES[kind[1]]}"
                continue
            shown = memory(element(kind), is_output(kind))
            yield f"{identifier(name)}: " + (f"Option<{shown}>" if self.f.arrays[name].optional else shown)

    def checks(self, alias):
        for array in self.f.arrays.values():
            if alias and array.name == alias[1]:
                continue
            name = identifier(array.name)
            length = f"{name}.len()"
            if array.optional:
                mutable = is_output(self.kinds[array.name])
                length = f"{name}.{'as_deref()' if mutable else 'as_ref()'}.map(|a| a.len())"
                yield f'Size::optional("{array.name}", {length}, {self.sizes(array)})'
            else:
                yield f'Size::of("{array.name}", {length}, {self.sizes(array)})'

    def arguments(self, alias, host):
        for kind, name in self.f.parameters:
            shown = identifier(name)
            if kind[0] != "pointer":
                yield shown
                continue
            if name == self.f.returns:
                yield f"&mut {shown}"
                continue
            cast = ".cast()" if kind[1][1] == "void" else ""
            if alias and name in alias: # one address is input and output
                yield f"shared{cast}"
                continue
            way = ("of_mut" if host else "at_mut") if is_output(kind) else "of" if host else "at"
            if self.f.arrays[name].optional:
                way = f"optional_{way}"
            yield f"run.{way}({shown}){cast}"

    def body(self, symbol, alias, host, indent):
        f = self.f
        lines = [f"let {n} = {identifier(alias[0] if alias and array == alias[1] else array)}.len() as i64;"
                 for n, array in f.derived.items()]
        if f.returns:
            lines.append(f"let mut {f.returns} = Default::default();")
        lines.append(f'let run = check("{f.name}", &[')
        lines += [f"    {c}," for c in self.checks(alias)]
        lines.append("])?;")
        if not host:
            arrays = [a for a in f.arrays.values() if not (alias and a.name == alias[1])]
            lines.append(f'self.enter("{f.name}", &[')
            for a in arrays:
                name = identifier(a.name)
                on = f'{name}.{"as_deref()" if is_output(self.kinds[a.name]) else "as_ref()"}.map(|a| a.on())' \
                    if a.optional else f"Some({name}.on())"
                lines.append(f'    ("{a.name}", {on}),')
            lines.append("])?;")
        if alias:
            lines.append(f"let shared = run.{'of_mut' if host else 'at_mut'}({identifier(alias[0])});")
        inside = list(self.arguments(alias, host))
        if f.takes_stream:
            inside.append("null_mut()" if host else "self.raw()")
        lines.append(f"let status = unsafe {{ sys::{symbol}({', '.join(inside)}) }};")
        lines.append(f'finish("{f.name}", run, status)' + (f"?;\n{indent}Ok({f.returns})" if f.returns else ""))
        return "\n".join(indent + line for line in lines)

    def write(self, symbol, memory, host, alias=None):
        f, outer = self.f, "" if host else "    "
        name = identifier(f.name) + ("_in_place" if alias else "")
        inside = list(self.parameters(memory, alias))
        receiver = [] if host else ["&self"]
        result = "()"
        if f.returns:
            result = NAMES[self.kinds[f.returns][1][1]]
        doc = [f"{outer}/// ```text", *(f"{outer}/// {line}" for line in wrap(f.doc)), f"{outer}/// ```"] if f.doc else []
        if alias:
            doc = [f"{outer}/// [`{f.name}`]{'' if host else f'(Self::{f.name})'} with `{alias[0]}` as its own `{alias[1]}`."]
        elif not doc:
            doc = [f"{outer}/// `rp_nn_{f.name}` of reprise/nn.h."]
        sign = f"{outer}pub fn {name}({', '.join(receiver + inside)}) -> Result<{result}> {{"
        return "\n".join([*doc, sign, self.body(symbol, alias, host, outer + "    "), outer + "}"])


def wrap(text, width=100):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return lines + [line]


def on_host(kind, output):
    return f"&mut [{kind}]" if output else f"&[{kind}]"


def on_device(kind, output):
    return f"&mut Buffer<'_, {kind}>" if output else f"&Buffer<'_, {kind}>"


def generate(functions):
    host, device = [], []
    for f in functions:
        rust = RustFunction(f)
        alias = [None] + ([f.may_be] if f.may_be else [])
        for a in alias:
            if f.has_host:
                host.append(rust.write("rp_nn_cpu_" + f.name, on_host, True, a))
            elif not f.takes_stream:
                host.append(rust.write("rp_nn_" + f.name, on_host, True, a))
            if f.has_device and f.takes_stream:
                device.append(rust.write("rp_nn_" + f.name, on_device, False, a))
    text = HEAD + "\n" + "\n\n".join(host)
    text += "\n\n/// The functions of [`crate::nn`] on memory of a device. They return when the work is enqueued.\n"
    text += "impl Stream {\n" + "\n\n".join(device) + "\n}\n"
    return text
