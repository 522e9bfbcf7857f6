"""The functions of reprise/nn.h for the safe wrappers of Rust and Go.

The lengths of their arrays come from the table that the Python package has too, bindings/python/src/reprise/_nn/rules.py,
which explains the form of a row. A new function needs its row there, and nothing here. The wrappers use a row as follows:

    x[*n]          the length of an input is n: the wrapper does not have the parameter n
    x[*batch,dim]  the length must be batch * dim, which are parameters
    w?[dim]        the argument is optional
    norm+[1]       the length must be at least that
    bytes[]        of a function without a stream: the wrapper returns the number
    | y=x          Rust: a second function NAME_in_place; Go: y and x may be the same slice

A row of OWN replaces that of the Python package, which allocates outputs and computes strides itself. Beside bytes(type,n) it
may use span(count,stride,n), the elements from the first to the last of `count` arrays of n elements, and either(flag,a,b).

A `workspace` is made for the call on the host. On a device it is a buffer; NAME_workspace says how many bytes."""
import ast
import importlib.util
import pathlib
import re

OWN = {
    "topk": "x[*batch,dim] -> values?[*batch,k] indices[*batch,k] ; k",
    "gemm_batched": "A[span(batch,stride_a,M*K)] B[span(batch,stride_b,K*N)] -> C[span(batch,stride_c,M*N)]",
    "rmsnorm_backward": "x[*batch,dim] weight?[dim] dy[*batch,dim] -> dx[*batch,dim] dweight?[dim] rstd?[*batch]",
}

# Functions that stand in the wrappers themselves: devices, memory, streams, the text of an error.
BY_HAND = {
    "device_count", "device_set", "device_get", "device_name", "device_properties", "device_memory", "malloc", "free",
    "copy_to_device", "copy_to_host", "copy_on_device", "stream_create", "stream_sync", "stream_destroy", "abi_version",
    "last_error",
}


class Array:
    def __init__(self, name, marks, sizes, is_input):
        self.name, self.optional, self.at_least = name, "?" in marks, "+" in marks
        self.sizes = [ast.parse(s.strip(), mode="eval").body for s in re.findall(r"(?:[^,()]|\([^()]*\))+", sizes.lstrip("*"))]
        counted = re.fullmatch(r"\*(\w+)", sizes)
        self.counts = counted[1] if counted and is_input and not self.optional else None

    def words(self):
        return {node.id for size in self.sizes for node in ast.walk(size) if isinstance(node, ast.Name)}


OPERATORS = {ast.Mult: "mul", ast.Add: "add", ast.Sub: "sub", ast.Div: "div"}
CALLS = {"bytes": "row_bytes", "span": "span", "either": "either"}


def expression(size, name, prefix=""):
    """A size as nested calls, which cannot overflow: mul(a, b). `name` spells a parameter, `prefix` is put before functions."""
    if isinstance(size, ast.Constant) and isinstance(size.value, int):
        return str(size.value)
    if isinstance(size, ast.Name):
        return name(size.id)
    if isinstance(size, ast.BinOp) and type(size.op) in OPERATORS:
        call, arguments = OPERATORS[type(size.op)], (size.left, size.right)
    elif isinstance(size, ast.Call) and size.func.id in CALLS:
        call, arguments = CALLS[size.func.id], size.args
    else:
        raise SystemExit(f"shapes.py: a size that is no expression: {ast.unparse(size)}")
    return f"{prefix}{call}({', '.join(expression(a, name, prefix) for a in arguments)})"


class Function:
    """parameters [(type, name)] as in C without the stream; arrays {name: Array}; counts {parameter: array whose length it
    is}; may_be [(output, input)]; returns: the parameter whose number is returned, or None."""

    def __init__(self, name, host, device, row, doc):
        self.name, self.doc, declared = name, doc, device or host
        self.host = host is not None
        self.device = device is not None
        self.host_stream = self.host and any(p == "stream" for _, p in host[2])
        self.device_stream = self.device and any(p == "stream" for _, p in device[2])
        self.parameters = [(kind, p) for kind, p in declared[2] if p != "stream"]
        self.kinds = {p: kind for kind, p in self.parameters}
        self.workspace = "workspace" in self.kinds
        row, _, aliases = row.partition("|")
        arrays, _, _ = row.partition(";")
        inputs, _, outputs = arrays.partition("->")
        self.arrays = {}
        for side in (inputs, outputs):
            for array, marks, sizes in re.findall(r"(\w+)([?!+]*)\[([^\]]*)\]", side):
                self.arrays[array] = Array(array, marks, sizes, side is inputs)
        self.returns = None
        if not self.device_stream and not self.host_stream:
            self.returns = next((a.name for a in self.arrays.values() if not a.sizes and self.is_output(a.name)), None)
            self.arrays.pop(self.returns, None)
        self.counts = {}
        for a in self.arrays.values():
            if a.counts in self.kinds:
                self.counts.setdefault(a.counts, a.name)
        self.may_be = re.findall(r"(\w+)=(\w+)", aliases)
        self.verify()

    def is_output(self, name):
        return name in self.kinds and not self.kinds[name][1][2]

    def verify(self):
        pointers = {p for kind, p in self.parameters if kind[0] == "pointer"} - {"workspace", self.returns}
        if pointers != set(self.arrays):
            raise SystemExit(f"{self.name} of reprise/nn.h has the pointers {sorted(pointers)}, its row {sorted(self.arrays)}")
        for a in self.arrays.values():
            unknown = a.words() - set(self.kinds) - set(CALLS)
            if unknown:
                raise SystemExit(f"{self.name} of reprise/nn.h: {unknown} in the sizes of {a.name} are no parameters")


def rows(source):
    path = pathlib.Path(source) / "bindings/python/src/reprise/_nn/rules.py"
    spec = importlib.util.spec_from_file_location("rules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {**module.RULES, **OWN}


def row_of(name, table, declared):
    """The number of bytes of a workspace needs no row."""
    if name in table:
        return table[name]
    if name.endswith("_workspace"):
        return f"-> {declared[2][-1][1]}[]"
    raise SystemExit(f"bindings/python/src/reprise/_nn/rules.py has no row for {name}: add the lengths of its arrays")


def doc_of(header, name):
    """The comment above a row of the lists of nn.h."""
    found = re.search(r"/\*((?:(?!\*/).)*)\*/\s*\\\n\s*F\(%s," % name, header, re.S)
    if not found:
        return ""
    text = " ".join(re.sub(r"\s*\\\n\s*\*(?= |$)", " ", found[1]).split())
    return re.sub(r"^---- .*? ---- ?", "", text)


def nn_functions(source, declarations):
    """The functions of nn.h that the wrappers have. Fails for one without a row."""
    header = (pathlib.Path(source) / "include/reprise/nn.h").read_text()
    symbols = {n: d for n, d in declarations.functions.items() if declarations.header[n] == "nn.h"}
    table = rows(source)
    for name in dict.fromkeys(re.sub(r"^rp_nn_(cpu_)?", "", symbol) for symbol in symbols):
        if name in BY_HAND:
            continue
        host, device = symbols.get("rp_nn_cpu_" + name), symbols.get("rp_nn_" + name)
        yield Function(name, host, device, row_of(name, table, device or host), doc_of(header, name))


def query_of(function, functions):
    """The parameters of NAME_workspace, by their names in NAME."""
    found = next(f for f in functions if f.name == function.name + "_workspace")
    missing = [p for _, p in found.parameters if p not in function.kinds and p != found.returns]
    if missing:
        raise SystemExit(f"{found.name} of reprise/nn.h has parameters that {function.name} lacks: {missing}")
    return [p for _, p in found.parameters]
