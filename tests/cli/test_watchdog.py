"""A GPU that hangs, as users of the program see it: the simulated device with a planted hang (SIM_HANG), and --watchdog.

    test_watchdog.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

The simulated device ends the process with status 99 where a call would wait for the hanging kernel for ever.
"""

import os
import signal
import sys
import threading

from cli_program import MIX, ON_DEVICE, SOURCE, expect, expect_refusal, ok, run, run_on_device, run_tests, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests/server"))
from server import Server  # noqa: E402

NO_DEVICE = None if ON_DEVICE else "this build has no simulated device"
HANGS = {"SIM_HANG": "3:attention", "SIM_QUIET": "1"}
NODE = "node 'blk.0.attn' (attention, step 2 of "
BEFORE = "did not finish; the last that did is node 'blk.0.q' (qkv, step 1 of "


def test_commands_name_the_node():
    if NO_DEVICE:
        return NO_DEVICE
    for command in (["generate", MIX, "-p", "a", "-n", "4", "--mode", "replay"], ["generate", MIX, "-p", "a", "-n", "4", "--lookup", "2"],
                    ["perplexity", MIX, "-f", os.path.join(SOURCE, "README.md"), "--window", "16", "-q"],
                    ["bench", MIX, "-p", "4", "-n", "2", "-r", "1", "--json"], ["bench", "sequences", MIX, "-n", "2", "-p", "4"],
                    ["verify", MIX, "-n", "2"], ["profile", MIX, "--runs", "2"]):
        r = run_on_device(*command, "--device", "cuda", "--watchdog", "0.1", **HANGS)
        expect(r.code == 1, f"exit 1 expected of {command}", r)
        for word in ("reprise: ", "cuda:0: no end after 0.1 s", "(attention, step "):
            expect(word in r.err, f"`{word}` expected of {command}", r)
    r = run_on_device("generate", MIX, "-p", "a", "-n", "4", "--device", "cuda", REPRISE_WATCHDOG="0.1", **HANGS)
    for word in ("no end after 0.1 s in token 1: ", NODE, BEFORE):
        expect(r.code == 1 and word in r.err, f"`{word}` expected", r)


def test_without_a_watchdog_the_program_waits():
    """For ever on a GPU: the simulated device says so."""
    if NO_DEVICE:
        return NO_DEVICE
    r = run_on_device("generate", MIX, "-p", "a", "-n", "4", "--device", "cuda", "--mode", "replay", **HANGS)
    expect(r.code == 99 and "waits for ever for kernel" in r.err, "exit 99 expected", r)


def test_a_limit_that_is_not_reached_changes_nothing():
    if NO_DEVICE:
        return NO_DEVICE
    command = ["generate", MIX, "-p", "a", "-n", "6", "--device", "cuda"]
    expect(ok(run_on_device(*command)).out == ok(run_on_device(*command, "--watchdog", "100")).out, "the same text")
    ok(run("generate", MIX, "-p", "a", "-n", "1", "--watchdog", "100"))  # without an effect on the CPU


def test_bad_limits_are_refused():
    expect_refusal(run("generate", MIX, "-p", "a", "--watchdog", "soon"), 2, "--watchdog")
    expect_refusal(run("generate", MIX, "-p", "a", "--watchdog", "-1"), 2, "--watchdog")


def test_a_server_answers_and_ends():
    if NO_DEVICE:
        return NO_DEVICE
    with Server("--device", "cuda", "--watchdog", "0.1", model=MIX, program=ON_DEVICE, env=HANGS) as s:
        a = s.complete("a b c", max_tokens=4)
        expect(a.status == 500, "status 500 expected", a)
        expect("cuda:0: no end after 0.1 s: node 'blk." in s.lines("engine_failed")[0]["error"], "the node", s.lines())
        wait_until(lambda: s.lines("model_unloaded"), "the model is unloaded")
        a = s.complete("a b c", max_tokens=4)
        expect(a.status == 500 and "cuda:0 can be opened when an earlier run has ended" in a.json["error"]["message"], "the refusal", a)
        s.process.send_signal(signal.SIGTERM)
        expect(s.process.wait(60) == 0, "exit 0 after SIGTERM", s.lines()[-3:])


def test_a_request_that_is_prepared_while_the_engine_fails_is_answered():
    """Its prompts take longer than the failure of the engine, which cannot be opened again: the model is unloaded behind it."""
    if NO_DEVICE:
        return NO_DEVICE
    hang = {"SIM_HANG": "30:attention", "SIM_QUIET": "1"}
    with Server("--device", "cuda", "--watchdog", "0.1", "--queue", "300", model=MIX, program=ON_DEVICE, env=hang) as s:
        answers = {}

        def ask(name, **body):
            answers[name] = s.post("/v1/completions", body)

        threads = [threading.Thread(target=ask, args=["hangs"], kwargs={"prompt": "a", "max_tokens": 40, "ignore_eos": True}),
                   threading.Thread(target=ask, args=["long"], kwargs={"prompt": ["ab cd " * 10000] * 100, "max_tokens": 2})]
        threads[0].start()
        wait_until(lambda: s.metric("replies_running") == 1, "the reply runs")
        threads[1].start()
        for t in threads:
            t.join()
        expect(s.process.poll() is None, "the server runs", s.lines())
        expect(answers["hangs"].status == 500 and answers["long"].status in (400, 500), "errors", answers)
        expect(s.get("/health").status == 503, "it says that it cannot answer", answers)


run_tests(globals())
