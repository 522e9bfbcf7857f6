"""The report of tools/gpu_check.py: OUTPUT_DIR/<gpu>-<date>.json and .md. A column of the main table is a row of COLUMNS."""
import json
import os
import re

# Microseconds a token that others have published for a single-kernel decode step of this shape, by the GPU's name.
PUBLISHED = {("llama3.2-1b BF16", "H100"): 980, ("llama3.2-1b BF16", "H200"): 795}


def gb_s(row):
    return row["bytes"] / row["us"] / 1e3 if "bytes" in row else None


def read_us(row, data):
    """The time that reading the bytes of a token takes at the measured read bandwidth."""
    return 1e6 * row["bytes"] / data["read"]["read_bytes_s"] if "bytes" in row and data["read"] else None


def share_of_read(row, data):
    limit = read_us(row, data)
    return 100.0 * limit / row["us"] if limit else None


def published(row, data):
    gpu = data["device"].get("name", "")
    return next((us for (model, name), us in PUBLISHED.items()
                 if model == row["model"] and name in gpu and not row["variant"]), None)


def predicted(row, data):
    """The prediction of docs/gpu-model.md for this model and position. It knows no variant but the launch without a loop."""
    p = data["predicted"].get(row["model"])
    plain = row["variant"] in ("", "graph without a loop")
    return p["us"] if p and plain and row["position"] == p["position"] else None


def error(row, data):
    p = predicted(row, data)
    return 100.0 * (p / row["us"] - 1.0) if p else None


# Title, format, function of a row and of all data; None is an empty cell.
COLUMNS = [
    ("model", "{}", lambda r, d: r["model"]),
    ("variant", "{}", lambda r, d: r["variant"]),
    ("position", "{}", lambda r, d: r["position"]),
    ("us a token", "{:.1f}", lambda r, d: r["us"]),
    ("us to read it", "{:.1f}", read_us),
    ("published us", "{}", published),
    ("predicted us", "{:.1f}", predicted),
    ("error %", "{:+.0f}", error),
    ("tok/s", "{:.1f}", lambda r, d: 1e6 / r["us"]),
    ("GB/s", "{:.0f}", lambda r, d: gb_s(r)),
    ("% of read", "{:.1f}", share_of_read),
    ("us a kernel", "{:.2f}", lambda r, d: r["us"] / r["kernels"] if "kernels" in r else None),
    ("prefill tok/s", "{:.0f}", lambda r, d: r.get("prefill_tok_s")),
    ("open s", "{:.1f}", lambda r, d: r.get("open_s")),
    ("mode", "{}", lambda r, d: r["mode"]),
    ("PDL", "{}", lambda r, d: r.get("overlap")),
    ("cuBLASLt", "{}", lambda r, d: r.get("blas")),
]


def table(titles, rows):
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def main_table(data):
    used = [c for c in COLUMNS if any(c[2](r, data) is not None for r in data["rows"])]
    cells = [["" if f(r, data) is None else text.format(f(r, data)) for _, text, f in used] for r in data["rows"]]
    yield from table([title for title, _, _ in used], cells)


def profile_table(profile, data):
    limit = data["read"].get("read_bytes_s")
    rows = []
    for op, (n, us, size) in sorted(profile["ops"].items(), key=lambda item: -item[1][1]):
        rate = size / us / 1e3 if us else 0.0
        rows.append([op, str(n), f"{us:.1f}", f"{rate:.0f}", f"{1e11 * rate / limit:.1f}" if limit else ""])
    yield from table(["op", "nodes", "us", "GB/s", "% of read"], rows)


def report(data):
    d = data["device"]
    yield f"# {d.get('name', 'unknown device')}, {data['date']}\n"
    if d:
        yield (f"Compute capability {d['compute']}, {d['multiprocessors']} multiprocessors, {d['total_bytes'] / 1e9:.0f} GB, "
               f"driver for CUDA {d['driver'] // 1000}.{d['driver'] % 1000 // 10}. A copy within its memory runs at "
               f"{d['copy_bytes_s'] / 1e9:.0f} GB/s, bytes read and written.")
    if data["read"]:
        yield f"Reads alone: {data['read']['read_bytes_s'] / 1e9:.0f} GB/s."
    yield f"Revision {data['revision']}, `scripts/gpu-check.sh`. Weights are random, shapes those of the models.\n"
    if data["predicted"]:
        yield "`predicted us`: docs/gpu-model.md, from bench/counts; `error %`: its difference from `us a token`.\n"
    if data["rows"]:
        yield from main_table(data)
    for p in data["profiles"]:
        yield f"\n## {p['model']}: a decode step at position {p['position']}, {p['us']:.1f} us\n"
        yield from profile_table(p, data)
    if data["gaps"]:
        yield "\n## Boundaries between kernels (bench/cuda_gaps.cu)\n"
        yield from (f"- {key}: {value}" for key, value in data["gaps"].items())
    yield "\n## Steps\n"
    yield from table(["step", "outcome", "s", ""], [[c["name"], c["outcome"], str(c["seconds"]), c["why"].replace("|", "/")]
                                                    for c in data["checks"]])


def replace(path, text):
    """All of the new text or all of the old, also if the process is killed."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text + "\n")
    os.replace(path + ".new", path)


def write(data, folder):
    name = data["device"].get("name", "unknown device")
    name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + "-" + data["date"]
    path = os.path.join(folder, name)
    replace(path + ".json", json.dumps(data, indent=1))
    replace(path + ".md", "\n".join(report(data)))
