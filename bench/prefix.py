#!/usr/bin/env python3
"""The cost of an engine of one sequence beside a session, and the gain of a prefix in its cache: seconds of processor time, one thread.

    bench/prefix.py MODEL [--prefix 4096] [-n 128] [-r 7]

It needs the Python package (pip install ./bindings/python). Token ids are random and new for each measurement, so that the cache has the
prefix only. The session reads the prefix from the file that the engine writes. Engine and session run in turns; cells are medians
(lowest .. highest) of -r measurements."""
import argparse
import os
import pathlib
import random
import statistics
import tempfile
import time

import reprise

RESTS = (32, 128, 512)


def timed(call):
    """(processor seconds, seconds, result)"""
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def reply(engine, ids, n, cached):
    """Processor seconds to the first token, and from it to the last. `cached`: tokens that the cache must have."""
    began, first = time.process_time(), None
    engine.add(ids, max_tokens=n, ignore_end=True, temperature=0)
    for event in engine:
        first = first or time.process_time()
    assert event.n_cached == cached and event.n_generated == n, event
    return first - began, time.process_time() - first


def session_reply(session, ids, n):
    """Processor seconds from the first token to the last."""
    session.rewind(0)
    times = [time.process_time() for _ in session.generate(ids, max_tokens=n, ignore_end=True, temperature=0)]
    assert len(times) == n, len(times)
    return times[-1] - times[0]


def row(name, values):
    print(f"| {name} | {statistics.median(values):.3f} ({min(values):.3f} .. {max(values):.3f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--prefix", type=int, default=4096)
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("-r", type=int, default=7)
    given = parser.parse_args()
    model = reprise.Model(given.model)
    n_ctx = given.prefix + RESTS[-1] + 32

    def ids(n):
        return [random.randrange(5, model.info.n_vocab) for _ in range(n)]

    def open_engine():
        return model.engine(n_ctx=n_ctx, n_seq=1, cache_tokens=3 * n_ctx, n_threads=1)
    engine, session = open_engine(), model.session(n_ctx=n_ctx, n_threads=1)
    print("| CPU seconds | median (lowest .. highest) |\n|---|---|")
    pairs = [(reply(engine, p, given.n, 0)[1], session_reply(session, p, given.n)) for p in (ids(64) for _ in range(given.r))]
    row(f"{given.n - 1} steps behind 64 tokens, engine", [a for a, _ in pairs])
    row(f"{given.n - 1} steps behind 64 tokens, session", [b for _, b in pairs])
    row("engine / session", [a / b for a, b in pairs])
    prefix = ids(given.prefix)
    row(f"first token of {given.prefix + 1} tokens, cold", [reply(engine, prefix + ids(1), 1, 0)[0]])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "prefix")
        engine.save(path, prefix)
        session.restore(path)
        for n in RESTS:
            bare, hit, own = [], [], []
            for _ in range(given.r):
                bare.append(reply(engine, ids(n), 1, 0)[0])
                hit.append(reply(engine, prefix + ids(n), 1, given.prefix)[0])
                session.rewind(given.prefix)
                own.append(timed(lambda n=n: session.prefill(ids(n)))[0])
            row(f"{n} tokens alone, first token", bare)
            row(f"{n} tokens behind the prefix in the cache, first token", hit)
            row("the same / alone", [a / b for a, b in zip(hit, bare)])
            row(f"{n} tokens in a session behind the prefix", own)
        engine.close()
        restored, read = [], []
        for _ in range(given.r):
            with open_engine() as fresh:
                cpu, wall, (_, n_kept, _) = timed(lambda fresh=fresh: fresh.restore(path))
                assert n_kept == given.prefix, n_kept
            restored.append((cpu, wall))
            read.append(timed(path.read_bytes)[1])
        row(f"restore of {given.prefix} tokens ({os.path.getsize(path) / 1e6:.1f} MB)", [cpu for cpu, _ in restored])
        row("restore, seconds", [wall for _, wall in restored])
        row("a read of the file, seconds", read)


if __name__ == "__main__":
    main()
