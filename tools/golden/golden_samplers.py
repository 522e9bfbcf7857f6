#!/usr/bin/env python3
"""What llama.cpp's samplers leave of random logits, after random histories.

    tools/golden/golden_samplers.py tests/golden/samplers.txt

A line "case N SEED DIVISOR NAME=VALUE..." has the parameters of RpSamplerParams that are not their defaults; `samplers` is
the order of the steps. A line "history T..." has the tokens that the sampler accepted before. A line "breaker T..." has the
tokens of a sequence breaker of DRY. A line "kept T:P..." has the tokens that are left and their probabilities. Several lines
"kept" of one case are a sequence for Mirostat: the logits of call k have SEED + k, and "chosen T" is the token that llama.cpp
chose; its next mu depends on this token. Logit i of a seed is (h >> 20) / DIVISOR + i / 2^18 - 4, with h as in hash() below."""
import ctypes
import sys

import llama
import llama_cpp as lib
import numpy as np

ORDER = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
DEFAULTS = {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "repeat_last_n": 64,
            "typical_p": 1.0, "top_n_sigma": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "dry_multiplier": 0.0,
            "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 64, "xtc_probability": 0.0, "xtc_threshold": 0.1,
            "min_keep": 0, "mirostat": 0, "mirostat_tau": 5.0, "mirostat_eta": 0.1, "dynatemp_range": 0.0,
            "dynatemp_exponent": 1.0}


def hash(seed, i):
    h = (seed * 0x9E3779B1 + i * 0x85EBCA77 + 0x165667B1) & 0xffffffff
    h = (h ^ h >> 15) * 0x2C1B3C6D & 0xffffffff
    h = (h ^ h >> 12) * 0x297A2D39 & 0xffffffff
    return h ^ h >> 15


def logits_of(n, seed, divisor):
    return [(hash(seed, i) >> 20) / divisor + i / 2**18 - 4 for i in range(n)]


class Vector(ctypes.Structure):
    """std::vector of libstdc++."""
    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("room", ctypes.c_void_p)]


def vector(array):
    start = ctypes.addressof(array)
    return Vector(start, start + ctypes.sizeof(array), start + ctypes.sizeof(array))


def dry_sampler(p, breakers):
    """With breakers as tokens: llama.cpp has a function for its own test, of C++."""
    if not breakers:
        return lib.llama_sampler_init_dry(None, p["dry_multiplier"], p["dry_base"], p["dry_allowed_length"],
                                          p["dry_penalty_last_n"], None, 0)
    init = lib.llama_cpp._lib._Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE
    init.restype = ctypes.c_void_p
    init.argtypes = [ctypes.c_float, ctypes.c_float, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p]
    arrays = [(ctypes.c_int32 * len(b))(*b) for b in breakers]
    inner = (Vector * len(arrays))(*[vector(a) for a in arrays])
    outer = vector(inner)
    address = init(p["dry_multiplier"], p["dry_base"], p["dry_allowed_length"], p["dry_penalty_last_n"],
                   ctypes.addressof(outer))
    return ctypes.cast(address, lib.llama_sampler_p_ctypes)


def sampler_of(step, p, n, breakers):
    if step == "penalties":
        return lib.llama_sampler_init_penalties(n, p["repeat_last_n"], p["repeat_penalty"], p["frequency_penalty"],
                                                p["presence_penalty"])
    if step == "dry":
        return dry_sampler(p, breakers)
    return {"top_n_sigma": lambda: lib.llama_sampler_init_top_n_sigma(p["top_n_sigma"]),
            "top_k": lambda: lib.llama_sampler_init_top_k(p["top_k"]),
            "typ_p": lambda: lib.llama_sampler_init_typical(p["typical_p"], p["min_keep"]),
            "top_p": lambda: lib.llama_sampler_init_top_p(p["top_p"], p["min_keep"]),
            "min_p": lambda: lib.llama_sampler_init_min_p(p["min_p"], p["min_keep"]),
            "xtc": lambda: lib.llama_sampler_init_xtc(p["xtc_probability"], p["xtc_threshold"], p["min_keep"], 1),
            "temperature": lambda: lib.llama_sampler_init_temp_ext(p["temperature"], p["dynatemp_range"],
                                                                   p["dynatemp_exponent"])}[step]()


class Candidates:
    def __init__(self, logits, bias):
        self.data = (lib.llama_token_data * len(logits))()
        for i, logit in enumerate(logits):
            self.data[i].id, self.data[i].logit = i, np.float32(logit)
        for token, value in bias:
            self.data[token].logit += value
        self.array = lib.llama_token_data_array(self.data, len(logits), -1, False)

    def apply(self, sampler):
        lib.llama_sampler_apply(sampler, ctypes.byref(self.array))

    def left(self):
        """{token: probability}: softmax of the logits that llama.cpp leaves."""
        tokens = [(self.array.data[i].id, self.array.data[i].logit) for i in range(self.array.size)]
        top = max(logit for _, logit in tokens)
        weights = {token: np.exp(np.float64(logit) - top) for token, logit in tokens if logit > -np.inf}
        total = sum(weights.values())
        return {token: w / total for token, w in sorted(weights.items()) if w > 0}


def show(left):
    return "kept " + " ".join(f"{token}:{p:.6g}" for token, p in left.items())


def case(n, seed, divisor, history=(), breakers=(), bias=(), samplers=None, **given):
    p = {**DEFAULTS, **given}
    words = [f"{name}={value:g}" for name, value in given.items()]
    words += [f"samplers={samplers}"] if samplers else []
    words += [f"bias={token}:{value:g}" for token, value in bias]
    lines = [f"case {n} {seed} {divisor} {' '.join(words)}".rstrip()]
    lines += ["history " + " ".join(map(str, history))] if history else []
    lines += ["breaker " + " ".join(map(str, b)) for b in breakers]
    candidates = Candidates(logits_of(n, seed, divisor), bias)
    for step in samplers.split(";") if samplers else ORDER:
        sampler = sampler_of(step, p, n, breakers)
        for token in history:
            lib.llama_sampler_accept(sampler, token)
        candidates.apply(sampler)
        lib.llama_sampler_free(sampler)
    return lines + [show(candidates.left())]


def mirostat(n, seed, divisor, calls, temperature, tau, eta):
    lines = [f"case {n} {seed} {divisor} mirostat=2 temperature={temperature:g} mirostat_tau={tau:g} mirostat_eta={eta:g}"]
    temp, miro = lib.llama_sampler_init_temp(temperature), lib.llama_sampler_init_mirostat_v2(seed, tau, eta)
    for k in range(calls):
        candidates = Candidates(logits_of(n, seed + k, divisor), ())
        candidates.apply(temp)
        candidates.apply(miro)
        lines += [show(candidates.left()), f"chosen {candidates.array.data[candidates.array.selected].id}"]
    return lines


def cases():
    for seed, divisor in ((1, 256), (2, 512), (3, 1024)):
        for k in (1, 7, 40):
            yield case(40, seed, divisor, samplers="top_k;temperature", temperature=0.7, top_k=k)
        for step, name, values in (("top_p", "top_p", (0.1, 0.5, 0.9, 0.99)), ("min_p", "min_p", (0.02, 0.2, 0.9)),
                                   ("typ_p", "typical_p", (0.1, 0.5, 0.9, 0.99)), ("top_n_sigma", "top_n_sigma", (0.5, 1, 2))):
            for value in values:
                yield case(40, seed, divisor, samplers=step + ";temperature", temperature=1, **{name: value})
        for keep in (2, 9):
            for step, name in (("top_p", "top_p"), ("min_p", "min_p"), ("typ_p", "typical_p")):
                yield case(40, seed, divisor, samplers=step + ";temperature", temperature=1.5, min_keep=keep, **{name: 0.4})
            yield case(40, seed, divisor, samplers="top_k;xtc;temperature", temperature=1, top_k=10, min_keep=keep,
                       xtc_probability=1, xtc_threshold=0.02)
        for threshold in (0.01, 0.05, 0.1, 0.5):
            for probability in (0, 1):
                yield case(40, seed, divisor, samplers="xtc;temperature", temperature=1, xtc_probability=probability,
                           xtc_threshold=threshold)
        for temperature in (0, 0.3, 2.5):
            yield case(12, seed, divisor, temperature=temperature)
            yield case(24, seed, divisor, temperature=temperature, dynatemp_range=0.5, dynatemp_exponent=1.5)
    history = [hash(9, i) % 12 for i in range(90)]
    for last_n in (0, 5, 64):
        yield case(24, 4, 512, history, samplers="penalties;temperature", temperature=1, repeat_last_n=last_n, repeat_penalty=1.3)
        yield case(24, 4, 512, history, samplers="penalties;temperature", temperature=1, repeat_last_n=last_n,
                   repeat_penalty=0.9, frequency_penalty=0.3, presence_penalty=-0.25)
        yield case(24, 5, 256, history, samplers="top_k;penalties;temperature", temperature=1, top_k=9, repeat_last_n=last_n,
                   frequency_penalty=0.3, presence_penalty=1.5)
    for number, repeated in enumerate(([1, 2, 3] * 9, [5, 6, 7, 8, 1, 5, 6, 7, 9, 2, 5, 6, 7], [3] * 20,
                                       [hash(7, i) % 3 for i in range(80)], [1, 2, 3, 4, 5, 6, 1, 2, 3, 4], [4, 4])):
        for allowed, base, last_n in ((2, 1.75, 64), (1, 1.2, 30), (3, 4, 9), (0, 1, 64)):
            yield case(12, 6, 512, repeated, samplers="dry;temperature", temperature=1, dry_multiplier=0.8,
                       dry_allowed_length=allowed, dry_base=base, dry_penalty_last_n=last_n)
        for breakers in ([[3]], [[2]], [[3, 1], [6, 7, 8]], [[1], [1, 2], [7]]):
            yield case(12, 6, 512, repeated, breakers, samplers="dry;temperature", temperature=1, dry_multiplier=0.5)
    yield case(24, 8, 512, bias=[(3, 5), (9, -2.5), (23, -np.inf)], temperature=0.8, top_k=9)
    for seed in range(20, 40):
        yield case(1000, seed, 256, history, temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, repeat_penalty=1.1,
                   frequency_penalty=0.1, presence_penalty=0.2, dry_multiplier=0.8, typical_p=0.9, xtc_probability=1,
                   xtc_threshold=0.05)
    for seed in range(40, 50):
        yield case(1000, seed, 256, temperature=0.7, top_p=0.6, min_p=0.1)
        yield case(1000, seed, 256, samplers="temperature;min_p;top_p", temperature=0.7, top_p=0.4, min_p=0.2)
    yield mirostat(40, 60, 256, 12, 1.0, 3.0, 0.3)
    yield mirostat(40, 80, 512, 12, 0.6, 5.0, 0.1)
    yield mirostat(40, 99, 256, 12, 2.0, 1.0, 1.0)
    yield case(3, 70, 1024, [0], samplers="temperature;penalties", temperature=0.5, presence_penalty=1)
    for temperature in (0, 0.5, 2):
        yield case(24, 71, 256, history, samplers="temperature;penalties", temperature=temperature, repeat_penalty=1.3,
                   frequency_penalty=0.3, presence_penalty=-0.25)
        yield case(24, 72, 256, history, samplers="top_p;temperature;penalties;min_p;dry;top_k", temperature=temperature,
                   top_p=0.95, presence_penalty=1.5, min_p=0.02, top_k=9, dry_multiplier=0.8, dry_allowed_length=1)
        yield case(12, 73, 512, [1, 2, 3] * 9, samplers="temperature;dry;typ_p", temperature=temperature,
                   dynatemp_range=temperature / 2, dry_multiplier=0.8, typical_p=0.9)


def main():
    with open(sys.argv[1], "w") as f:
        print(llama.HEADER, file=f)
        for lines in cases():
            print("\n".join(lines), file=f)


main()
