#!/usr/bin/env python3
"""Decode and prefill of reprise beside llama.cpp (llama-cpp-python), in turns, on the same file and threads.

    bench/compare_llama.py MODEL.gguf [-t 2] [-p 128] [-n 64] [-d 0] [-r 5] [--kv f16] [--reprise build/reprise] [--out FILE.md]

Prefills and decodes start with -d tokens in the context, which both read before.

Each run is a process of its own. Medians, the range, and the ratio of the medians; then the memory that reprise takes,
its first token from a warm page cache, and the cost of its interpreter a node."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "build" / "peer-venv"


def peer_python():
    """A Python that has llama_cpp: this one, or one in a virtual environment of ours."""
    for python in (sys.executable, str(VENV / "bin" / "python")):
        if pathlib.Path(python).exists() and subprocess.run([python, "-c", "import llama_cpp"], capture_output=True).returncode == 0:
            return python
    print("installing llama-cpp-python: it is compiled here, which takes some ten minutes", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    subprocess.run([VENV / "bin" / "pip", "install", "-q", "-r", ROOT / "tools" / "requirements.txt"], check=True)
    return str(VENV / "bin" / "python")


PEER = """
import sys, time
import llama_cpp as lib
path, kv = sys.argv[1:3]
threads, n_prompt, n_decode, depth = map(int, sys.argv[3:7])
log = lib.llama_log_callback(lambda level, text, user: None)
lib.llama_log_set(log, None)
lib.llama_backend_init()
params = lib.llama_model_default_params()
params.n_gpu_layers = 0
model = lib.llama_model_load_from_file(path.encode(), params)
params = lib.llama_context_default_params()
params.n_ctx = depth + max(n_prompt, n_decode) + 64
params.n_batch = params.n_ubatch = max(n_prompt, 512 if depth else 1)
if kv == "q8_0": params.type_k = params.type_v = lib.GGML_TYPE_Q8_0
params.n_threads = params.n_threads_batch = threads
context = lib.llama_init_from_model(model, params)
n_vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
ids = [(i * 7919 + 100) % (n_vocab - 200) + 100 for i in range(max(n_prompt, n_decode, depth))]
def run(tokens):
    array = (lib.llama_token * len(tokens))(*tokens)
    assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) == 0
    lib.llama_get_logits(context)
memory = lib.llama_get_memory(context)
for i in range(0, depth, 512): run(ids[i:min(i + 512, depth)])
def rewind():
    assert lib.llama_memory_seq_rm(memory, 0, depth, -1)
run(ids[:n_prompt]); run(ids[:1]); rewind()
start = time.perf_counter(); run(ids[:n_prompt]); prefill = time.perf_counter() - start
rewind()
start = time.perf_counter()
for i in range(n_decode): run(ids[i:i + 1])
decode = time.perf_counter() - start
print(n_prompt / prefill, n_decode / decode, lib.llama_print_system_info().decode())
"""


def output(*command):
    """What a program prints; where it fails, what it said ends this one."""
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{command[0]} failed: {run.stderr.strip()[-2000:]}")
    return run.stdout


def run_peer(python, args):
    numbers = [str(n) for n in (args.t, args.p, args.n, args.d)]
    prefill, decode, *_ = output(python, "-c", PEER, args.model, args.kv, *numbers).split()
    return float(prefill), float(decode)


def run_reprise(args):
    numbers = ["-t", str(args.t), "-p", str(args.p), "-n", str(args.n), "-d", str(args.d)]
    told = json.loads(output(args.reprise, "bench", "-m", args.model, *numbers, "--kv", args.kv, "-r", "1", "--json"))
    results = {r["test"]: r["median_tok_s"] for r in told["results"]}
    return results[f"pp{args.p}"], results[f"tg{args.n}"], told["gb_s"]


def read_bandwidth(args):
    """GB/s at which a plain loop reads the file with as many threads; None where the program is not built."""
    program = pathlib.Path(args.reprise).parent / "bench_read_bandwidth"
    if not program.exists():
        return None
    return float(re.search(r"([0-9.]+) GB/s median", output(program, str(args.t), args.model)).group(1))


def first_token(args):
    """Seconds from the start of main to the first token of a prompt of about 16 tokens, and the most memory taken."""
    prompt = "The quick brown fox jumps over the lazy dog and then it goes to"
    times = []
    for _ in range(args.r):
        told = output(args.reprise, "generate", "-m", args.model, "-t", str(args.t), "-n", "32", "-p", prompt, "--ignore-eos", "--json")
        times.append(json.loads(told)["timings"]["first_token_s"])
    return statistics.median(times), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def node_cost():
    program = pathlib.Path("build/bench_interpreter")
    return output(program).strip() if program.exists() else ""


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def row(name, values, peer):
    ratio = statistics.median(values) / statistics.median(peer)
    return (f"| {name} | {statistics.median(values):.1f} ({min(values):.1f} .. {max(values):.1f}) | "
            f"{statistics.median(peer):.1f} ({min(peer):.1f} .. {max(peer):.1f}) | {ratio:.2f} |")


def bandwidth_line(ours, plain):
    if None in plain:
        return []
    reads, decodes = statistics.median(plain), statistics.median(r[2] for r in ours)
    return [f"Decode reads {decodes:.2f} GB/s, {100 * decodes / reads:.0f} % of the {reads:.2f} ({min(plain):.2f} .. {max(plain):.2f}) of a plain loop "
            "over the file in between.", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("-t", type=int, default=2)
    parser.add_argument("-p", type=int, default=128)
    parser.add_argument("-n", type=int, default=64)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("-r", type=int, default=5)
    parser.add_argument("--kv", choices=("f16", "q8_0"), default="f16")
    parser.add_argument("--reprise", default=str(ROOT / "build" / "reprise"))
    parser.add_argument("--out")
    args = parser.parse_args()
    python = peer_python()
    version = output(python, "-c", "import llama_cpp; print(llama_cpp.__version__)").strip()
    # before any other child, so that the most memory of a child is that of reprise
    first, rss = first_token(args)
    ours, theirs, plain = [], [], []
    for _ in range(args.r):
        theirs.append(run_peer(python, args))
        ours.append(run_reprise(args))
        plain.append(read_bandwidth(args))
    revision = output(args.reprise, "--version").split("\n")
    size = os.path.getsize(args.model)
    after, cache = f", after {args.d} tokens" if args.d else "", f", {args.kv} cache" if args.kv != "f16" else ""
    lines = [
        f"## {pathlib.Path(args.model).name}, {args.t} threads{after}{cache}",
        "",
        f"{datetime.date.today()}, {cpu_name()}, {os.cpu_count()} cores; {revision[0].strip()}; llama-cpp-python {version}; "
        f"{args.r} interleaved runs, medians (range).",
        "",
        "| tokens/s | reprise | llama.cpp | ratio |",
        "|---|---|---|---|",
        row(f"prefill of {args.p}", [r[0] for r in ours], [r[0] for r in theirs]),
        row(f"decode of {args.n}", [r[1] for r in ours], [r[1] for r in theirs]),
        "",
        *bandwidth_line(ours, plain),
        f"First token of a 16-token prompt: {1000 * first:.0f} ms from the start of main. Most memory: {rss / 1e6:.1f} MB, of a file of "
        f"{size / 1e6:.1f} MB. {node_cost()}",
        "",
    ]
    print("\n".join(lines))
    if args.out:
        with open(args.out, "a", encoding="utf-8") as out:
            print("\n".join(lines), file=out)


if __name__ == "__main__":
    main()
