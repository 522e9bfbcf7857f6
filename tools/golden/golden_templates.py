#!/usr/bin/env python3
"""Chat templates rendered by Python's Jinja, set up as transformers sets it up (its utils/chat_template_utils.py).

    tools/golden/golden_templates.py --write            golden.txt and cases.jsonl of tests/golden/templates, from the templates,
                                                 conversations.jsonl, and the sources in cases.jsonl
    tools/golden/golden_templates.py --compare DRIVER FOLDER...
                                                 templates elsewhere: DRIVER TEMPLATE JSON... must print the same texts
    tools/golden/golden_templates.py --show TEMPLATE CONVERSATION

Needs Jinja (pip install jinja2==3.1.6). A line of golden.txt is: template, conversation, "ok" with FNV-1a of the UTF-8 and
its bytes, or "fails". DRIVER prints for each JSON "O" and the text, or "E" and the reason, and a NUL."""
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "templates"
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what an assistant wrote; its text is that of the body, which is a macro."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, source, variables):
    """The text, or None: it fails."""
    try:
        return env.from_string(source).render(**json.loads(variables)), ""
    except Exception as e:  # pylint: disable=broad-exception-caught
        return None, f"{type(e).__name__}: {e}"


def conversations():
    """name -> JSON text of the variables."""
    text = (GOLDEN / "conversations.jsonl").read_text(encoding="utf-8")
    return {json.loads(line)["name"]: line for line in text.split("\n") if line}


def fnv1a(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def write():
    env = environment()
    lines = [f"# tools/golden/golden_templates.py --write, jinja2 {jinja2.__version__}, Python {sys.version.split()[0]}"]
    for path in sorted(GOLDEN.glob("*.jinja")):
        source = path.read_bytes().decode()
        for name, variables in conversations().items():
            text, _ = render(env, source, variables)
            data = (text or "").encode()
            lines.append(f"{path.stem} {name} " + ("fails" if text is None else f"ok {fnv1a(data):016x} {len(data)}"))
    (GOLDEN / "golden.txt").write_text("\n".join(lines) + "\n")


def write_cases():
    """Each line of cases.jsonl but the first, the variables, gets the text that its source makes; null: it fails."""
    env = environment()
    path = GOLDEN / "cases.jsonl"
    first, *cases = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    lines = [json.dumps(first, ensure_ascii=False)]
    for case in cases:
        text, why = render(env, case["source"], json.dumps(first["variables"]))
        lines.append(json.dumps({"source": case["source"], "text": text, "why": why}, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def compare(driver, folders):
    env, cases, same, failed, bad = environment(), conversations(), 0, 0, set()
    paths = sorted(p for folder in folders for p in pathlib.Path(folder).glob("*.jinja"))
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, variables in cases.items():
            files.append(str(pathlib.Path(folder) / f"{name}.json"))
            pathlib.Path(files[-1]).write_text(variables, encoding="utf-8")
        for path in paths:
            source = path.read_bytes().decode()
            out = subprocess.run([driver, str(path), *files], stdout=subprocess.PIPE, check=False).stdout
            ours = out.decode(errors="surrogateescape").split("\0")
            ours += ["crashed"] * (len(cases) - len(ours) + 1)
            for (name, variables), mine in zip(cases.items(), ours):
                text, why = render(env, source, variables)
                if (text is None and mine[:1] == "E") or (text is not None and mine == "O" + text):
                    same += 1
                    failed += text is None
                    continue
                bad.add(path.name)
                print(f"{path} {name}:\n  ours  {mine[-300:]!r}\n  Jinja {(text or why)[-300:]!r}")
    print(f"{len(paths)} templates, {len(cases)} conversations: {same} of {len(paths) * len(cases)} the same, of which "
          f"{failed} fail in both; templates that differ: {len(bad)}")
    return 1 if bad else 0


def main():
    if sys.argv[1:] == ["--write"]:
        write()
        write_cases()
    elif len(sys.argv) > 3 and sys.argv[1] == "--compare":
        sys.exit(compare(sys.argv[2], sys.argv[3:]))
    elif len(sys.argv) == 4 and sys.argv[1] == "--show":
        text, why = render(environment(), pathlib.Path(sys.argv[2]).read_bytes().decode(), conversations()[sys.argv[3]])
        print(why if text is None else text, end="")
    else:
        sys.exit(__doc__)


main()
