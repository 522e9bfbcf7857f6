"""`reprise serve` behind nginx with the file that docs/server.md names, and the unit of systemd."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

from server import HANG_S, PROGRAM, SOURCE, Server, main, wait_until

NGINX = shutil.which("nginx") or next((p for p in ("/usr/sbin/nginx",) if os.path.exists(p)), None)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@unittest.skipUnless(NGINX and shutil.which("openssl"), "there is no nginx, or no openssl")
class Proxy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = cls.folder.name
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/key", "-out", f"{folder}/pem", "-days", "1",
                        "-subj", "/CN=models.example"], check=True, capture_output=True)
        cls.context = Server("--allow-host", "models.example", "--queue", "200")
        cls.s = cls.context.__enter__()
        cls.port = free_port()
        with open(os.path.join(SOURCE, "assets/server/nginx.conf")) as f:
            text = f.read()
        for old, new in [("127.0.0.1:8080", f"127.0.0.1:{cls.s.port}"), ("listen 443", f"listen 127.0.0.1:{cls.port}"),
                         ("/etc/ssl/models.example.pem", f"{folder}/pem"), ("/etc/ssl/private/models.example.key", f"{folder}/key"),
                         ("worker_processes auto;", f"worker_processes 1; daemon off; pid {folder}/pid; error_log stderr;"),
                         ("http {", f"http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c; "
                                    f"uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;")]:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        with open(f"{folder}/conf", "w") as f:
            f.write(text)
        cls.nginx = subprocess.Popen([NGINX, "-p", folder, "-c", f"{folder}/conf"], stderr=subprocess.DEVNULL)

        def answers():
            try:
                return cls.request("GET", "/health")[0] == 200
            except OSError:
                return False
        wait_until(answers, "nginx answers")

    @classmethod
    def tearDownClass(cls):
        cls.nginx.terminate()
        cls.nginx.wait()
        cls.context.__exit__(None, None, None)
        cls.folder.cleanup()

    @classmethod
    def connect(cls):
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection("127.0.0.1", cls.port, timeout=HANG_S, context=context)

    @classmethod
    def request(cls, method, path, body=None, headers=None, chunked=False):
        c = cls.connect()
        try:
            c.request(method, path, body, {"Host": "models.example", "Content-Type": "application/json", **(headers or {})}, encode_chunked=chunked)
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def test_replies_are_those_without_nginx(self):
        body = {"prompt": "Once upon a time", "max_tokens": 20, "temperature": 1, "seed": 3}
        status, data = self.request("POST", "/v1/completions", json.dumps(body))
        self.assertEqual((status, json.loads(data)["choices"][0]["text"]), (200, self.s.post("/v1/completions", body).json["choices"][0]["text"]))
        chunked = self.request("POST", "/v1/completions", iter([json.dumps(body).encode()]), {"Transfer-Encoding": "chunked"}, chunked=True)
        self.assertEqual((chunked[0], json.loads(chunked[1])["choices"]), (200, json.loads(data)["choices"]))

    def test_hosts_and_origins(self):
        self.assertEqual(self.request("GET", "/health", headers={"Origin": "https://models.example"})[0], 200)
        self.assertEqual(self.request("GET", "/health", headers={"Origin": "https://other.example"})[0], 403)
        self.assertEqual(self.request("GET", "/health", headers={"Host": "other.example"})[0], 403)

    def test_events_come_one_by_one_and_a_client_that_leaves_is_noticed(self):
        c = self.connect()
        c.request("POST", "/v1/completions", json.dumps({"prompt": "a", "n": 64, "max_tokens": 240, "ignore_eos": True, "stream": True}),
                  {"Host": "models.example", "Content-Type": "application/json"})
        r = c.getresponse()
        self.assertTrue(r.readline().startswith(b"data: {"))
        self.assertGreater(self.s.metric("replies_running"), 0)
        c.close()
        r.close()
        wait_until(self.s.is_idle, "its replies are cancelled")


class Unit(unittest.TestCase):
    def test_the_unit_is_one(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "reprise.service")
            with open(os.path.join(SOURCE, "assets/server/reprise.service")) as f, open(path, "w") as out:
                out.write(f.read().replace("/usr/bin/reprise", PROGRAM))
            r = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
            self.assertEqual((r.returncode, [line for line in r.stderr.splitlines() if "reprise.service" in line]), (0, []), r)


if __name__ == "__main__":
    main()
