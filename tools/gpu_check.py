#!/usr/bin/env python3
"""Measures and checks Reprise on a GPU. scripts/gpu-check.sh builds the programs and calls this.

    gpu_check.py (--programs DIR | --simulated BUILD) [--deadline MIN] [--only WORD] [--models DIR] OUTPUT_DIR

The steps run in order of importance: figures first, checks after. A step whose estimated time does not fit into what is
left of the deadline is left out. After each step OUTPUT_DIR/<gpu>-<date>.json and .md are written, so a run that is
killed keeps what it had. With --simulated the same steps run on the simulated device, with a tiny model and few tokens.
"""
import argparse
import concurrent.futures
import datetime
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gpu_report

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The models of the measurements: preset of `reprise synth`, type. Weights are random, shapes those of the models.
MODELS = {
    "1b": ("llama3.2-1b", "BF16"),
    "8b-q8": ("llama3-8b", "Q8_0"),
    "8b-q4": ("llama3-8b", "Q4_K_M"),
    "gpt-oss": ("gpt-oss-20b", "MXFP4"),
    "30b": ("qwen3-30b-a3b", "Q4_K_M"),
    "nn": ("nn-6.9b", "Q4_K_M"),
}
PASSES = ["attention", "quantize", "qkv", "gate", "linear", "residual", "norm", "round"]  # those that change a dense model
PREDICTED_AT = 2047  # position of the counts in bench/counts
GPUS = {"A100": "a100", "H100 PCIe": "h100-pcie", "H100": "h100", "H200": "h200", "4090": "4090", "5090": "5090"}
SMOKE = "tests/golden/tiny/llama-mix.gguf"


class Failure(Exception):
    """A command that failed, or a result that is not what it must be."""


class Machine:
    """The programs, and what differs between a GPU and the simulated device."""

    def __init__(self, args):
        self.simulated = args.simulated is not None
        self.env = dict(os.environ)
        self.deadline = time.monotonic() + 60 * (args.deadline if args.deadline is not None else 60 if self.simulated else 8)
        self.step = threading.local()  # .seconds: the estimate of the step that a thread is in
        folder = pathlib.Path(args.simulated or args.programs).resolve()
        self.revision = "simulated"
        if self.simulated:
            folder = folder / "tests"
            self.env = {"SIM_QUIET": "1", "REPRISE_BLAS": str(folder / "libcudasim_blas_whole.so")} | self.env
        else:
            self.revision = (folder / "revision").read_text(encoding="utf-8").strip()
            self.env["LD_LIBRARY_PATH"] = ":".join(cublas_folders() + [self.env.get("LD_LIBRARY_PATH", "")])
        self.folder = folder

    def program(self, name):
        if self.simulated:
            name = "../reprise-sim" if name == "reprise" else f"cudasim_{name}"
        return str(self.folder / name)

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, name, *args, seconds=None, **env):
        """Standard output of the program."""
        return self.command([self.program(name), *map(str, args)], env, seconds)

    def command(self, argv, env, seconds=None):
        """It may take three times the estimate; its children are ended with it."""
        seconds = 100 if self.simulated else seconds or self.step.seconds
        limit = max(5.0, min(self.left(), 20 + 3 * seconds))
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                              env=self.env | env, start_new_session=True) as p:
            try:
                out, err = p.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.communicate()
                raise Failure(f"ran longer than {limit:.0f} s") from None
        if p.returncode != 0:
            last = (err.strip() or out.strip()).splitlines()[-3:]
            raise Failure(f"exit status {p.returncode}: " + " | ".join(last))
        return out

    def json(self, name, *args, **more):
        out = self.run(name, *args, **more)
        try:
            return json.loads(out)
        except json.JSONDecodeError as e:
            raise Failure(f"{name} printed no JSON: {e}") from None

    def reprise(self, *args, **more):
        return self.json("reprise", *args, "--require-cuda", "--json", **more)


def cublas_folders():
    """Folders with cuBLASLt that the loader may not search: of the toolkit, and of Python packages."""
    places = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
    places += [f"{path}/nvidia/*/lib" for path in sys.path if path.endswith("packages")]
    found = [folder for place in places for folder in sorted(glob.glob(place), reverse=True)]
    return [folder for folder in found if glob.glob(folder + "/libcublasLt.so.*")]


class Models:
    """Writes the models in the background, in the order of their use, at most three ahead; removes each after its last use."""

    def __init__(self, machine, folder, uses):
        self.machine, self.folder = machine, pathlib.Path(folder)
        self.uses = list(uses)  # one entry per step that uses a model, in order
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.files = {}
        self.write_ahead()

    def write_ahead(self):
        for name in dict.fromkeys(self.uses):
            if len(self.files) >= 4:
                return
            if name not in self.files:
                self.files[name] = self.pool.submit(self.write, name)

    def write(self, name):
        preset, kind = MODELS[name]
        path = self.folder / f"{name}.gguf"
        self.machine.run("reprise", "synth", "tiny" if self.machine.simulated else preset, "-q", "--type", kind, "-o", path,
                         seconds=60)
        return path

    def path(self, name):
        if name not in self.files:
            self.files[name] = self.pool.submit(self.write, name)
        return self.files[name].result()

    def used(self, name):
        self.uses.remove(name)
        if name not in self.uses and name in self.files:
            future = self.files.pop(name)
            if not future.cancel() and future.exception() is None:
                future.result().unlink(missing_ok=True)
        self.write_ahead()

    def close(self):
        self.pool.shutdown(cancel_futures=True)


class Run:
    """The state of one run: results so far, and the functions of the steps."""

    def __init__(self, machine, out):
        self.machine, self.out = machine, pathlib.Path(out)
        self.models = None
        self.lock = threading.Lock()
        self.data = {"date": datetime.date.today().isoformat(), "revision": machine.revision, "device": {}, "read": {}, "predicted": {},
                     "gaps": {}, "rows": [], "profiles": [], "checks": []}

    # ---- figures ----

    def device(self):
        self.data["device"] = self.machine.json("reprise", "devices", "--copy", "--json")["cuda"][0]

    def predict(self):
        """Predictions for the GPUs that the model knows. The simulated device stands for an H100."""
        name = "H100" if self.machine.simulated else self.data["device"]["name"]
        gpu = next((gpu for word, gpu in GPUS.items() if word in name), None)
        if gpu is None:
            return
        got = json.loads(self.machine.run("reprise", "bench", "launches", "--predict", "bench/counts", "--gpu", gpu, "--json"))
        by_counts = {p["counts"]: p for p in got}
        for preset, kind in MODELS.values():
            p = by_counts[preset if kind == "Q8_0" else f"{preset}-{kind.lower()}"]
            self.data["predicted"][f"{preset} {kind}"] = {"position": p["position"], "us": p["us"]}

    def read(self):
        self.data["read"] = self.machine.json("bench_cuda_read", *([0, 1, 2] if self.machine.simulated else []))

    def gaps(self):
        self.data["gaps"] = self.machine.json("bench_cuda_gaps", *([0, 1, 2] if self.machine.simulated else []))

    def row(self, model, variant, position, us, **more):
        if not us > 0:
            raise Failure(f"a token of {us} us")
        name = " ".join(MODELS[model]) if model in MODELS else model
        self.data["rows"].append({"model": name, "variant": variant, "position": position, "us": us, **more})

    def bench(self, model, variant="", prompt=512, depth=0, more=(), **env):
        """Decode, with a prompt also prefill. The mode must be the best one, and cuBLASLt must compute what it may."""
        n, r = 128, 3
        if self.machine.simulated:
            prompt, n, r, depth = min(prompt, 32), 2, 1, min(depth, 4)
        got = self.machine.reprise("bench", "-m", self.models.path(model), "-p", prompt, "-n", n, "-r", r, "-d", depth, *more,
                                   **env)
        rates = {r["test"][:2]: r["median_tok_s"] for r in got["results"]}
        more = {} if "pp" not in rates else {"open_s": got["open_s"], "prefill_tok_s": rates["pp"], "blas": got["blas"]}
        self.row(model, variant, depth + n // 2, 1e6 / rates["tg"], bytes=got["bytes_per_token"], mode=got["mode"],
                 overlap=got["overlap"], **more)
        if got["mode"] != "loop" or got["reason"]:
            raise Failure(f"mode {got['mode']}: {got['reason']}")
        if "pp" in rates and got["blas"] and not got["blas"].startswith("cublasLt"):
            raise Failure(f"cuBLASLt is not used: {got['blas']}")

    def sequences(self, model):
        """Replies that run at the same time, in an engine. A row's time is that of a token of any of them."""
        prompt, steps, most = (8, 2, 2) if self.machine.simulated else (128, 32, 16)
        got = self.machine.json("reprise", "bench", "sequences", "-m", self.models.path(model), "-p", prompt, "-n", steps,
                                "--sequences", most, "--device", "cuda", "--json")
        for r in got["results"]:
            self.row(model, f"{r['sequences']} replies at once", prompt + steps // 2, 1e6 / r["tok_s"], mode="engine")

    def launches(self, model, path=None, **env):
        """Tokens in each launch mode: the kernels and the loop are those that the executor captures."""
        n = 2 if self.machine.simulated else 64
        got = self.machine.reprise("bench", "launches", "-m", path or self.models.path(model), "-n", n, **env)
        off = " without PDL" if env else ""
        for mode, rate in got["tok_s"].items():
            if rate <= 0:
                raise Failure(f"mode {mode} was not measured")
            self.row(model, f"mode {mode}{off}", 16 + n // 2, 1e6 / rate, mode=mode, kernels=got["kernels_per_token"])

    def boundaries(self, **env):
        """The tiny model has next to no work, so its tokens are the boundaries of its kernels."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tiny.gguf")
            self.machine.run("reprise", "synth", "tiny", "-q", "-o", path)
            self.launches("tiny", path, **env)

    def profile(self, model, position):
        at, runs = (24, 1) if self.machine.simulated else (position, 20)
        got = self.machine.reprise("profile", "-m", self.models.path(model), "--pos", at, "--runs", runs)
        ops = {}
        for step in got["steps"]:
            n, us, size = ops.get(step["op"], (0, 0.0, 0))
            ops[step["op"]] = (n + 1, us + step["us"], size + step["bytes"])
        self.data["profiles"].append({"model": " ".join(MODELS[model]), "position": position, "us": got["total_us"], "ops": ops})
        self.row(model, "graph without a loop", position, got["total_us"], bytes=sum(size for _, _, size in ops.values()),
                 mode=got["mode"])

    # ---- checks ----

    def verify(self, path):
        self.machine.reprise("verify", "-m", path, "--require-graph", "-n", 1 if self.machine.simulated else 8)

    def perplexity(self):
        """With cuBLASLt and without: the same within one per cent."""
        model, text, window = "assets/demo.gguf", ROOT / "README.md", 128
        if self.machine.simulated:
            model, text, window = "tests/golden/tiny/llama-q8_0.gguf", self.out / "text", 32
            text.write_text("the first words of a text " * 2, encoding="utf-8")
        options = ["perplexity", "-m", model, "-f", text, "--window", window, "-q"]
        with_it, without = self.machine.reprise(*options), self.machine.reprise(*options, REPRISE_BLAS="off")
        a, b = with_it["perplexity"], without["perplexity"]
        if not abs(a - b) < 0.01 * b:
            raise Failure(f"perplexity {a} with cuBLASLt, {b} without")

    def suite(self, name):
        if self.machine.simulated:
            self.machine.run(name, "-j1")
        else:
            # `verify` runs the compiled kernels; here each of a hundred models would compile its own.
            self.machine.run("gpu_tests", "--filter", name + "/*", REPRISE_DEVICE="cuda", REPRISE_SPECIALIZE="off",
                             REPRISE_BLAS="auto" if name == "blas" else "off")

    def sanitize(self, tool, suite):
        self.machine.command(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "--target-processes", "all",
                              self.machine.program("gpu_tests"), "--filter", suite + "/*"], {"REPRISE_DEVICE": "cuda"})

    # ---- the run ----

    def note(self, name, outcome, why="", seconds=0.0):
        with self.lock:
            self.data["checks"].append({"name": name, "outcome": outcome, "why": why, "seconds": round(seconds, 1)})
            print(f"{outcome:8} {seconds:6.1f} s  {name}{': ' if why else ''}{why}", flush=True)
            gpu_report.write(self.data, self.out)

    def step(self, name, seconds, function):
        if self.machine.left() < seconds:
            self.note(name, "not run", f"{self.machine.left():.0f} s are left, it takes about {seconds}")
            return
        self.machine.step.seconds = seconds
        began = time.monotonic()
        try:
            function()
            self.note(name, "passed", "", time.monotonic() - began)
        except (Failure, OSError, LookupError, TypeError, ValueError) as e:
            why = str(e) if isinstance(e, Failure) else f"{type(e).__name__}: {e}"
            self.note(name, "FAILED", why, time.monotonic() - began)


def suites():
    """The suites of gpu_tests: an op with a kernel and tests, and those that run models and engines."""
    kernels = sorted(ROOT.glob("kernels/*.cu")) + sorted(ROOT.glob("kernels/*/*.cu"))
    return [path.stem for path in kernels if any(ROOT.glob(f"tests/ops/**/test_{path.stem}.c"))] + [
        "golden", "generate", "blas", "kv_blocks", "engine", "hang"]


def figures(run):
    """(name, estimated seconds, model or None, function): the measurements, the most important first."""
    def bench(model, name, seconds, *args, **more):
        return (f"bench {model}{name}", seconds, model, lambda: run.bench(model, name.strip(), *args, **more))

    def variant(model, name, seconds, *more, depth=0, **env):
        return bench(model, " " + name, seconds, prompt=0, depth=depth, more=more, **env)

    def profile(model, position, seconds):
        return (f"profile {model} at {position}", seconds, model, lambda: run.profile(model, position))

    yield ("device", 5, None, run.device)
    yield ("predictions", 1, None, run.predict)
    yield ("read bandwidth", 5, None, run.read)
    yield (f"verify {pathlib.Path(SMOKE).name}", 5, None, lambda: run.verify(SMOKE))
    yield bench("1b", "", 10)
    yield ("gaps between kernels", 5, None, run.gaps)
    yield ("launch modes 1b", 12, "1b", lambda: run.launches("1b"))
    yield variant("1b", "without PDL", 6, REPRISE_PDL="off")
    yield bench("8b-q8", "", 15)
    yield profile("8b-q8", PREDICTED_AT, 12)
    yield bench("8b-q4", "", 15)
    yield profile("8b-q4", PREDICTED_AT, 12)
    yield ("replies at once 8b-q4", 15, "8b-q4", lambda: run.sequences("8b-q4"))
    yield variant("8b-q4", "without PDL", 10, REPRISE_PDL="off")
    yield variant("8b-q4", "temperature 0.8", 10, "--temp", "0.8")
    yield variant("8b-q4", "after 4096 tokens", 15, depth=4096)
    yield profile("8b-q8", 4096, 12)
    yield profile("1b", PREDICTED_AT, 6)
    yield profile("1b", 32000, 8)
    yield bench("gpt-oss", "", 25)
    yield profile("gpt-oss", PREDICTED_AT, 15)
    for name in PASSES:
        yield variant("1b", f"without pass {name}", 6, f"--passes=-{name}")
    yield ("launch modes tiny", 5, None, run.boundaries)
    yield ("launch modes tiny without PDL", 5, None, lambda: run.boundaries(REPRISE_PDL="off"))
    yield bench("30b", "", 30)
    yield profile("30b", PREDICTED_AT, 20)
    yield bench("nn", "", 12)
    yield profile("nn", PREDICTED_AT, 12)
    yield profile("nn", 32000, 12)


def checks(run):
    """(name, estimated seconds, function)"""
    yield ("perplexity with cuBLASLt and without", 8, run.perplexity)
    tiny = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/golden/tiny").glob("*.gguf"))
    for name in ["scale", "silu", "hang"] if run.machine.simulated else suites():
        yield (f"tests of {name}", 8, lambda name=name: run.suite(name))
    for path in [] if run.machine.simulated else [p for p in tiny if p != SMOKE] + ["assets/demo.gguf"]:
        yield (f"verify {pathlib.Path(path).name}", 3, lambda path=path: run.verify(path))
    if shutil.which("compute-sanitizer") and not run.machine.simulated:
        for op in ["mul_mat", "attention", "qkv", "gate_up", "linear", "sample", "mul_mat_id", "router", "experts_down"]:
            for tool in ["memcheck", "racecheck"]:
                yield (f"{tool} {op}", 20, lambda tool=tool, op=op: run.sanitize(tool, op))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = p.add_mutually_exclusive_group(required=True)
    which.add_argument("--programs", metavar="DIR")
    which.add_argument("--simulated", metavar="BUILD")
    p.add_argument("--deadline", type=float, metavar="MIN")
    p.add_argument("--only", default="", metavar="WORD")
    p.add_argument("--models", metavar="DIR")
    p.add_argument("out", metavar="OUTPUT_DIR")
    args = p.parse_args()
    pathlib.Path(args.out).mkdir(parents=True, exist_ok=True)
    run = Run(Machine(args), args.out)
    measured = [s for s in figures(run) if args.only in s[0] or s[0] == "device"]
    with tempfile.TemporaryDirectory(dir=args.models) as folder:
        run.models = Models(run.machine, folder, [model for _, _, model, _ in measured if model])
        try:
            for name, seconds, model, function in measured:
                run.step(name, seconds, function)
                if model:
                    run.models.used(model)
        finally:
            run.models.close()
    # Nothing is timed any more, so checks may run beside each other.
    with concurrent.futures.ThreadPoolExecutor(1 if run.machine.simulated else 4) as pool:
        for name, seconds, function in checks(run):
            if args.only in name:
                pool.submit(run.step, name, seconds, function)
    count = {kind: sum(c["outcome"] == kind for c in run.data["checks"]) for kind in ("passed", "FAILED", "not run")}
    print(", ".join(f"{n} {kind}" for kind, n in count.items()))
    sys.exit(1 if count["FAILED"] else 0)


main()
