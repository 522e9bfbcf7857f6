"""examples/import_run.py: a log of a training and a manifest become runs of MLflow, whose client reads the same numbers back, and
of Weights & Biases: by a module that notes the calls, and by its own package, whose reader gets the same numbers from the file of
an offline run.

    test_import.py PROGRAM SOURCE_DIR

MLflow is `mlflow-skinny` of PyPI, in the folder BUILD/mlflow; skipped where it is not there and PyPI cannot be reached. `wandb` is in
BUILD/wandb, and is installed with REPRISE_TEST_WANDB=1 alone: it takes more than half a minute to install."""

import glob
import json
import os
import subprocess
import sys

from cli_program import HANG_S, MIX, PROGRAM, SOURCE, TMP, expect, ok, run, run_tests

SCRIPT = os.path.join(SOURCE, "examples/import_run.py")
MLFLOW = "3.6.0"
WANDB = "0.29.0"  # the last version with a reader of its files in Python
NOTES = """
import json, os
class Run:
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def log(self, data, step): note("log", data, step)
def note(*what):
    with open(os.environ["NOTES"], "a") as f: f.write(json.dumps(what) + "\\n")
def init(project, config):
    note("init", project, config)
    return Run()
"""
# Imports each file to a place of its own, and prints what the client reads back. One process: starting MLflow takes seconds.
READ = """
import json, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import mlflow, import_run
for file in sys.argv[2:]:
    mlflow.set_tracking_uri("file:" + file + ".runs")
    import_run.main("mlflow", file, "who=me")
    c = mlflow.MlflowClient()
    run = c.search_runs(["0"])[0]
    print(json.dumps([run.data.params, {k: [(m.step, m.value) for m in c.get_metric_history(run.info.run_id, k)] for k in run.data.metrics}]))
"""
# Prints what the records of an offline run have.
READ_WANDB = """
import json, sys
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore
store, config, rows, kinds = DataStore(), {}, [], []
store.open_for_scan(sys.argv[1])
while (data := store.scan_data()) is not None:
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    kinds.append(record.WhichOneof("record_type"))
    if kinds[-1] == "run":
        project = record.run.project
        config.update({u.key: json.loads(u.value_json) for u in record.run.config.update})
    if kinds[-1] == "history":
        rows.append({"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item})
print(json.dumps([project, config, rows, kinds]))
"""


def test_wrong_arguments_get_the_usage():
    for arguments in ([], ["mlflow"], ["other", "file"], ["wandb", "file", "name"]):
        p = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=HANG_S)
        expect((p.returncode, p.stdout, p.stderr) == (1, "", "usage: import_run.py mlflow|wandb FILE [NAME=VALUE ...]\n"), "the usage", p)


def path(name):
    return os.path.join(TMP.name, name)


def make():
    """A log with validations, and a manifest; (file, parameters that are expected, {metric: [(step, value)]})."""
    log, manifest = path("run.jsonl"), path("run.json")
    if not os.path.exists(log):
        with open(path("text.txt"), "w") as f:
            f.write("\n\n".join(f"the text {i} of a training that is short" for i in range(60)))
        ok(run("train", "--preset", "tiny", "--text", path("text.txt"), "-n", "4", "-b", "2", "--seq", "8", "--eval-every", "2", "--log", log,
               "-o", path("out.gguf"), "-t", "1"))
        ok(run("generate", MIX, "-p", "a", "-n", "5", "-q", "--manifest", manifest))
    metrics = {}
    with open(log) as f:
        for x in map(json.loads, f):
            for k, v in x.items():
                if k != "step" and not isinstance(v, list):
                    metrics.setdefault(k, []).append((x["step"], v))
    expect(len(metrics["loss"]) == 4 and len(metrics["validation_loss"]) >= 2, "the log", metrics)
    yield log, {"who": "me"}, metrics
    with open(manifest) as f:
        m = json.load(f)
    turn = m["turns"][0]
    params = {"who": "me", "seed": "0", "device": "cpu", "model": MIX, "model_xxh64": m["model"]["xxh64"], "plan_xxh64": m["run"]["plan_xxh64"]}
    yield manifest, params, {"tokens": [(0, 5)], "prompt_tokens": [(0, len(turn["prompt"]))], "decode_s": [(0, turn["decode_s"])]}


def python(*args, program=sys.executable, **env):
    p = subprocess.run([program, *args], capture_output=True, text=True, timeout=HANG_S, env={**os.environ, **env})
    expect(p.returncode == 0, "exit 0", p.stdout + p.stderr)
    return p.stdout


def python_with(name, package, version):
    """A Python that has the package, in BUILD/name; or None."""
    place = os.path.join(os.path.dirname(PROGRAM), name)
    wanted = os.path.join(place, "wanted-" + version)
    program = os.path.join(place, "bin/python")
    if not os.path.exists(wanted):
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True, capture_output=True)
            subprocess.run([program, "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", f"{package}=={version}"],
                           check=True, capture_output=True, timeout=HANG_S)
        except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        with open(wanted, "w"):
            pass
    return program


def test_mlflow_reads_the_same_numbers():
    program = python_with("mlflow", "mlflow-skinny", MLFLOW)
    if program is None:
        return "no mlflow-skinny: neither in the build folder nor from PyPI"
    runs = list(make())
    env = {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
    out = python("-c", READ, SCRIPT, *(file for file, _, _ in runs), program=program, **env)
    for (_, params, metrics), line in zip(runs, [x for x in out.splitlines() if x.startswith("[{")], strict=True):
        got_params, got = json.loads(line)
        expect(params.items() <= got_params.items(), "parameters", got_params)
        for name, values in metrics.items():
            expect([tuple(v) for v in got[name]] == values, name, (got[name], values))


def test_an_offline_run_of_wandb_has_the_same_numbers():
    if not os.environ.get("REPRISE_TEST_WANDB"):
        return "REPRISE_TEST_WANDB=1 runs it"
    program = python_with("wandb", "wandb", WANDB)
    if program is None:
        return "no wandb: neither in the build folder nor from PyPI"
    for file, params, metrics in make():
        folder = file + ".wandb"
        os.mkdir(folder)
        python(SCRIPT, "wandb", file, "who=me", program=program, WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=folder, WANDB_ERROR_REPORTING="false",
               HOME=folder, HTTPS_PROXY="http://127.0.0.1:9")  # nothing listens there
        written = glob.glob(os.path.join(folder, "wandb/offline-run-*/run-*.wandb"))
        expect(len(written) == 1, "one offline run", written)
        project, config, rows, kinds = json.loads(python("-c", READ_WANDB, written[0], program=program))
        expect(project == "reprise" and params.items() <= config.items(), "project and parameters", (project, config))
        expect(kinds[0] == "header" and kinds[-1] == "exit" and kinds.count("run") == 1, "a whole run", kinds)
        for name, values in metrics.items():
            got = [(row["_step"], row[name]) for row in rows if name in row]
            expect(got == values, name, (got, values))


def test_wandb_gets_the_same_numbers():
    os.makedirs(path("modules"), exist_ok=True)
    with open(path("modules/wandb.py"), "w") as f:
        f.write(NOTES)
    for file, params, metrics in make():
        notes = file + ".notes"
        python(SCRIPT, "wandb", file, "who=me", PYTHONPATH=path("modules"), NOTES=notes)
        with open(notes) as f:
            (init, project, config), *logs = map(json.loads, f)
        expect((init, project) == ("init", "reprise") and params.items() <= config.items(), "init", config)
        for name, values in metrics.items():
            got = [(step, data[name]) for _, data, step in logs if name in data]
            expect(got == values, name, (got, values))


run_tests(dict(globals()))
