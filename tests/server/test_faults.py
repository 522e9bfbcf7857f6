"""`reprise serve` while its first, second, third, ... call for memory, files or threads fails (tests/cli/arm_faults.c), until the
requests make no further call. A request gets its answer, an error, or a connection that closes, and the next ones get theirs.
Calls inside the library do not count: tests/files/test_host_faults.c and tests/files/test_chat_faults.c have those."""

import http.client
import json
import os
import tempfile
import unittest

from server import FAULTS, TINY, Server, main, wait_until

STEP = 1 if os.environ.get("REPRISE_TEST_EVERY_CALL") else 19  # beyond the first 20 calls, which are tried one by one
KEY = {"x-api-key": "test-key-of-a-client"}
ASK = {"prompt": "a", "max_tokens": 3, "seed": 1}
# Calls that may fail unseen: a log line or a description is lost, a file that was only read is closed, a stop string is not kept.
ANSWERS = [
    ("GET", "/v1/models", None),
    ("GET", "/metrics", None),
    ("GET", "/trace?seconds=0.02", None),
    ("POST", "/v1/completions", {**ASK, "n": 2, "stop": ["zz", "yy"], "logprobs": 1}),
    ("POST", "/v1/completions", {**ASK, "stream": True, "response_format": {"type": "json_object"}}),
    ("POST", "/v1/completions", {"prompt": 5}),
    ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
    ("POST", "/tokenize", {"content": "abc"}),
    ("POST", "/api/show", {"model": "llama-f32"}),
    ("POST", "/v1/embeddings", {"input": "a"}),
    ("GET", "/nothing", None),
]


class Faults(unittest.TestCase):
    def ask(self, s, method, path, body):
        """The status; 0: the connection was closed."""
        try:
            headers = {"Content-Type": "application/json", **KEY} if body else KEY
            return s.request(method, path, json.dumps(body) if body else None, headers).status
        except (OSError, http.client.HTTPException):
            return 0

    def test_each_call_fails_once(self):
        if not FAULTS:
            self.skipTest("there is no program whose calls fail")
        k, call, usual, tried, starts = 0, "", None, set(), 0
        with tempfile.TemporaryDirectory() as folder:
            keys, failed = os.path.join(folder, "keys"), os.path.join(folder, "failed")
            with open(keys, "w") as f:
                f.write("test-key-of-a-client\n")
            while call != "-" or k <= 1:
                env = {"REPRISE_TEST_FAIL": str(k), "REPRISE_TEST_FAILED": failed}
                server = Server("--keys", keys, program=FAULTS, model=TINY, env=env)
                try:
                    with server as s:
                        statuses = [self.ask(s, *a) for a in ANSWERS]
                        usual = usual or statuses
                        self.assertTrue(all(got in (want, 0, 500, 503) for got, want in zip(statuses, usual)), (k, statuses, usual))
                        after = [self.ask(s, "POST", "/v1/completions", ASK) for _ in range(2)]  # the call can be one of these
                        self.assertTrue(200 in after and all(a in (200, 0, 500, 503) for a in after), (k, "the next requests", after))
                    self.assertIn(s.process.returncode, (0, 1), k)  # 1: the call failed at the end
                except (AssertionError, OSError) as e:
                    started = "exit 1" in str(e) or isinstance(e, ConnectionError) or "the model is loaded" in str(e)
                    if not started or server.process.returncode != 1:
                        raise
                with open(failed) as f:  # written at the exit: there was no crash
                    call = f.read()
                tried.add(call)
                starts += 1
                k += 1 if k < 20 else STEP
        print(f"{starts} starts, up to {k} calls of {sorted(tried)}")
        self.assertIn("calloc", tried)
        self.assertTrue(tried & {"malloc", "realloc"})  # how many calls are made differs from start to start


if __name__ == "__main__":
    main()
