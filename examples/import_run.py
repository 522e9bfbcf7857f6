"""Imports the log of `reprise train --log` or a manifest of `--manifest` as a run of MLflow or of Weights & Biases.

    python3 examples/import_run.py mlflow|wandb FILE [NAME=VALUE ...]

MLFLOW_TRACKING_URI or WANDB_MODE and WANDB_API_KEY say where it goes. Each NAME is one more parameter of the run."""
import json
import sys


def read(path):
    """The parameters, and (step, metrics) of each step."""
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    first = lines[0]
    if "reprise_manifest" not in first:
        return {}, [(x["step"], {k: v for k, v in x.items() if k != "step" and isinstance(v, (int, float))}) for x in lines]
    params = {**first["program"], **first["sampling"], **first["run"], "model": first["model"]["path"], "model_xxh64": first["model"]["xxh64"]}
    return params, [(i, {"prompt_tokens": len(t["prompt"]), "tokens": len(t["tokens"]),
                         **{k: v for k, v in t.items() if k.endswith("_s")}}) for i, t in enumerate(first["turns"])]


def main(where, path, *more):
    params, steps = read(path)
    params.update(pair.split("=", 1) for pair in more)
    if where == "mlflow":
        import mlflow
        with mlflow.start_run():
            mlflow.log_params(params)
            for step, metrics in steps:
                mlflow.log_metrics(metrics, step=step)
    else:
        import wandb
        with wandb.init(project="reprise", config=params) as run:
            for step, metrics in steps:
                run.log(metrics, step=step)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("mlflow", "wandb") or not all("=" in pair for pair in sys.argv[3:]):
        sys.exit("usage: import_run.py mlflow|wandb FILE [NAME=VALUE ...]")
    main(*sys.argv[1:])
