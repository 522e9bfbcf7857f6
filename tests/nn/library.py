"""libreprise_nn for the tests: the functions of nn.h with NumPy arrays, on the host or on a (simulated) device."""
import ctypes

import numpy as np

from functions import functions

KINDS = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "float": ctypes.c_float}


def kind_of(text):
    return ctypes.c_void_p if text.endswith("*") else KINDS[text]


class NnError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Library:
    def __init__(self, source, path):
        self.dll = ctypes.CDLL(path)
        self.dll.rp_nn_last_error.restype = ctypes.c_char_p
        self.functions = dict(functions(source, "RP_NN_FUNCTIONS"))
        self.device_functions = dict(functions(source, "RP_NN_DEVICE_FUNCTIONS"))
        self.queries = dict(functions(source, "RP_NN_QUERIES"))
        for name, parameters in self.functions.items():
            for prefix in ("rp_nn_", "rp_nn_cpu_"):
                getattr(self.dll, prefix + name).argtypes = [kind_of(k) for k, _ in parameters] + [ctypes.c_void_p]
        for name, parameters in self.queries.items():
            for prefix in ("rp_nn_", "rp_nn_cpu_"):
                getattr(self.dll, prefix + name).argtypes = [kind_of(k) for k, _ in parameters]
        for name, parameters in self.device_functions.items():
            getattr(self.dll, "rp_nn_" + name).argtypes = [kind_of(k) for k, _ in parameters]

    def last_error(self):
        return self.dll.rp_nn_last_error().decode()

    def raw(self, symbol, *arguments):
        return getattr(self.dll, symbol)(*arguments)

    def check(self, symbol, *arguments):
        code = self.raw(symbol, *arguments)
        if code != 0:
            raise NnError(code, self.last_error())


class Backend:
    def __init__(self, library):
        self.library = library

    def workspace(self, function, *sizes):
        """As many bytes as the query asks for, and their number."""
        out = ctypes.c_int64(-1)
        self.library.check(self.prefix + function + "_workspace", *sizes, ctypes.byref(out))
        return np.full(out.value, 0xff, np.uint8), out.value


class Host(Backend):
    """NAME(...) calls rp_nn_cpu_NAME. Arrays are passed in place."""
    name, prefix = "host", "rp_nn_cpu_"

    def __call__(self, function, *arguments):
        passed = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        self.library.check("rp_nn_cpu_" + function, *passed, None)


class Device(Backend):
    """NAME(...) copies arrays to the device, calls rp_nn_NAME on a stream, and copies them back."""
    name, prefix = "device", "rp_nn_"

    def __init__(self, library):
        super().__init__(library)
        self.stream = ctypes.c_void_p()
        library.check("rp_nn_stream_create", ctypes.byref(self.stream))

    def __call__(self, function, *arguments):
        check, held, passed = self.library.check, {}, []
        try:
            for a in arguments:
                if not isinstance(a, np.ndarray) or a.nbytes == 0:
                    passed.append(None if isinstance(a, np.ndarray) else a)
                    continue
                if id(a) not in held:
                    memory = ctypes.c_void_p()
                    check("rp_nn_malloc", a.nbytes, ctypes.byref(memory))
                    held[id(a)] = (memory, a)
                    check("rp_nn_copy_to_device", memory, a.ctypes.data, a.nbytes, self.stream)
                passed.append(held[id(a)][0])
            check("rp_nn_" + function, *passed, self.stream)
            for memory, a in held.values():
                check("rp_nn_copy_to_host", a.ctypes.data, memory, a.nbytes, self.stream)
            check("rp_nn_stream_sync", self.stream)
        finally:
            for memory, _ in held.values():
                self.library.raw("rp_nn_free", memory)

    def close(self):
        self.library.check("rp_nn_stream_destroy", self.stream)
