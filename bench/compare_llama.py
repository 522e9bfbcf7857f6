#!/usr/bin/env python3
"""Compares decode and prefill of reprise with llama.cpp, and with ik_llama.cpp if --ik names its llama-bench.

    bench/compare_llama.py MODEL.gguf ... [-t 1,2] [-p 128] [-n 64] [-d 0] [-r 5] [-k 1] [--kv f16] [--repack off,on] [--ik PATH] [--busy]
                           [--isa avx2] [--out FILE.md]

The peer is llama.cpp's llama-bench, built for this CPU from the sources in the package llama-cpp-python (version in
tools/requirements.txt). Every run of a test is a process of its own. Turns are short, because the speed of shared machines changes within minutes. The
programs take turns, with the same file and number of threads.
Each peer runs with every setting that can make it faster: flash attention on and off, run-time repacking of ik_llama.cpp on
and off; reprise with every setting of --repack. The setting with the best median counts. Cells are medians (lowest .. highest) of -r
processes with -k measurements each; the ratio is the median (lowest .. highest) of the ratios to the best peer in each round of turns.

A peer built without AVX512_VNNI on a CPU that has it is refused. With --isa avx2 all programs use AVX2, FMA, F16C and BMI2 only, as on a CPU
without AVX-512 and VNNI. The llama-bench that --ik names must be built for these, too (-DGGML_NATIVE=OFF)."""
import argparse
import collections
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
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / "build" / "peer"
NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
AVX2 = ("-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON")
FEATURES = ("avx2", "avx512", "avx512_vbmi", "avx512_vnni", "avx512_bf16", "amx_int8", "neon", "dotprod", "matmul_int8")


def output(*command, log=False, folder=None):
    """Standard output of a program that runs in this folder, with `log` also its standard error. If it fails, its standard
    error ends this program."""
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if run.returncode != 0:
        sys.exit(f"{command[0]} failed: {run.stderr.strip()[-2000:]}")
    return run.stdout + run.stderr if log else run.stdout


# ---- the peer ----


def peer_version():
    text = (ROOT / "tools" / "requirements.txt").read_text()
    return re.search(r"llama-cpp-python==(\S+)", text).group(1)


def unpack_sources(version):
    """The folder of llama.cpp's sources inside the source package."""
    package = f"llama_cpp_python-{version}"
    sources = PEER / package / "vendor" / "llama.cpp"
    if not sources.exists():
        PEER.mkdir(parents=True, exist_ok=True)
        output(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
               "-d", str(PEER), f"llama-cpp-python=={version}")
        with tarfile.open(PEER / f"{package}.tar.gz") as archive:
            archive.extractall(PEER)
    return sources


def build_peer(sources, folder, instructions, flags):
    print("building llama-bench, which takes about ten minutes", file=sys.stderr)
    output("cmake", "-S", str(sources), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *instructions,
           "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF",
           "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}")
    output("ninja", "-C", str(folder), "llama-bench")


def runs(program):
    """Whether the program completes a prefill of the demo model without a crash."""
    return subprocess.run([program, "-m", str(ROOT / "assets" / "demo.gguf"), "-p", "32", "-n", "1", "-r", "1"],
                          capture_output=True).returncode == 0


def peer_program(version, isa):
    """llama-bench, its build folder, its sources, and a note on the build. AMX kernels built by gcc 12 crash, so a build that
    crashes is replaced by one without AMX."""
    sources = unpack_sources(version)
    builds = [("native", ("-DGGML_NATIVE=ON",), "", ""),
              ("without-amx", ("-DGGML_NATIVE=ON",), NO_AMX, "without AMX, whose kernels crash when built by this compiler")]
    if isa == "avx2":
        builds = [("avx2", AVX2, "-mtune=native", "")]
    for folder, instructions, flags, note in builds:
        program = PEER / folder / "bin" / "llama-bench"
        if not program.exists():
            build_peer(sources, PEER / folder, instructions, flags)
        if runs(program):
            return program, PEER / folder, sources, note
    sys.exit(f"{PEER}: llama-bench cannot be run on this machine")


def peer_features(folder, sources):
    """The instruction sets that its kernels were built for, from the ggml_cpu_has_* functions."""
    calls = "".join(f'if (ggml_cpu_has_{f}()) fputs("{f.upper()} ", stdout);' for f in FEATURES)
    code = f'#include "ggml-cpu.h"\n#include <stdio.h>\nint main(void) {{ {calls} return 0; }}\n'
    with tempfile.TemporaryDirectory() as scratch:
        source, program = pathlib.Path(scratch) / "features.c", str(pathlib.Path(scratch) / "features")
        source.write_text(code)
        libraries = sorted(str(p) for p in (folder / "ggml" / "src").rglob("*.a"))
        output("c++", "-x", "c", "-I", str(sources / "ggml" / "include"), str(source), "-x", "none", "-o", program,
               "-Wl,--start-group", *libraries, "-Wl,--end-group", "-fopenmp", "-lpthread", "-ldl", "-lm")
        return output(program).split()


def refuse_unfair(features, isa):
    """Ends the program if the peer was built for fewer instruction sets than the ones to compare, or for more."""
    if isa == "avx2":
        if "AVX2" not in features or "AVX512" in features:
            sys.exit(f"the peer was built for {' '.join(features)}, but --isa is avx2: the comparison would not be fair")
    elif "avx512_vnni" in pathlib.Path("/proc/cpuinfo").read_text() and "AVX512_VNNI" not in features:
        sys.exit(f"the peer was built for {' '.join(features)} only, but this CPU has AVX512_VNNI: the comparison would not be fair")


def settings(args, program):
    """Yields (peer, setting, command line)."""
    needs_flash = args.kv == "q8_0"  # a quantised V cache needs flash attention
    for flash in ("1",) if needs_flash else ("1", "0"):
        yield "llama.cpp", f"-fa {flash}", [str(program), "-fa", flash]
    for repack in ("0", "1") if args.ik else ():
        yield "ik_llama.cpp", f"-rtr {repack}", [args.ik, "-fa", "1", "-rtr", repack]


# ---- runs ----


def run_peer(command, args, model, threads, test):
    """Tokens per second of each measurement of a test, such as pp128 or tg64."""
    n = test[2:]
    command = [*command, "-m", model, "-t", str(threads), "-ctk", args.kv, "-ctv", args.kv, "-r", str(args.k), "-o", "json"]
    if args.d and command[0] == args.ik:  # has no -d; -gp is a decode at a depth
        if test.startswith("pp"):
            return []
        command += ["-p", "0", "-n", "0", "-gp", f"{args.d},{n}"]
    else:
        command += ["-p", n, "-n", "0"] if test.startswith("pp") else ["-p", "0", "-n", n]
        command += ["-d", str(args.d)] if args.d else []
    text = output(*command)
    return json.loads(text[text.index("["):])[0]["samples_ts"]


def run_reprise(args, model, threads, test, repack):
    """What `reprise bench --json` reports of the test."""
    n = test[2:]
    return json.loads(output(args.reprise, "bench", "-m", model, "-t", str(threads), "-d", str(args.d), "--kv", args.kv,
                             "-p", n if test.startswith("pp") else "0", "-n", n if test.startswith("tg") else "0",
                             "-r", str(args.k), "--repack", repack, "--json"))


def read_bandwidth(args, model, threads):
    """GB/s of the best access pattern of `reprise bench machine` on the file."""
    return json.loads(output(args.reprise, "bench", "machine", "--read", "-f", model, "-t", str(threads), "--json"))["read"][0]["best_gb_s"]


def first_token(args, model, threads):
    """Median seconds from the start of main to the first token of a prompt of about 16 tokens, and the peak memory in bytes of
    all child processes so far."""
    prompt = "The quick brown fox jumps over the lazy dog and then it goes to"
    times = []
    for _ in range(args.r):
        report = output(args.reprise, "generate", "-m", model, "-t", str(threads), "-n", "32", "-p", prompt, "--ignore-eos", "--json")
        times.append(json.loads(report)["timings"]["first_token_s"])
    return statistics.median(times), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


class Busy:
    """Keeps one core busy with another process, if wanted."""

    def __init__(self, wanted):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if wanted else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()


# ---- tables ----


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def cell(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} .. {max(values):.1f})" if values else "-"


def revision(reprise):
    """The program's name and version."""
    return output(reprise, "--version").splitlines()[0].strip()


def publish(text, path):
    """Prints the text, and appends it to the file if there is one."""
    print(text)
    if path:
        with open(path, "a", encoding="utf-8") as out:
            print(text, file=out)


def test_name(args, test):
    name = f"prefill of {test[2:]}" if test.startswith("pp") else f"decode of {test[2:]}"
    if args.d:
        name += f" after {args.d}"
    return name + (f", {args.kv} cache" if args.kv != "f16" else "") + (", one core busy" if args.busy else "")


def run_turns(args, program, model, threads, test):
    """{(program, setting): [rates of a process, for each round]}, and the reports of reprise with its first setting."""
    runs, reports = collections.defaultdict(list), []
    for _ in range(args.r):
        for peer, setting, command in settings(args, program):
            rates = run_peer(command, args, model, threads, test)
            if rates:
                runs[peer, setting].append(rates)
        for repack in args.repack:
            report = run_reprise(args, model, threads, test, repack)
            runs["reprise", f"--repack {repack}"].append(report["results"][0]["runs"])
            if repack == args.repack[0]:
                reports.append(report)
    return runs, reports


def best_setting(runs, peer):
    """The setting of a program with the best median, and its rates by round; (None, None) if it did not run."""
    tried = {s: rounds for (p, s), rounds in runs.items() if p == peer}
    best = max(tried, key=lambda s: statistics.median(sum(tried[s], [])), default=None)
    return best, tried.get(best)


def row_of(runs):
    """Cells of the programs and the ratio."""
    cells, rounds = [], {}
    for peer in ("reprise", "llama.cpp", "ik_llama.cpp"):
        setting, rates = best_setting(runs, peer)
        cells.append(f"{cell(sum(rates, []))} `{setting}`" if rates else "-")
        if rates:
            rounds[peer] = [statistics.median(r) for r in rates]
    ours = rounds.pop("reprise")
    best = max(rounds.values(), key=statistics.median, default=None)
    ratios = [a / b for a, b in zip(ours, best)] if best else []
    return cells, f"{statistics.median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})" if ratios else "-"


def compare(args, program, model, threads):
    """Rows of the table, and one line on the read bandwidth of decode and the pages of the file."""
    name, rows, lines = pathlib.Path(model).name.removesuffix(".gguf"), [], []
    with Busy(args.busy):
        for test in [f"pp{p}" for p in args.p] + ([f"tg{args.n}"] if args.n else []):
            runs, reports = run_turns(args, program, model, threads, test)
            cells, ratio = row_of(runs)
            rows.append(f"| {name} | {test_name(args, test)} | {threads} | {' | '.join(cells)} | {ratio} |")
            if test.startswith("tg"):
                reads = [read_bandwidth(args, model, threads) for _ in range(args.r)]
                gb_s, plain = statistics.median(r["gb_s"] for r in reports), statistics.median(reads)
                lines = [f"{name}, {threads} thread{'s' if threads > 1 else ''}: decode reads {gb_s:.2f} GB/s, {100 * gb_s / plain:.0f} % of "
                         f"the {plain:.2f} ({min(reads):.2f} .. {max(reads):.2f}) of the best loop that only reads the file."]
                # null: the weights are a copy
                pages = [r["huge_pages"] for r in reports if r["huge_pages"] is not None]
                if pages:
                    lines[0] += f" {100 * statistics.median(pages):.0f} % of the weights are on huge pages."
    return rows, lines


def repack_settings(text):
    found = text.split(",")
    for setting in found:
        if setting not in ("on", "off", "auto", "codebook"):
            raise argparse.ArgumentTypeError(f"must be on, off, auto or codebook, comma-separated, not '{setting}'")
    return found


def numbers(text):
    return [int(n) for n in text.split(",") if n and int(n) > 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("-t", type=numbers, default=[2], help="numbers of threads, comma-separated")
    parser.add_argument("-p", type=numbers, default=[128], help="lengths of the prefills in tokens, comma-separated")
    parser.add_argument("-n", type=int, default=64, help="tokens to decode")
    parser.add_argument("-d", type=int, default=0, help="tokens already in the context")
    parser.add_argument("-r", type=int, default=5, help="processes of each program")
    parser.add_argument("-k", type=int, default=1, help="measurements in each process")
    parser.add_argument("--kv", choices=("f16", "q8_0"), default="f16", help="type of the KV cache")
    parser.add_argument("--repack", type=repack_settings, default=["off"], help="settings of reprise bench --repack, comma-separated")
    parser.add_argument("--ik", help="llama-bench of ik_llama.cpp, built for this CPU")
    parser.add_argument("--busy", action="store_true", help="keep one core busy with another process meanwhile")
    parser.add_argument("--isa", choices=("native", "avx2"), default="native", help="instruction sets of all programs")
    parser.add_argument("--reprise", default=str(ROOT / "build" / "reprise"), help="the program to measure")
    parser.add_argument("--out", help="append the result to this file")
    args = parser.parse_args()
    version = peer_version()
    program, folder, sources, how = peer_program(version, args.isa)
    features = peer_features(folder, sources)
    refuse_unfair(features, args.isa)
    if args.isa != "native":
        os.environ["REPRISE_ISA"] = args.isa
    rows, reads, starts = [], [], []
    for model in args.models:
        for threads in args.t:
            if not (args.d or args.busy):
                first, rss = first_token(args, model, threads)
                starts.append(f"{pathlib.Path(model).name}, {threads} thread{'s' if threads > 1 else ''}: first token of a 16-token prompt "
                              f"{1000 * first:.0f} ms from the start of main; peak memory of any model so far {rss / 1e6:.1f} MB, for a file of "
                              f"{os.path.getsize(model) / 1e6:.1f} MB.")
            more, lines = compare(args, program, model, threads)
            rows += more
            reads += lines
    isa = "" if args.isa == "native" else f" with REPRISE_ISA={args.isa}"
    text = "\n".join([
        f"{datetime.date.today()}, {cpu_name()}, {os.cpu_count()} cores; {revision(args.reprise)}{isa}; "
        f"llama.cpp of llama-cpp-python {version}"
        f"{', ' + how if how else ''} ({' '.join(features)}){', ik_llama.cpp' if args.ik else ''}; medians (range) of {args.r} interleaved "
        f"processes with {args.k} measurement{'s' if args.k > 1 else ''} each, "
        "each peer in its best setting.",
        "",
        "| model | test | threads | reprise | llama.cpp | ik_llama.cpp | ratio to the faster |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        *[f"- {line}" for line in reads + starts],
        "",
    ])
    publish(text, args.out)


if __name__ == "__main__":
    main()
