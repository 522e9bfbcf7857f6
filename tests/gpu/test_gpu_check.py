#!/usr/bin/env python3
"""scripts/gpu-check.sh on the simulated device: every step runs and its result is read; and what it does when a result is
not as it must be, when time is short, and when it is killed.

    test_gpu_check.py SOURCE_DIR BUILD_DIR
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

SOURCE, BUILD = sys.argv[1:3]
HANG_S = float(os.environ.get("REPRISE_TEST_HANG_S", 600))
SCRIPT = [os.path.join(SOURCE, "scripts/gpu-check.sh"), "--dry-run", BUILD]


def run(folder, *options, **env):
    return subprocess.run(["sh", *SCRIPT, *options, folder], capture_output=True, text=True, env=os.environ | env, check=False)


def results(folder, ending="json"):
    (path,) = glob.glob(f"{folder}/simulated-device-*.{ending}")
    with open(path, encoding="utf-8") as f:
        return json.load(f) if ending == "json" else f.read()


def expect(condition, *what):
    if not condition:
        sys.exit("test_gpu_check.py: " + " ".join(map(str, what)))


def test_every_step(folder):
    p = run(folder)
    data = results(folder)
    expect(p.returncode == 0, p.stdout, p.stderr)
    expect({c["outcome"] for c in data["checks"]} == {"passed"}, data["checks"])
    rows = {(r["model"], r["variant"]): r for r in data["rows"]}
    plain = rows["llama3.2-1b BF16", ""]
    expect(plain["mode"] == "loop" and plain["overlap"] == "on" and plain["blas"].startswith("cublasLt"), plain)
    expect(rows["llama3.2-1b BF16", "without PDL"]["overlap"] == "REPRISE_PDL=off", rows)
    expect(("llama3-8b Q4_K_M", "2 replies at once") in rows, rows)
    expect(("llama3-8b Q4_K_M", "temperature 0.8") in rows and ("gpt-oss-20b MXFP4", "") in rows, rows)
    expect(all(("tiny", f"mode {m}{off}") in rows for m in ("eager", "replay", "loop") for off in ("", " without PDL")), rows)
    expect(data["read"]["read_bytes_s"] > 0 and data["gaps"]["while_iteration_of_9_pdl_us"] > 0, data["gaps"])
    expect(all(sum(us for _, us, _ in p["ops"].values()) > 0 for p in data["profiles"]), data["profiles"])
    profiled = [r for r in data["rows"] if r["variant"] == "graph without a loop" and r["position"] == 2047]
    expect({r["model"] for r in profiled} == set(data["predicted"]) and len(profiled) == 6, data["predicted"])
    expect(all(p["us"] > 0 and p["position"] == 2047 for p in data["predicted"].values()), data["predicted"])
    text = results(folder, "md")
    expect("| predicted us | error % |" in text, text)
    expect(text.count("| llama3.2-1b BF16 |") == sum(r["model"] == "llama3.2-1b BF16" for r in data["rows"]), text)
    expect("| tests of silu | passed |" in text, text)


def test_a_wrong_result_fails(folder):
    p = run(folder, "--only", "bench nn", REPRISE_BLAS="off")
    (failed,) = [c for c in results(folder)["checks"] if c["outcome"] != "passed"]
    expect(p.returncode == 1 and failed["name"] == "bench nn", p.stdout)
    expect("cuBLASLt is not used: REPRISE_BLAS=off" in failed["why"], failed)
    expect(len(results(folder)["rows"]) == 1, "the figure is kept")


def test_a_deadline(folder):
    p = run(folder, "--deadline", "0")
    expect(p.returncode == 0 and "0 passed, 0 FAILED" in p.stdout and "0 s are left" in p.stdout, p.stdout)
    expect(glob.glob(f"{folder}/unknown-device-*.md"), os.listdir(folder))


def test_a_killed_run_keeps_what_it_had(folder):
    with subprocess.Popen(["sh", *SCRIPT, "--models", folder, "--only", "bench", folder], stdout=subprocess.DEVNULL) as p:
        end = time.monotonic() + HANG_S
        while p.poll() is None and not (glob.glob(f"{folder}/*.json") and results(folder)["rows"]) and time.monotonic() < end:
            time.sleep(0.1)
        p.send_signal(signal.SIGKILL)
    expect(p.returncode == -signal.SIGKILL, "killed, exit status", p.returncode)
    expect(results(folder)["rows"] and "| llama3.2-1b BF16 |" in results(folder, "md"), "no figures are left")


for test in (test_every_step, test_a_wrong_result_fails, test_a_deadline, test_a_killed_run_keeps_what_it_had):
    with tempfile.TemporaryDirectory() as temp:
        test(temp)
    print("passed", test.__name__)
