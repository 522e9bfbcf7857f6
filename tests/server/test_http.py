"""The HTTP of `reprise serve`: heads that are refused, limits, hosts, origins, keys, slow and vanished clients."""

import json
import os
import re
import signal
import socket
import tempfile
import unittest

from server import Server, ServerTest, main, post_bytes, read_all, wait_until

OK = {"prompt": "a", "max_tokens": 1}


class Refusals(ServerTest):
    OPTIONS = ("--body-mb", "1", "--read-seconds", "1")

    def refused(self, data, status, text):
        """One answer with the status comes, then the connection closes."""
        got = self.s.raw(data)
        head, _, body = got.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 %d " % status), (data[:200], got[:400]))
        self.assertIn(text, json.loads(body)["error"]["message"])
        self.assertEqual(got.count(b"\r\nDate: "), 1, got)
        self.assertIn(b"Connection: close", head)

    def test_bodies_of_two_lengths_are_refused(self):
        def head(*lines):
            return "\r\n".join(["POST /v1/completions HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()
        smuggled = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        twice, both = "has Content-Length twice", "has Content-Length and Transfer-Encoding"
        for lines, status, text in [
            (["Content-Length: 5", "Content-Length: 6"], 400, twice),
            (["Content-Length: 5", "Content-Length: 5"], 400, twice),
            (["Content-Length: 5", "Transfer-Encoding: chunked"], 400, both),
            (["Transfer-Encoding: chunked", "Content-Length: 5"], 400, both),
            (["Transfer-Encoding: chunked"], 411, "Bodies in chunks are not accepted: send Content-Length."),
            (["Transfer-Encoding: xchunked"], 411, "in chunks"),
            (["Transfer-Encoding : chunked"], 400, "no name, or white space before its colon"),
            (["Content-Length: 5", "Transfer-Encoding:\x0bchunked"], 400, "control character"),
            (["Content-Length: 5, 5"], 400, "Content-Length must be a number."),
            (["Content-Length: +5"], 400, "must be a number"),
            (["Content-Length: -5"], 400, "must be a number"),
            (["Content-Length: 0x5"], 400, "must be a number"),
            (["Content-Length:"], 400, "must be a number"),
            (["Content-Length: 9999999999999999999999"], 413, "The body is too large."),
            (["Content-Length: 5", " folded: yes"], 400, "no name"),
            (["X: a\nContent-Length: 5"], 400, "does not end with CR LF"),
            (["X: a\rContent-Length: 5"], 400, "does not end with CR LF"),
            (["X: a\0b"], 400, "control character"),
            (["Host: localhost"], 400, "The request must have one Host."),
            (["Authorization: Bearer a", "Authorization: Bearer b"], 400, "twice that may be there once"),
            (["Expect: 200-ok", "Content-Length: 5"], 417, "The only expectation that is known is 100-continue."),
            ([f"X-{i}: 1" for i in range(70)], 431, "more than 64 headers"),
            (["X: " + "a" * 20000], 431, "The headers are longer than 16384 bytes."),
        ]:
            with self.subTest(lines=lines[:3]):
                self.refused(head(*lines) + smuggled, status, text)

    def test_request_lines_are_read_strictly(self):
        line = "The request line must be a method, a path and HTTP/1.1."
        for first, status, text in [
            ("GET /health", 400, line),
            ("GET  /health HTTP/1.1", 400, line),
            ("GET /health HTTP/1.1 x", 400, line),
            ("get /health HTTP/1.1", 400, line),
            ("GET /health FTP/1.1", 400, line),
            ("GET /health HTTP/2.0", 505, "The server speaks HTTP/1.1 and HTTP/1.0."),
            ("GET http://localhost/health HTTP/1.1", 400, "The target of the request must be a path."),
            ("GET /he\xe4lth HTTP/1.1", 400, "The path has a character that it may not have."),
            ("\x16\x03\x01 / HTTP/1.1", 400, "control character"),
            ("", 400, line),
        ]:
            with self.subTest(first=first):
                self.refused(first.encode("latin1") + b"\r\nHost: localhost\r\n\r\n", status, text)
        self.refused(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "one Host")
        self.assertTrue(self.s.raw(b"GET /health HTTP/1.0\r\n\r\n").endswith(b'{"status":"ok"}'))

    def test_half_requests_and_drips_end(self):
        self.refused(b"GET /hea", 408, "The headers did not come in time.")
        self.refused(post_bytes("/v1/completions", OK)[:-3], 408, "The body did not come in time.")
        with self.s.socket() as slow:
            try:
                for byte in b"GET /" + b"a" * 100000:  # each byte comes in time, the head does not
                    slow.sendall(bytes([byte]))
                    slow.settimeout(0.05)
                    try:
                        if slow.recv(1, socket.MSG_PEEK):
                            break
                    except TimeoutError:
                        pass
                slow.settimeout(60)
                self.assertIn(b"408", read_all(slow))
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has closed

    def test_bodies_are_limited(self):
        r = self.s.post("/v1/completions", b"x" * 1000001)
        self.assertEqual((r.status, r.json["error"]["code"]), (413, "body_too_large"))
        with self.s.socket() as big:  # refused before its body comes
            big.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        b"Content-Length: 100000000\r\n\r\n")
            self.assertIn(b"HTTP/1.1 413", big.recv(4096))
            try:
                for _ in range(100):
                    big.sendall(b"x" * 1000000)
            except OSError:
                pass
        self.assertEqual(self.s.get("/health").status, 200)

    def test_bodies_are_limited_together(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 990000\r\n\r\n"
        with Server("--body-mb", "1") as s:
            clients = [s.socket() for _ in range(9)]
            for c in clients:
                c.sendall(head)
            self.assertIn(b"HTTP/1.1 503", clients[8].recv(4096))
            self.assertEqual(s.complete(max_tokens=1).status, 200)
            clients[0].sendall(b" " * 989974 + b'{"prompt":"a","max_tokens":')
            self.assertIn(b"HTTP/1.1 400", clients[0].recv(4096))
            for c in clients:
                c.close()

    def test_bad_bodies_are_named(self):
        for body in (b"", b"{", b"[1]", b'{"prompt": "\xff"}', b'{"prompt": 1}', b"{}", b"[" * 100000, b"\0"):
            with self.subTest(body=body[:20]):
                r = self.s.post("/v1/completions", body)
                self.assertEqual(r.status, 400, r)
                self.assertTrue(r.json["error"]["message"], r)

    def test_methods_paths_and_types(self):
        self.assertEqual(self.s.get("/nothing").status, 404)
        r = self.s.get("/v1/completions")
        self.assertEqual((r.status, r.headers["Allow"]), (405, "POST"))
        self.assertEqual(self.s.request("DELETE", "/health").status, 405)
        r = self.s.request("POST", "/v1/completions", b"{}", {"Content-Type": "text/plain"})
        self.assertEqual((r.status, r.json["error"]["code"]), (415, "unsupported_media_type"))
        r = self.s.request("POST", "/v1/messages", b"{}", {"Content-Type": "text/plain"})
        self.assertEqual((r.status, r.json["error"]["type"]), (415, "invalid_request_error"), r)
        r = self.s.request("HEAD", "/health")
        self.assertEqual((r.status, r.body, r.headers["Content-Length"]), (200, b"", "15"))
        got = self.s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
        self.assertIn(b"HTTP/1.1 411", got)

    def test_requests_in_a_row_use_one_connection(self):
        get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        got = self.s.raw(get * 3 + post_bytes("/v1/completions", OK) + get + get.replace(b"Host", b"Connection: close\r\nHost"))
        self.assertEqual(got.count(b"HTTP/1.1 200 OK"), 6, got)
        with self.s.socket() as s:
            s.sendall(post_bytes("/v1/completions", OK, "Expect: 100-continue", "Connection: close"))
            self.assertTrue(read_all(s).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"))

    def test_requests_in_a_row_are_answered_after_the_client_has_closed_its_side(self):
        get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with self.s.socket() as s:
            s.sendall(get * 3)
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(read_all(s).count(b"HTTP/1.1 200 OK"), 3)

    def test_the_body_of_a_preflight_is_no_request(self):
        inner = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        head = ["OPTIONS /v1/completions HTTP/1.1", "Host: localhost", "Origin: http://localhost", f"Content-Length: {len(inner)}", "", ""]
        got = self.s.raw("\r\n".join(head).encode() + inner)
        self.assertTrue(got.startswith(b"HTTP/1.1 204 "), got)
        self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
        self.assertNotIn(b"Content-Length", got)  # RFC 9110, 8.6

    def test_an_empty_name_of_a_model_is_none(self):
        self.assertEqual(self.s.post("/v1/completions", {**OK, "model": ""}).status, 200)

    def test_hosts_and_origins(self):
        for host, status in [("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200), ("evil.example", 403), ("localhost.evil", 403),
                             ("127.0.0.1.evil", 403), ("localhost:x", 403), ("", 403), ("10.0.0.1", 403)]:
            self.assertEqual(self.s.get("/health", Host=host).status, status, host)
        for origin, status in [("http://localhost", 200), ("https://localhost", 200), ("http://localhost:81", 403), ("http://evil.example", 403),
                               ("null", 403)]:
            r = self.s.get("/health", Host="localhost", Origin=origin)
            self.assertEqual((r.status, r.headers["Access-Control-Allow-Origin"]), (status, None), origin)


class Access(unittest.TestCase):
    def test_allowed_names_and_origins(self):
        with Server("--allow-host", "models.example", "--allow-origin", "https://app.example") as s:
            self.assertEqual(s.get("/health", Host="Models.Example:443").status, 200)
            r = s.get("/health", Origin="https://app.example")
            self.assertEqual((r.status, r.headers["Access-Control-Allow-Origin"]), (200, "https://app.example"))
            r = s.request("OPTIONS", "/v1/completions", headers={"Origin": "https://app.example"})
            self.assertEqual((r.status, r.headers["Access-Control-Allow-Methods"]), (204, "GET, POST"))
            self.assertEqual(s.request("OPTIONS", "/v1/completions", headers={"Origin": "https://b.example"}).status, 403)
            for names, allowed in (("x-stainless-lang, anthropic-beta", "x-stainless-lang, anthropic-beta"), ("a: b", None), ("x" * 600, None)):
                r = s.request("OPTIONS", "/v1/completions", headers={"Origin": "https://app.example", "Access-Control-Request-Headers": names})
                self.assertEqual(r.headers["Access-Control-Allow-Headers"],
                                 allowed or "authorization, content-type, x-api-key, anthropic-version")

    def test_keys(self):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("# keys\n\nada secret-of-ada\nsecret-without-name\n")
            f.flush()
            with Server("--keys", f.name) as s:
                for headers, status in [({}, 401), ({"Authorization": "Bearer secret-of-ada"}, 200), ({"x_api_key": "secret-without-name"}, 200),
                                        ({"Authorization": "Bearer secret-of-ad"}, 401), ({"Authorization": "Bearer secret-of-adaa"}, 401),
                                        ({"Authorization": "Basic secret-of-ada"}, 401), ({"x_api_key": "a" * 9999}, 401)]:
                    self.assertEqual(s.get("/v1/models", **headers).status, status, headers)
                self.assertEqual(s.get("/health").status, 200)
                self.assertEqual(s.get("/metrics").status, 401)
                with s.socket() as thief:  # its body is not waited for
                    thief.sendall(post_bytes("/v1/completions", OK)[:-5])
                    self.assertIn(b"HTTP/1.1 401", read_all(thief))
                wait_until(lambda: any(o.get("key") == "ada" for o in s.lines("request")), "the log names keys")
                self.assertNotIn("secret", s.text())
                f.seek(0)
                f.truncate()
                f.write("new-secret-key\n")
                f.flush()
                s.process.send_signal(signal.SIGHUP)
                wait_until(lambda: s.lines("keys_reloaded"), "the file is read again")
                self.assertEqual(s.get("/v1/models", x_api_key="secret-of-ada").status, 401)
                self.assertEqual(s.get("/v1/models", x_api_key="new-secret-key").status, 200)
                f.truncate(0)
                s.process.send_signal(signal.SIGHUP)
                wait_until(lambda: len(s.lines("keys_reloaded")) == 2, "again")
                self.assertIn("has no key", s.lines("keys_reloaded")[1]["error"])
                self.assertEqual(s.get("/v1/models", x_api_key="new-secret-key").status, 200)

    def test_tokens_per_minute(self):
        with Server("--tokens-per-minute", "20") as s:
            self.assertEqual(s.complete(max_tokens=60).status, 200)
            r = s.complete(max_tokens=1)
            self.assertEqual((r.status, r.json["error"]["code"]), (429, "rate_limit_exceeded"))
            self.assertGreater(int(r.headers["Retry-After"]), 60)  # 44 tokens too many, at 20 a minute

    def test_replies_to_one_prompt_cost_its_tokens_once(self):
        with Server("--tokens-per-minute", "1000", "--parallel", "2") as s:
            usage = s.complete(prompt="word " * 150, n=8, max_tokens=1).json["usage"]
            self.assertGreater(8 * usage["prompt_tokens"], 1000)
            self.assertLess(usage["total_tokens"], 1000)
            self.assertEqual(s.complete(max_tokens=1).status, 200)


class Clients(unittest.TestCase):
    def test_a_client_that_leaves_in_its_body_is_forgotten(self):
        with Server() as s:
            for _ in range(3):
                with s.socket() as c:
                    c.sendall(post_bytes("/v1/completions", OK)[:-3])
                    wait_until(lambda: s.metric("requests_running") == 2, "its headers were read")
                wait_until(lambda: s.metric("requests_running") == 1, "only that for the metrics")
            self.assertEqual([o["status"] for o in s.lines("request") if o["method"] == "POST"], [499] * 3)
            s.process.send_signal(signal.SIGTERM)
            self.assertEqual(s.process.wait(60), 0)

    LONG = {"prompt": "Once upon a time", "max_tokens": 100000, "ignore_eos": True, "stream": True}

    def test_a_client_that_leaves_is_cancelled(self):
        with Server("--parallel", "2", "--queue", "500") as s:
            for stream in (True, False):
                # The context ends the reply at 256 tokens; 64 in a row keep the slots busy.
                clients = [s.begin({**self.LONG, "stream": stream, "n": 64}) for _ in range(2)]
                wait_until(lambda: s.metric("replies_running") == 2, "both run")
                for c in clients:
                    c.close()
                wait_until(s.is_idle, "nothing runs any more")
                wait_until(lambda: len([o for o in s.lines("request") if o.get("cancelled")]) >= 2, "the log says so")
            self.assertEqual(s.complete(max_tokens=2).status, 200)

    def test_a_client_that_does_not_read_is_dropped(self):
        with Server("--queue", "500") as s:
            c = s.begin({**self.LONG, "n": 64, "logprobs": 5}, receive=4096)
            wait_until(lambda: any(o["path"] == "/v1/completions" for o in s.lines("request")), "it is dropped")
            self.assertTrue(s.lines("request")[-1]["cancelled"] or any(o.get("cancelled") for o in s.lines("request")))
            wait_until(s.is_idle, "and its replies are cancelled")
            c.close()

    def test_a_client_that_sends_requests_and_reads_no_answers_is_dropped(self):
        with Server() as s:
            before = s.metric("resident_memory_bytes")
            with s.socket(receive=4096) as c:
                with self.assertRaises(OSError):
                    for _ in range(1000):
                        c.sendall(b"GET /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
            self.assertLess(s.metric("resident_memory_bytes") - before, 32 << 20)
            self.assertEqual(s.get("/health").status, 200)

    # An answer of 6 MB, which the sockets do not hold.
    LARGE = {"content": "ab " * 250000, "with_pieces": True}

    def begin_large(self, s):
        c = s.begin(self.LARGE, path="/tokenize", receive=65536)
        data = c.recv(65536)
        length = int(re.search(rb"Content-Length: (\d+)\r\n", data)[1]) + data.index(b"\r\n\r\n") + 4
        return c, length - len(data)

    def test_answers_that_are_being_sent_end_before_the_server(self):
        with Server() as s:
            c, left = self.begin_large(s)
            s.process.send_signal(signal.SIGTERM)
            wait_until(lambda: s.lines("draining"), "the server stops")
            self.assertEqual(len(read_all(c)), left)
            self.assertEqual(s.process.wait(60), 0)
            c.close()
        with Server("--drain-seconds", "0") as s:
            c, left = self.begin_large(s)
            s.process.send_signal(signal.SIGTERM)
            self.assertEqual(s.process.wait(60), 1)
            self.assertIn("1 requests were cut off by --drain-seconds", s.text())
            c.close()

    def test_connections_that_are_being_sent_an_answer_are_not_idle(self):
        with Server("--connections", "2") as s:
            c, left = self.begin_large(s)
            others = [s.socket() for _ in range(4)]
            self.assertEqual(s.get("/health").status, 200)
            got = 0
            while got < left:
                piece = c.recv(65536)
                self.assertNotEqual(piece, b"", f"{got} of {left} bytes")
                got += len(piece)
            for o in [c, *others]:
                o.close()

    def test_a_thousand_idle_connections(self):
        with Server("--parallel", "8") as s:
            try:
                idle = [s.socket() for _ in range(1000)]
            except OSError as e:
                self.skipTest(str(e))
            active = [s.begin({"prompt": "a", "max_tokens": 4, "seed": i}) for i in range(50)]
            for c in active:
                data = b""
                while b"}}" not in data:
                    data += c.recv(65536)
                self.assertIn(b"HTTP/1.1 200", data)
                c.close()
            self.assertGreaterEqual(s.metric("connections"), 1000)
            for c in idle:
                c.close()
            wait_until(lambda: s.metric("connections") < 10, "they are gone")

    def test_new_connections_replace_idle_ones(self):
        with Server("--connections", "4") as s:
            idle = [s.socket() for _ in range(10)]
            for c in idle[6:]:
                c.sendall(b"GET /hea")
            self.assertEqual(s.get("/health").status, 200)
            for c in idle:
                c.close()


if __name__ == "__main__":
    main()
