"""Claude Code and Codex, as PyPI has them, work with `reprise serve`: they ask, run the tool that the model calls, hand its result back,
and get the answer. The second request finds the long prompt of the first in the cache. The model is that of scripted.py.

test_agents.py PROGRAM SOURCE_DIR        scripts/test-api-clients.sh runs it
"""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import scripted  # noqa: E402
from server import HANG_S, Server, main  # noqa: E402

COMMAND, ANSWER, CONTEXT = "echo written > out.txt && cat out.txt", "It is done.", 131072


def installed(name):
    path = os.path.join(sysconfig.get_paths()["purelib"], name)
    os.chmod(path, 0o755)
    return path


class Agents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("home", "work"):
            os.mkdir(os.path.join(self.folder, name))

    def serve(self, tool, arguments):
        """A server whose model calls the tool, and then gives ANSWER."""
        call = json.dumps({"name": tool, "arguments": arguments})
        model = os.path.join(self.folder, "scripted")
        scripted.write(model, {"<|ask|>": ["<tool_call>", call, "</tool_call>"], "<|after|>": [ANSWER], "<|plain|>": ["A title"]}, CONTEXT)
        return Server("--ctx", str(CONTEXT), "--parallel", "2", model=model)

    def run_agent(self, command, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC", "CLAUDE", "OPENAI", "CODEX"))}
        p = subprocess.run(command, cwd=os.path.join(self.folder, "work"), capture_output=True, text=True, timeout=HANG_S, stdin=subprocess.DEVNULL,
                           env={**clean, "HOME": os.path.join(self.folder, "home"), **env})
        self.assertEqual(p.returncode, 0, p)
        with open(os.path.join(self.folder, "work", "out.txt")) as f:
            self.assertEqual(f.read(), "written\n")
        return p.stdout

    def expect_cached(self, s, path):
        """The latest two requests: the second continues the first."""
        first, second = [e for e in s.lines("request") if e["path"] == path][-2:]
        self.assertGreater(first["prompt_tokens"], 10000, "the prompt of an agent is long")
        self.assertGreater(second["cached_tokens"], 0.99 * first["prompt_tokens"], (first, second))

    def test_claude_code(self):
        program = installed("claude_agent_sdk/_bundled/claude")
        with self.serve("Bash", {"command": COMMAND, "description": "Write a file"}) as s:
            out = self.run_agent([program, "-p", "Write a file", "--output-format", "json", "--allowedTools", "Bash"], ANTHROPIC_BASE_URL=s.url,
                                 ANTHROPIC_AUTH_TOKEN="none", ANTHROPIC_MODEL="scripted", ANTHROPIC_SMALL_FAST_MODEL="scripted",
                                 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", IS_SANDBOX="1")
            self.expect_cached(s, "/v1/messages")
        result = json.loads(out.splitlines()[-1])
        self.assertEqual((result["is_error"], result["result"], result["num_turns"], result["stop_reason"]), (False, ANSWER, 2, "end_turn"), out)
        self.assertEqual(result["usage"]["output_tokens"], 6)

    def test_codex(self):
        program = installed("codex_cli_bin/bin/codex")
        with self.serve("exec_command", {"cmd": COMMAND}) as s:
            options = {"model": "scripted", "model_provider": "reprise", "model_providers.reprise.name": "reprise",
                       "model_providers.reprise.base_url": s.url + "/v1", "model_providers.reprise.wire_api": "responses"}
            out = self.run_agent([program, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                                  *(x for k, v in options.items() for x in ("-c", f'{k}="{v}"')), "Write a file"])
            self.expect_cached(s, "/v1/responses")
        events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        items = {e["item"]["type"]: e["item"] for e in events if e["type"] == "item.completed"}
        self.assertEqual((items["command_execution"]["exit_code"], items["command_execution"]["aggregated_output"]), (0, "written\n"), out)
        self.assertEqual(items["agent_message"]["text"], ANSWER, out)
        self.assertEqual(events[-1]["usage"]["output_tokens"], 6, out)


if __name__ == "__main__":
    main()
