"""Manifests of `reprise serve`: one for each reply, which `reprise repeat` runs alone, bit for bit; what is kept, and disks that fail.

    test_manifests.py PROGRAM SOURCE_DIR"""

import concurrent.futures
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

from server import DEMO, HANG_S, PROGRAM, SOURCE, TINY, Server, generate, main, run, wait_until

PROMPT = "Once upon a time"
NAME = re.compile(r"reprise-\d{8}T\d{6}\.\d{3}Z-[a-z0-5]{24}-\d+\.json")
ADAPTER = os.path.join(SOURCE, "tests/golden/lora/adapter.gguf")


def repeat(path, *args):
    p = subprocess.run([PROGRAM, "repeat", path, "-q", *args], capture_output=True, timeout=HANG_S, text=True,
                       env={**os.environ, "REPRISE_DEVICE": "cpu"})
    return p.returncode, p.stdout + p.stderr


class Manifests(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="reprise-test-")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def files(self):
        return sorted(os.listdir(self.folder))

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as f:
            return json.load(f)

    def wait_for(self, s, n):
        wait_until(lambda: s.metric("manifests_written_total") == n, f"{n} manifests")

    def test_eight_replies_at_a_time_are_repeated_alone(self):
        body = lambda i: {"seed": i, "temperature": 0.9 if i % 2 else 0, "top_k": 40, "max_tokens": 12 + i,
                          **({"grammar": 'root ::= "ab" [a-z ]+'} if i == 3 else {}),
                          **({"json_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}} if i == 4 else {}),
                          **({"stop": ["e"]} if i == 5 else {}), **({"n": 2} if i == 7 else {})}
        with Server("--parallel", "8", "--manifest-dir", self.folder, "--lookup", "3") as s:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda i: s.complete(f"In the year {i} " * (1 + i % 5), **body(i)), range(8)))
            self.wait_for(s, 9)
            self.assertEqual(s.metric("manifests_lost_total"), 0)
        texts = {c["text"] for a in answers for c in a.json["choices"]}
        names = self.files()
        self.assertEqual(len(names), 9)
        seeds = []
        for name in names:
            self.assertRegex(name, NAME)
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.folder, name)).st_mode), 0o600)
            m = self.read(name)
            seeds.append(int(m["sampling"]["seed"]))
            turn = m["turns"][0]
            self.assertEqual((m["command"], m["run"]["engine"]["sequences"], m["run"]["engine"]["guesses"]), ("serve", 8, 3))
            self.assertTrue(any(turn["reply_text"].startswith(t) for t in texts), turn)
            n, (code, out) = len(turn["tokens"]), repeat(os.path.join(self.folder, name))
            self.assertEqual((code, out.split("\n")[0]), (0, f"equal: {n} tokens, and the logits of each"))
            self.assertNotIn("held by a grammar", out)
            self.assertEqual(turn["grammar"] is not None, int(m["sampling"]["seed"]) in (3, 4))
        self.assertEqual(sorted(seeds), [0, 1, 2, 3, 4, 5, 6, 7, 8])
        # Alone in a session, the same tokens come too.
        first = next(m for m in map(self.read, names) if m["sampling"]["seed"] == "1")
        self.assertEqual(first["turns"][0]["reply_text"].rstrip("\n"),
                         generate("-p", "In the year 1 " * 2, "-s", "1", "--temp", "0.9", "--top-k", "40", "-n", "13").rstrip("\n"))

    def test_an_adapter_and_no_texts(self):
        with Server("--lora", ADAPTER + ":0.5", "--manifest-dir", self.folder, "--manifest-no-text", model=TINY) as s:
            self.assertEqual(s.complete("abc", max_tokens=6, seed=3, temperature=1).status, 200)
            self.wait_for(s, 1)
        m = self.read(self.files()[0])
        self.assertEqual((m["adapters"][0]["path"], m["adapters"][0]["scale"]), (ADAPTER, 0.5))
        self.assertEqual((m["arguments"], m["turns"][0]["prompt_text"], m["turns"][0]["reply_text"]), (None, None, None))
        self.assertEqual(repeat(os.path.join(self.folder, self.files()[0]))[0], 0)

    def test_a_grammar_is_a_text_too(self):
        with Server("--manifest-dir", self.folder, "--manifest-no-text") as s:
            self.assertEqual(s.complete(PROMPT, max_tokens=6, grammar='root ::= "ab" [a-z ]+').status, 200)
            self.wait_for(s, 1)
        turn = self.read(self.files()[0])["turns"][0]
        self.assertEqual((turn["grammar"], set(turn["draws"]) <= set("mg")), (None, True))
        code, out = repeat(os.path.join(self.folder, self.files()[0]))
        self.assertEqual(code, 0)
        self.assertIn("6 of them were held by a grammar or a budget that the manifest does not have", out)

    def test_chats_of_a_folder_of_a_model(self):
        """Free, and held to JSON by response_format: then the tokens are drawn again under the grammar."""
        with tempfile.TemporaryDirectory() as place:
            model = os.path.join(place, "chat")
            shutil.copytree(os.path.join(SOURCE, "tests/golden/hf_text"), model)
            with open(os.path.join(model, "chat_template.jinja"), "w") as f:
                f.write("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
            body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "seed": 4, "temperature": 1}
            with Server("--manifest-dir", self.folder, model=model) as s:
                self.assertEqual(s.post("/v1/chat/completions", body).status, 200)
                self.wait_for(s, 1)
                r = s.post("/v1/chat/completions", {**body, "response_format": {"type": "json_object"}})
                self.assertEqual(r.status, 200, r)
                self.wait_for(s, 2)
            for name, held in zip(self.files(), (False, True)):
                code, out = repeat(os.path.join(self.folder, name))
                self.assertEqual((code, "held by a grammar" in out), (0, False), out)
                turn = self.read(name)["turns"][0]
                self.assertEqual((turn["grammar"] or {}).get("kind"), "chat" if held else None)
                self.assertEqual(set(turn["draws"]) <= set("mg"), held)
            with open(os.path.join(model, "another.json"), "w") as f:
                f.write("{}")
            code, out = repeat(os.path.join(self.folder, self.files()[0]))
            self.assertEqual(code, 2)
            self.assertIn("is not the file of the manifest", out)

    def test_a_client_that_leaves(self):
        with Server("--manifest-dir", self.folder, "-c", "256") as s:
            c = s.begin({"prompt": PROMPT, "max_tokens": 200, "ignore_eos": True, "stream": True})
            c.recv(1)  # the reply has begun
            c.close()
            self.wait_for(s, 1)
            m = self.read(self.files()[0])
        self.assertIn(m["turns"][0]["reason"], ("cancelled", "limit"))
        self.assertEqual(repeat(os.path.join(self.folder, self.files()[0]))[0], 0)

    def test_the_newest_are_kept_and_other_files_stay(self):
        others = ["reprise-20200101T000000.000Z-short-0.json", "note.txt", "reprise-x.json"]
        old = "reprise-20200101T000000.000Z-abcdefghijklmnopqrstuvwx-0.json"
        for name in [*others, old]:
            with open(os.path.join(self.folder, name), "w"):
                pass
        with Server("--manifest-dir", self.folder, "--manifest-keep", "3") as s:
            for i in range(5):
                self.assertEqual(s.complete(PROMPT, max_tokens=2, seed=i).status, 200)
                self.wait_for(s, i + 1)
        kept = [n for n in self.files() if n not in others]
        self.assertEqual(len(kept), 3)
        self.assertNotIn(old, kept)
        self.assertEqual({self.read(n)["sampling"]["seed"] for n in kept}, {"2", "3", "4"})
        self.assertTrue(set(others) <= set(self.files()))

    def test_a_folder_that_goes_away_disturbs_no_reply(self):
        with Server("--manifest-dir", self.folder) as s:
            want = s.complete(PROMPT, max_tokens=4).json["choices"][0]["text"]
            self.wait_for(s, 1)
            shutil.rmtree(self.folder)
            self.assertEqual(s.complete(PROMPT, max_tokens=4).json["choices"][0]["text"], want)
            wait_until(lambda: s.metric("manifests_lost_total") == 1, "a lost manifest")
            lost = s.lines("manifest_lost")
            self.assertEqual((len(lost), lost[0]["error"]), (1, "No such file or directory"))
            self.assertRegex(lost[0]["file"], NAME)
        os.mkdir(self.folder)

    def test_a_full_disk_disturbs_no_reply(self):
        """A limit of file sizes in the place of a full disk: each write beyond it fails."""
        limited = os.path.join(self.folder, "limited.sh")
        with open(limited, "w") as f:
            f.write(f'#!/bin/bash\nulimit -f 1\nexec "{PROGRAM}" "$@"\n')
        os.chmod(limited, 0o700)
        folder = os.path.join(self.folder, "files")
        os.mkdir(folder)
        with Server("--manifest-dir", folder, program=limited) as s:
            self.assertEqual(s.complete(PROMPT, max_tokens=30).status, 200)
            wait_until(lambda: s.metric("manifests_lost_total") == 1, "a lost manifest")
            self.assertEqual(s.metric("manifests_written_total"), 0)
        self.assertEqual(os.listdir(folder), [])

    def test_folders_that_cannot_be_used_are_refused(self):
        none = os.path.join(self.folder, "none")
        for folder, why in ((none, "No such file or directory"), (DEMO, "Not a directory")):
            p = run(DEMO, "--port", "0", "--manifest-dir", folder)
            self.assertEqual(p.returncode, 1)
            self.assertIn(f"--manifest-dir {folder}: {why}", p.stderr)


if __name__ == "__main__":
    main()
