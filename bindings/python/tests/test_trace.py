"""Traces of the process (reprise.trace, REPRISE_TRACE)."""
import json
import os
import subprocess
import sys

import pytest

import reprise
from conftest import TINY


def kinds(events):
    return {kind: sum(e.get("cat") == kind for e in events) for kind in ("run", "step", "node")}


def test_a_block_is_traced(tmp_path):
    path = tmp_path / "trace.json"
    with reprise.Model(TINY) as model, model.session(n_ctx=32, n_threads=1) as session:
        with reprise.trace(path):
            session.prefill([3, 4, 5])
        session.prefill([6])
    events = json.loads(path.read_text())["traceEvents"]
    found = kinds(events)
    assert found["run"] == 1 and found["step"] >= 1
    assert found["node"] == sum(e["args"]["nodes"] for e in events if e.get("cat") == "step")
    assert [e["name"] for e in events if e.get("cat") == "run"] == ["prefill"]


def test_what_cannot_be_written_raises(tmp_path):
    with pytest.raises(reprise.FileError, match="/dev/full: a trace could not be written"):
        with reprise.trace("/dev/full"):
            pass
    with reprise.trace(tmp_path / "a.json"), pytest.raises(reprise.StateError, match="has begun already"):
        with reprise.trace(tmp_path / "b.json"):
            pass
    assert os.listdir(tmp_path) == ["a.json"]


def test_the_environment_traces_a_program(tmp_path):
    path = tmp_path / "trace.jsonl"
    program = f"import reprise; print(''.join(p.text for p in reprise.Model({str(TINY)!r}).generate('a', max_tokens=4)))"
    outputs = [subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env={**os.environ, **env}).stdout
               for env in ({}, {"REPRISE_TRACE": str(path)})]
    assert outputs[0] == outputs[1]
    found = kinds([json.loads(line) for line in path.read_text().splitlines()])
    assert found["run"] == 2 and found["step"] >= 4 and found["node"] > found["step"]
