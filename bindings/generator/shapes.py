"""The functions of reprise/nn.h for the safe wrappers of Rust and Go, and the one table that a person writes: how long
each array is.

    "softmax": "x[batch,dim] y[batch,dim]; y may be x"

An array is given as NAME[SIZE,...]; its length is the product. A size is a parameter, a number, or an expression of both
with + - / and parentheses; `bytes(type,n)` is the number of bytes of n elements of a quantised type. NAME?[...]: the
pointer may be NULL. NAME[=n]: the parameter n is the length of this array, and the wrapper does not have it.
`-> NAME`: the wrapper returns what the function writes there. `y may be x`: the same memory is allowed."""
import pathlib
import re

SHAPES = {
    "silu": "x[=n] y[n]; y may be x",
    "gelu": "x[=n] y[n]; y may be x",
    "add": "a[=n] b[n] y[n]; y may be a",
    "mul": "a[=n] b[n] y[n]; y may be a",
    "scale": "x[=n] y[n]; y may be x",
    "softmax": "x[batch,dim] y[batch,dim]; y may be x",
    "rmsnorm": "x[batch,dim] weight?[dim] y[batch,dim]; y may be x",
    "topk": "x[batch,dim] values?[batch,k] indices[batch,k]",
    "route": "logits[tokens,experts] probs[tokens,experts] ids[tokens,k] weights[tokens,k]",
    "combine": "x[tokens,k,dim] weights[tokens,k] y[tokens,dim]",
}

# Functions that stand in the wrappers themselves: devices, memory, streams, the text of an error.
BY_HAND = {
    "device_count", "device_set", "device_get", "device_name", "device_properties", "device_memory", "malloc", "free",
    "copy_to_device", "copy_to_host", "copy_on_device", "stream_create", "stream_sync", "stream_destroy", "abi_version",
    "last_error",
}


class Array:
    def __init__(self, name, optional, sizes):
        self.name, self.optional = name, optional
        self.derived = sizes[1:] if sizes.startswith("=") else None
        self.sizes = [sizes.lstrip("=")] if self.derived else split(sizes)


def split(sizes):
    """Splits at the commas outside of parentheses."""
    return [part.strip() for part in re.findall(r"(?:[^,()]|\([^()]*\))+", sizes)]


class Function:
    """One row: parameters [(type, name)] as in C, arrays {name: Array}, derived {count: array}, may_be (output, input)."""

    def __init__(self, name, declared, row, doc, has_host, has_device):
        self.name, self.doc, self.has_host, self.has_device = name, doc, has_host, has_device
        self.parameters = [(kind, parameter) for kind, parameter in declared[2] if parameter != "stream"]
        self.takes_stream = any(parameter == "stream" for _, parameter in declared[2])
        shapes, _, alias = row.partition(";")
        shapes, _, self.returns = shapes.partition("->")
        self.returns = self.returns.strip()
        self.arrays = {n: Array(n, bool(o), s) for n, o, s in re.findall(r"(\w+)(\??)\[([^\]]*)\]", shapes)}
        self.derived = {a.derived: a.name for a in self.arrays.values() if a.derived}
        self.may_be = tuple(re.fullmatch(r"\s*(\w+) may be (\w+)\s*", alias).groups()) if alias else None
        self.verify()

    def verify(self):
        names = {parameter for _, parameter in self.parameters}
        pointers = {parameter for kind, parameter in self.parameters if kind[0] == "pointer"}
        wanted = set(self.arrays) | ({self.returns} if self.returns else set())
        if pointers != wanted:
            raise SystemExit(f"shapes.py: {self.name} has the pointers {sorted(pointers)}, its row {sorted(wanted)}")
        for array in self.arrays.values():
            for word in re.findall(r"[A-Za-z_]\w*", " ".join(array.sizes)):
                if word not in names | {"bytes"}:
                    raise SystemExit(f"shapes.py: {self.name}: '{word}' in the sizes of {array.name} is no parameter")


def doc_of(header, name):
    """The comment above a row of the lists of nn.h."""
    found = re.search(r"/\*((?:(?!\*/).)*)\*/\s*\\\n\s*F\(%s," % name, header, re.S)
    if not found:
        return ""
    text = " ".join(re.sub(r"\s*\\\n\s*\* ", " ", found[1]).split())
    return "" if text.startswith("----") else text


def nn_functions(source, declarations):
    """The functions of nn.h that SHAPES describes. Fails for one that neither table has, and for a row without one."""
    header = (pathlib.Path(source) / "include/reprise/nn.h").read_text()
    symbols = {n: d for n, d in declarations.functions.items() if declarations.header[n] == "nn.h"}
    names = []
    for symbol in symbols:
        name = re.sub(r"^rp_nn_(cpu_)?", "", symbol)
        if name not in names:
            names.append(name)
    for name in set(SHAPES) | BY_HAND:
        if name not in names:
            raise SystemExit(f"shapes.py has a row for {name}, which is no function of reprise/nn.h")
    for name in names:
        if name in BY_HAND:
            continue
        if name not in SHAPES:
            raise SystemExit(f"shapes.py has no row for {name}: add the lengths of its arrays to SHAPES")
        host, device = symbols.get("rp_nn_cpu_" + name), symbols.get("rp_nn_" + name)
        yield Function(name, device or host, SHAPES[name], doc_of(header, name), host is not None, device is not None)
