"""`reprise-sim serve` whose simulated GPU fails: requests fail, the server goes on and says so."""

import unittest

from server import TINY, Server, main, wait_until


class Device(unittest.TestCase):
    def test_health_names_a_gpu_that_has_failed(self):
        env = {"REPRISE_DEVICE": "cuda", "SIM_HANG": "3:attention", "SIM_QUIET": "1"}
        with Server("--watchdog", "0.2", model=TINY, env=env) as s:
            self.assertEqual(s.get("/health").json, {"status": "ok"})
            r = s.complete("a", max_tokens=8)
            self.assertEqual((r.status, "no end after 0.2 s" in r.json["error"]["message"]), (500, True), r)
            wait_until(lambda: s.get("/health").status == 503, "the server says that it cannot answer")
            self.assertEqual(s.get("/health").json, {"status": "failed"})
            self.assertEqual(len(s.lines("engine_failed")), 1)
            r = s.complete("a", max_tokens=8)  # it is loaded again, which fails
            self.assertEqual(r.status, 500, r)
            self.assertRegex(r.json["error"]["message"], "could not be loaded: cuda:0 can be opened when an earlier run has ended")
            self.assertEqual((s.get("/health").status, s.get("/health").json), (503, {"status": "failed"}))
            self.assertIsNone(s.process.poll())


if __name__ == "__main__":
    main()
