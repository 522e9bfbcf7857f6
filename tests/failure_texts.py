#!/usr/bin/env python3
"""Fails if no test asserts the text of a failure that the library can report. A test has a text if one of its strings has
the parts between the % directives, in their order.

    failure_texts.py SOURCE_DIR              the folders of FOLDERS
    failure_texts.py SOURCE_DIR FOLDER...    other folders, such as model: lists the texts that no test has"""
import ast
import json
import pathlib
import re
import sys

# A folder that ends in / is read without those in it.
FOLDERS = ["base", "ops", "graph", "train", "model", "nn", "template", "grammar", "fallback", "cli", "manifest", "server/", "server/api", "server/http", "server/jobs",
           "executor/", "executor/none"]

# Texts that no input brings about, and why.
ALLOWED = {
    r"is multiplied with cannot be read": "the sources of all products of layers are contiguous f32 (model/convert/imatrix.c)",
    r"out of memory|bytes .*could not be allocated": "test_host_faults and cli_faults let each call that allocates fail, and assert the status",
    r"copying it before it is replaced|a second name": "test_file_faults lets these calls fail, and asserts the status",
    r"the name of tensor .* is too long": "the names are those of an architecture (train/adapter.c)",
    r"a workspace of %zu bytes: must be at least": "each function checks its workspace before (nn/cpu.c)",
    r"is not a weight of the bound plan": "graphs refuse weights without data, and all others are uploaded (executor/addresses.c)",
    r"its folder cannot be locked": "fcntl fails for no open folder of a test (train/lock.c)",
    r"looking for the tensor failed": "only if memory runs out in a step that is not finite (train/trainer_step.c)",
    r"a thread could not be started": "tests/server/test_faults.py lets pthread_create fail, and asserts the status (server/jobs)",
    r"--manifest: more than %d replies": "a chat of 4096 replies takes minutes (cli/repeat/recording.c)",
    r"The client has left": "nobody is there to read it; the log has the status 499 (server/jobs/job.c)",
    r"the engine of %s has failed": "a step of the CPU fails only if memory does (server/jobs/run.c)",
    r"only %d of %d threads": "test_host_faults lets pthread_create fail in executor/pool.c (cli/machine/machine_read.c)",
    r"the dump has more than": "it would take 1 GB of memory (cli/diff/diff_read.c)",
    r"too many values": "they would take 1 GB of memory (base/text/json_read.c)",
    r"config.json is empty": "only if it is removed between two looks at it (model/hf/open.c)",
    r"more than %d files of weights": "a process may not have so many files open (model/hf/shards.c)",
    r"names a tensor twice": "needs further elements in four arrays of a file (model/adapter_base.c)",
    r"was lost by a failed run": "a run fails on a device only (model/session.c)",
    r"a word of %zu bytes": "it would take 1 GB of memory (model/tokenizer/bpe_train.c)",
    r"matches outside of what is left": "PCRE2 before 10.38 only (model/tokenizer/expression.c)",
    r"(grammar|JSON schema): .*(more|deeper) than %": "limits of memory and steps, at which fuzz_grammar stops (grammar/)",
    r"the recording has changed while it was read": "only between two looks of one run at it (cli/diverge/recording_read.c)",
    r"this op is constant": "the rule is never called: a node of such an op needs no gradient (ops/backward.c)",
}

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|\s+|.', re.S)
DIRECTIVE = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|j|z|t)?[diouxXeEfFgGaAcsp%]|\x01")
# Calls whose strings are texts of failures: REFUSE, rp_fail, rp_hf_unsupported, ... The strings of `return` and of
# `why = ` are such texts too, where a rule returns why it refuses.
FAILURE = re.compile(r"(?i)fail|refus|wrong|^bad$|unsupported|set_error|truncated|describe|not_negative|^return$")
ANY = "\1"  # in a string: the place of a macro between two literals, or of a value in an f-string
END = "\0"


def unescaped(text):
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def strings_of_c(path):
    """(function or macro that has it as an argument, line, text) of each string; adjacent literals are one."""
    tokens, line = [], 1
    for m in TOKEN.finditer(re.sub(r"\\\n", " ", path.read_text())):
        if not m[0].isspace() and not m[0].startswith(("/*", "//")):
            tokens.append((m[0], line))
        line += m[0].count("\n")
    calls, returned, i = [], False, 0
    while i < len(tokens):
        token, line = tokens[i]
        if token in "({[":
            calls.append(tokens[i - 1][0] if token == "(" else "")
        elif token in ")}]":
            calls = calls[:-1]
            returned = returned and token == ")"
        elif token in (";", "return", "why"):
            returned = token != ";"
        elif token[0] == '"':
            text = token[1:-1]
            while i + 1 < len(tokens) and re.match(r'"|[A-Z]\w*$', tokens[i + 1][0]):
                i += 1
                text += tokens[i][0][1:-1] if tokens[i][0][0] == '"' else ANY
            names = [c for c in calls if re.match(r"[A-Za-z_]\w", c) and c not in ("return", "if", "while")]
            yield names[-1] if names else "return" if returned else "", line, unescaped(text)
        i += 1


def strings_of_python(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
            yield re.sub(r"\\(.)", r"\1", node.value)  # the text that a regular expression matches
        elif isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else ANY for v in node.values)


def strings_of_tests(source):
    for path in sorted((source / "tests").rglob("*")):
        if path.suffix in (".c", ".h"):
            yield from (text for _, _, text in strings_of_c(path))
        elif path.suffix == ".py" and path.name != pathlib.Path(__file__).name:
            yield from strings_of_python(path)
        elif path.name == "requests.jsonl":
            yield from (json.loads(line)["want"].get("error", "") for line in path.read_text().splitlines())


def parts_of(text):
    """The parts between the directives that have a word, without the signs at their ends."""
    return [p.strip(" .,:;'\"()") for p in DIRECTIVE.split(text) if re.search("[A-Za-z]{3}", p)]


def failures(source, folder):
    """(path, line, text, parts) of the texts of more than one word."""
    for path in sorted((source / folder).glob("*" if folder.endswith("/") else "**/*")):
        if path.suffix in (".c", ".h", ".cu", ".cuh"):
            for call, line, text in strings_of_c(path):
                parts = parts_of(text)
                if FAILURE.search(call) and re.search(r"\w\W*\s\W*\w", " ".join(parts)):
                    yield path, line, text, parts


def main():
    source = pathlib.Path(sys.argv[1])
    folders = sys.argv[2:] or FOLDERS
    tested = END.join(strings_of_tests(source))
    used, n, bad = set(), 0, 0
    for path, line, text, parts in (f for folder in folders for f in failures(source, folder)):
        allowed = [a for a in ALLOWED if re.search(a, text)]
        used.update(allowed)
        n += 1
        if not allowed and not re.search(f"[^{END}]*?".join(map(re.escape, parts)), tested):
            print(f'{path.relative_to(source)}:{line}: no test has "{text}"')
            bad += 1
    stale = [] if sys.argv[2:] else [a for a in ALLOWED if a not in used]
    for text in stale:
        print(f'ALLOWED has "{text}", which no source has')
    print(f"{n} texts of failures, {bad} in no test")
    sys.exit(bad > 0 or bool(stale) or n < 100)


if __name__ == "__main__":
    main()
