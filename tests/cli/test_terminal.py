"""The program on a terminal: progress, colours, widths, interrupts; completion in shells, the manual page, models by position.

    test_terminal.py PROGRAM SOURCE_DIR [PROGRAM_ON_THE_SIMULATED_DEVICE]

Terminals are pseudo-terminals. Shells and groff are skipped where they are not installed.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import termios

from cli_program import (COMMANDS, HANG_S, MIX, ON_DEVICE, ON_MODELS, PROGRAM, REAL, SOURCE, TINY, TMP, Terminal, expect, expect_refusal, need_real,
                         ok, run, run_tests, temporary, wait_until)

README = os.path.join(SOURCE, "README.md")
MOE = os.path.join(SOURCE, "tests/golden/tiny/mixtral-mix.gguf")
GENERATE = ["-p", "abc", "-n", "4", "--ignore-eos", "-q"]


def columns_of(text):
    """Where the headings of a table begin or end, and its rows."""
    lines = text.splitlines()
    return [(m.start(), m.end()) for m in re.finditer(r"\S+( \S+)*", lines[0])], lines[1:]


# ---- the model as an argument ----


def test_the_model_may_be_given_by_position():
    for command in ON_MODELS:
        words = command.split()
        more = {"generate": GENERATE, "tokenize": ["-p", "a"], "perplexity": ["-f", TINY], "chat": ["-q"],
                "embed": ["-p", "a", "--pooling", "mean"], "rerank": ["-q", "a", "-f", TINY], "serve": ["--check"],
                "bench": ["-p", "4", "-n", "2", "-r", "1"], "profile": ["-r", "1"], "verify": ["-n", "1"],
                "train": ["--text", README, "-o", TMP.name + "/trained", "--steps", "1", "--seq", "8", "-b", "1", "--hold-out", "0"],
                "diverge": ["--b", "threads=1"]}.get(command, [])
        if command == "dump":  # its node is an argument too
            node = ["logits", "-o", TMP.name + "/node.npy"]
            expect_refusal(run("dump", "/nonexistent/m.gguf", *node), 1, "/nonexistent/m.gguf")
            expect_refusal(run("dump", "-m", TINY, MIX, *node), 2, f"two models are given: -m {TINY} and {MIX} (see `reprise dump --help`)")
            ok(run("dump", "-m", TINY, *node))
            ok(run("dump", "-m", TINY, TINY, *node))
            ok(run("dump", *node))
            continue
        expect_refusal(run(*words, "/nonexistent/m.gguf", *more), 2 if command == "diverge" else 1, "/nonexistent/m.gguf")
        if command != "diverge":  # a second model is B
            expect_refusal(run(*words, "-m", TINY, MIX, *more), 2, f"two models are given: -m {TINY} and {MIX}")
        if command not in ("chat", "perplexity", "rerank"):
            ok(run(*words, *more, TINY))
            ok(run(*words, "-m", TINY, TINY, *more))
    expect(ok(run("generate", TINY, *GENERATE)).out == ok(run("generate", "-m", TINY, *GENERATE)).out, "the same model")
    expect_refusal(run("generate", TINY, "Hello"), 2, "is it the prompt? Then -p goes before it")
    expect(ok(run("graph", TINY, "--diff", "raw", "raw")).text.count("\n") == 3, "MODEL --diff A B")
    expect(ok(run("graph", TINY, "--json")).out == ok(run("graph", "--json", "-m", TINY)).out, "graph MODEL")


def test_arguments_after_two_dashes_are_no_options():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(TINY, os.path.join(folder, "--json"))
        p = subprocess.run([PROGRAM, "inspect", "--", "--json"], cwd=folder, capture_output=True)
        expect(p.returncode == 0 and b"GGUF version" in p.stdout, "a file named --json", p)


def test_a_missing_command_is_explained():
    expect_refusal(run(), 2, "no command is given", "reprise generate -p")
    expect_refusal(run(TINY), 2, f"a command comes before the model: reprise chat {TINY}")
    expect_refusal(run("bench", "lauches"), 2, "did you mean `reprise bench launches`?")
    expect_refusal(run("bench", "gone.gguf"), 1, "gone.gguf: No such file")
    expect_refusal(run("generate", TINY, "-p", "a", "--tmep", "1"), 2, "did you mean --temp?")
    expect_refusal(run("generate", TINY, "-p", "a", "--colour", "never"), 2, "did you mean --color?")


# ---- tables ----


def test_columns_hold_long_names():
    folder = os.path.join(TMP.name, "a folder with a name of more than thirty characters", "größer")
    os.makedirs(folder)
    long = shutil.copy(MOE, os.path.join(folder, "mixtral.gguf"))
    r = ok(run("bench", "launches", long, "--by-pass"))
    places, rows = columns_of(r.text.split("\n\n")[0].rstrip("\n") + "\n")
    expect(rows[0].startswith(long), "the whole path", r)
    for start, end in places[1:]:
        expect(all(row[end - 1].isdigit() and (len(row) == end or row[end] == " ") for row in rows), "numbers end with their heading", r)
    for command in (["profile", long, "-r", "1"], ["verify", long, "-n", "1"], ["plan", long], ["graph", long]):
        r = ok(run(*command))
        lines = r.text.splitlines()
        first = next(i for i, line in enumerate(lines) if re.match(r"(op|step|node) ", line))
        places, rows = columns_of("\n".join(lines[first:]))
        rows = [row for row in rows[: rows.index("")] if row] if "" in rows else rows[:-1]
        expect(any("experts_down" in row for row in rows), "an op of 12 letters", r)
        at = next(start for (start, end), name in zip(places, re.split(r"  +", lines[first].strip())) if name in ("nodes", "name"))
        expect(all(len(row) <= at or row[at - 2 : at] == "  " for row in rows), "two spaces before the next column", r)


def test_tables_have_no_spaces_at_line_ends():
    for command in (["plan", MOE], ["graph", MOE], ["inspect", MOE, "--tensors"], ["bench", "launches", "--all-presets"],
                    ["verify", MOE, "-n", "1"], ["profile", MOE, "-r", "1"], ["synth", "list"], ["devices"]):
        r = ok(run(*command))
        expect(not re.search(r" $", r.text, re.M), "spaces at the end of a line", (command, r))


def test_verify_says_equal_or_where():
    r = ok(run("verify", TINY, "-n", "2", REPRISE_ISA="plain"))
    expect(r.text.endswith("\n\nall results are equal\nverified\n"), "equal", r)
    expect(all(re.search(r" equal$", row) for row in r.text.split("\n\n")[1].splitlines()[1:]), "for each op", r)
    if ON_DEVICE is None:
        return "there is no simulated device, whose results differ"
    env = {**os.environ, "REPRISE_DEVICE": "cuda"}
    p = subprocess.run([ON_DEVICE, "verify", TINY, "-n", "2", "--tolerance", "0"], capture_output=True, text=True, env=env)
    worst = re.search(r"^largest difference: (\S+) '(\S+)', element (\d+): (\S+), expected (\S+), relative (\S+)$", p.stdout, re.M)
    expect(p.returncode == 1 and worst and "\nFAILED\n" in p.stdout, "a difference", p)
    op, node, element, value, expected, relative = worst.groups()
    expect(value != expected and 0 < float(relative) < 2e-5, "two values", worst.groups())
    row = next(line for line in p.stdout.splitlines() if line.startswith(op + " "))
    expect(row.split()[2:] == [relative, node, element, value, expected], "as in the table", row)
    expect(re.search(r"^first difference above 0: .* token \d+, element \d+: .*, expected .*: relative", p.stdout, re.M), "the first", p)


# ---- progress ----


def last_screen(output):
    """The text that a terminal shows: \\r returns to the beginning of a line, \\033[K erases the rest of it."""
    lines = [""]
    column = 0
    for part in re.findall(r"\r|\n|\033\[K|\033\[[\d;]*m|[^\r\n\033]+", output):
        if part == "\r":
            column = 0
        elif part == "\n":
            lines.append("")
        elif part == "\033[K":
            lines[-1] = lines[-1][:column]
        elif not part.startswith("\033"):
            lines[-1] = lines[-1][:column] + part + lines[-1][column + len(part) :]
            column += len(part)
    return lines


def check_progress(command, words):
    """`words` are drawn while the command runs and erased at its end, only on a terminal that can."""
    code, text = Terminal(*command).finish()
    expect(code == 0 and words in text, words, text)
    screen = last_screen(text)
    expect(not any(words in line for line in screen), "erased at the end", screen)
    expect(words not in run(*command).err, "nothing without a terminal")
    code, text = Terminal(*command, "-q").finish()
    expect(code == 0 and "\033[K" not in text, "nothing with -q", text)
    code, text = Terminal(*command, TERM="dumb").finish()
    expect(code == 0 and "\033" not in text, "nothing on a dumb terminal", text)


def test_progress_is_drawn_and_erased():
    data = temporary("some bytes", bytes(range(256)) * 4096 * 16)
    check_progress(["bench", MOE, "-p", "64", "-n", "64", "-r", "3", "-t", "1"], "bench: tg64, 3 runs")
    check_progress(["bench", "machine", "--read", "-f", data], "measuring: read bandwidth")
    check_progress(["profile", MOE, "-r", "3"], "timing every node: 3 runs")


def test_counting_is_drawn_and_erased():  # one thread: a thread sanitizer does not run it
    check_progress(["bench", "launches", "--preset", "tiny", "--by-pass"], "counting: tiny")
    code, text = Terminal("bench", "launches", "--all-presets").finish()
    expect(code == 0 and "counting: llama3-8b" in text, "each preset is named", text)
    expect(not any("counting" in line for line in last_screen(text)), "erased at the end", text)


def test_progress_tells_the_time_left():
    t = Terminal("bench", "-p", "0", "-n", "200", "-r", "1000", "-t", "1")
    t.wait_for(b"s left")
    t.write(b"\x03")
    code, text = t.finish()
    expect(re.search(r"tg\d+, 1000 runs \[#* *\] +\d+ %, \d+ s left", text), "bar, share and time", text)
    expect(code == 130 and t.same_settings, "Ctrl-C ends it with 130", (code, text))
    expect(last_screen(text)[-1].strip() == "", "and the line is erased", text)


def test_progress_fits_a_narrow_window():
    t = Terminal("bench", "-p", "0", "-n", "200", "-r", "1000", "-t", "1", columns=20)
    t.wait_for(b" %")
    t.write(b"\x03")
    code, text = t.finish()
    drawn = [part.split("\033")[0] for part in text.split("\r") if "\033[K" in part]
    expect(drawn and all(len(part) < 20 for part in drawn), "a line of 19 columns", drawn)


# ---- colours ----


def test_colours_are_for_terminals():
    escape = "\033["
    verify = ["verify", TINY, "-n", "1", "-q"]
    code, text = Terminal(*verify).finish()
    expect(code == 0 and "\033[1mop\033[0m" in text and "\033[32mverified" in text, "headings and result", text)
    expect("\033[1;31mreprise:" in Terminal("nonsense").finish()[1], "errors")
    plain = ok(run(*verify)).text
    expect(escape not in plain, "no colours in a pipe", plain)
    for more, env in ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"}), (["--color", "never"], {}), (["--color=never"], {}):
        expect(escape not in Terminal(*verify, *more, **env).finish()[1], "no colours", (more, env))
    expect(escape in Terminal(*verify, NO_COLOR="").finish()[1], "an empty NO_COLOR does not count")
    for always in ([*verify, "--color", "always"], ["--color=always", *verify], ["--color", "always", *verify]):
        r = ok(run(*always, NO_COLOR="1"))
        expect(re.sub(r"\033\[[\d;]*m", "", r.text) == plain, "always: in a pipe too, with the same text", r)
        expect(escape in r.text, "always", r)
    expect_refusal(run("--color", "sometimes"), 2, "auto, always or never")
    expect_refusal(run(*verify, "--color", "sometimes"), 2, "auto, always or never")
    expect_refusal(run("--color"), 2, "needs a value")


# ---- help ----


def test_help_is_as_wide_as_the_terminal():
    for columns, widest in (20, 20), (60, 60), (90, 90), (200, 100):
        code, text = Terminal("--help", columns=columns).finish()
        lines = [re.sub(r"\033\[[\d;]*m", "", line).rstrip("\r") for line in text.split("\n")]
        long = [line for line in lines if len(line) > widest and " " in line.strip()]
        expect(code == 0 and len(long) <= (2 if columns == 20 else 0), f"lines of {widest} columns", long)
        expect(max(map(len, lines)) > widest - 12, "that are used", columns)
    widths = [len(line) for c in COMMANDS for line in ok(run("help", *c.split())).text.splitlines()]
    expect(max(widths) <= 80, "80 columns without a terminal", max(widths))


# ---- shells ----


def options_of(command):
    """The long options that the help of a command lists."""
    return re.findall(r"^  (?:-\w, |    )(--[\w-]+)", ok(run("help", *command.split())).text, re.M)


def test_bash_completes_commands_options_and_values():
    if not shutil.which("bash"):
        return "there is no bash"
    script = temporary("completion.bash", ok(run("completion", "bash")).out)

    def complete(*words):
        quoted = " ".join(f"'{w}'" for w in words)
        code = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _reprise; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        p = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=SOURCE)
        expect(p.returncode == 0 and p.stderr == "", "bash", p)
        return [w for w in p.stdout.split("\n") if w]

    names = {c.split()[0] for c in COMMANDS}
    expect(names <= set(complete("reprise", "")), "commands", complete("reprise", ""))
    expect(complete("reprise", "per") == ["perplexity"], "one")
    expect({"launches", "machine"} <= set(complete("reprise", "bench", "")), "the second word")
    expect(complete("reprise", "help", "chat") == ["chat"], "help")
    for command in COMMANDS:
        got = complete("reprise", *command.split(), "--")
        expect(sorted(got) == sorted(options_of(command)), f"options of {command}", got)
    expect(complete("reprise", "generate", "--mode", "") == ["auto", "eager", "replay", "loop"], "values")
    expect(complete("reprise", "generate", "--mode", "=", "re") == ["replay"], "--mode=re")
    expect(complete("reprise", "generate", "--mode", "=") == ["auto", "eager", "replay", "loop"], "--mode=")
    expect(complete("reprise", "generate", "--repack", "") == ["on", "off", "auto", "codebook"], "--repack")
    expect(complete("reprise", "bench", "serve", "--scenario", "") == ["chat", "agent", "summarise"], "scenarios")
    expect(complete("reprise", "bench", "launches", "--gpu", "h") == ["h100", "h100-pcie", "h200"], "GPUs")
    expect(complete("reprise", "bench", "counts", "--phase", "") == ["decode", "prefill", "both"], "phases")
    expect(complete("reprise", "bench", "launches", "--preset", "llama3-") == ["llama3-8b"], "presets")
    expect("quantize" in complete("reprise", "graph", "--after", ""), "passes")
    expect(complete("reprise", "generate", "--template", "ge") == ["gemma"], "templates")
    expect(complete("reprise", "generate", "-p", "") == [], "any text")
    expect(complete("reprise", "inspect", "assets/d") == ["assets/demo.gguf"], "models")
    expect(complete("reprise", "perplexity", "-f", "READ") == ["README.md"], "files")


def test_zsh_and_fish_read_their_scripts():
    skipped = []
    for shell, check in ("zsh", ["-n"]), ("fish", ["--no-execute"]):
        script = ok(run("completion", shell))
        for command in COMMANDS:
            expect(f"'{command}'" in script.text, command)
        for option in options_of("generate"):
            expect(option in script.text or f"-l {option[2:]}" in script.text, option)
        if not shutil.which(shell):
            skipped.append(shell)
            continue
        path = temporary("completion." + shell, script.out)
        p = subprocess.run([shell, *check, path], capture_output=True, text=True)
        expect(p.returncode == 0 and p.stderr == "", shell, p)
        if shell == "fish":
            for line, words in ("reprise per", ["perplexity"]), ("reprise bench --mode e", ["eager"]), ("reprise bench launches --all", ["--all-presets"]):
                p = subprocess.run([shell, "-c", f"source {path}; complete -C '{line}'"], capture_output=True, text=True)
                expect([w.split("\t")[0] for w in p.stdout.splitlines()] == words, line, p)
    expect_refusal(run("completion", "tcsh"), 2, "bash, zsh or fish")
    expect_refusal(run("completion"), 2, "SHELL is needed")
    return "there is no " + " and no ".join(skipped) if skipped else None


def test_the_manual_page_is_complete():
    r = ok(run("man"))
    plain = re.sub(r"\\f[BIR]", "", r.text).replace("\\-", "-")
    expect(plain.startswith(".TH REPRISE 1"), "title", plain[:99])
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ENVIRONMENT", "EXIT STATUS", "FILES", "EXAMPLES"):
        expect(f"\n.SH {section}\n" in plain, section)
    sections = dict(re.findall(r"\n\.SS (.+)\n((?:.|\n)*?)(?=\n\.S[SH] )", plain))
    for command in COMMANDS:
        for option in options_of(command):
            expect(option in sections[command] or option in ("--color", "--plugin", "--help"), (command, option))
    options = plain[plain.index("\n.SH OPTIONS\n"):plain.index("\n.SH COMMANDS\n")]
    expect(all(option in options for option in ("--color", "--plugin", "--help")), "common options", options)
    for name in re.findall(r"REPRISE_\w+", ok(run("--help")).text):
        expect(f"\n{name}\n" in plain, name)
    if not shutil.which("groff"):
        return "there is no groff: structure only"
    p = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=r.out, capture_output=True)
    expect(p.returncode == 0 and p.stderr == b"" and len(p.stdout) > 10000, "groff without warnings", p.stderr)


# ---- streams and interrupts ----


def test_closed_streams_are_not_reused():
    def shell(line):
        return subprocess.run(["bash", "-c", line.replace("reprise", PROGRAM)], capture_output=True, text=True,
                              env={**os.environ, "REPRISE_DEVICE": "cpu"})

    if not shutil.which("bash"):
        return "there is no bash"
    p = shell(f"reprise generate {TINY} -p - -n 2 -q <&-")
    expect(p.returncode == 0, "closed input is an empty prompt", p)
    p = shell(f"reprise generate {TINY} -p a -n 2 -q >&-")
    expect(p.returncode == 1 and "standard output: Bad file descriptor" in p.stderr, "closed output is an error", p)
    p = shell(f"reprise synth tiny -o {TMP.name}/closed.gguf >&- 2>&-")
    expect(p.returncode == 0, "a file does not take the place of standard output", p)
    ok(run("inspect", TMP.name + "/closed.gguf"))
    p = shell(f"set -o pipefail; reprise inspect --tensors {MOE} --json | head -c 1")
    expect(p.stderr == "" and p.stdout == "{", "a reader that goes away", p)


def test_ctrl_c_keeps_the_text_and_the_terminal():
    model = os.path.join(TMP.name, "slow.gguf")
    ok(run("synth", "smollm2-135m", "--type", "Q4_0", "-o", model))
    t = Terminal("generate", model, "-p", "a", "-n", "0", "-c", "2000", "--ignore-eos", "--echo", "--temp", "1")
    t.wait_for(b">")  # the first token that was generated: the names of most end with it
    t.write(b"\x03")
    code, text = t.finish()
    expect(code == 130 and t.same_settings and "stopped: cancelled, after" in text, "130, text kept", (code, text[-500:]))
    expect(">" in text.split("^C")[0], "the text until then", text)


def test_ctrl_c_between_prefills_of_one_chunk():
    """They report nothing while they run, so that bench looks for a signal after each."""
    model = os.path.join(TMP.name, "slow.gguf")
    ok(run("synth", "smollm2-135m", "--type", "Q4_0", "-o", model))
    t = Terminal("bench", model, "-p", "32", "-n", "0", "-r", "40", "-t", "1")
    t.wait_for(b"40 runs")
    t.write(b"\x03")
    code, text = t.finish()
    expect(code == 130 and "tok/s" not in text, "exit 130", (code, text))


# ---- text from elsewhere ----


def test_foreign_text_cannot_control_the_terminal():
    model = os.path.join(TMP.name, "hostile.gguf")
    ok(run("synth", "tiny", "-o", model))
    data = bytearray(open(model, "rb").read())
    at = data.index(b"general.name") + len("general.name") + 4 + 8
    data[at : at + 4] = b"\033[2J"
    open(model, "wb").write(data)
    clipboard = "\033]52;c;QUFB\007\u009b1A"
    for arguments, shown in (
        (["bench", model, "-p", "4", "-n", "2", "-r", "1"], "\\x1b[2J"),
        (["graph", model], "\\x1b[2J"),
        (["inspect", model], "\\x1b[2J"),
        (["generate", model, "-p", clipboard, "-n", "2", "--echo", "-q"], "\\x1b]52;c;QUFB\\x07\\x9b1A"),
        (["tokenize", model, "-p", clipboard], "\\x1b"),
        (["generate", TMP.name + "/no\033[2J", "-p", "a"], "no\\x1b[2J"),
    ):
        t = Terminal(*arguments)
        _, text = t.finish()
        expect(shown in text, shown, (arguments, text))
        for sequence in ("\033[2J", "\033]52", "\u009b", "\007"):
            expect(sequence not in text, f"no {sequence!r}", (arguments, text))
    expect(clipboard.encode() in run("generate", model, "-p", clipboard, "-n", "2", "--echo", "-q").out, "a file gets the text as it is")


def test_saved_dumps_cannot_control_the_terminal():
    dump = run("graph", TINY, "--json").out.decode()
    for old, new in (('"name":"embedding"', '"name":"\\u001b[2J"'), ('"op":"get_rows"', '"op":"\\u009b1A"'), ('"title":"', '"title":"\\u001b[2J')):
        expect(old in dump, old, dump[:200])
        path = temporary("hostile.json", dump.replace(old, new).encode())
        r = run("graph", TINY, "--diff", path, TINY)
        text = r.out.decode() + r.err
        expect("\033" not in text and "\u009b" not in text and "\\x" in text, "visible", (new, r))
    path = temporary("hostile.json", dump.replace('"window":', '"w\\u001b[2J":').encode())
    expect_refusal(run("graph", TINY, "--diff", path, TINY), 1, 'the key "w\\x1b[2J"')


def test_numbers_may_be_their_bounds():
    ok(run("generate", TINY, *GENERATE, "--top-p", "1e-6"))
    expect_refusal(run("generate", TINY, *GENERATE, "--top-p", "9e-7"), 2, "--top-p 9e-7: must be from 1e-06 to 1")


def test_a_dump_may_be_a_pipe():
    if not shutil.which("bash"):
        return "no bash"
    command = f"'{PROGRAM}' graph '{TINY}' --diff <('{PROGRAM}' graph '{TINY}' --json) <('{PROGRAM}' graph '{TINY}' --raw --json)"
    p = subprocess.run(["bash", "-c", command], capture_output=True, timeout=HANG_S, env={**os.environ, "REPRISE_DEVICE": "cpu"})
    expect(p.returncode == 0 and b"attention" in p.stdout and p.stderr == b"", "the differences", p)


def wait_for_the_editor(t):
    """The line editor takes control of the terminal after it has printed the prompt. Input before that is echoed twice."""
    with open(PROGRAM, "rb") as f:
        has_editor = re.search(rb"libedit|\.editrc", f.read())
    if has_editor:
        wait_until(lambda: not termios.tcgetattr(t.fd)[3] & termios.ICANON, "the line editor")


def test_a_text_that_is_pasted_is_one_message():
    saved = os.path.join(TMP.name, "pasted.json")
    model = shutil.copytree(os.path.join(SOURCE, "tests/golden/hf_text"), os.path.join(TMP.name, "pasted"))
    with open(os.path.join(model, "config.json")) as f:
        config = {**json.load(f), "max_position_embeddings": 1024}
    with open(os.path.join(model, "config.json"), "w") as f:
        json.dump(config, f)
    t = Terminal("chat", model, "-n", "2", "--temp", "0")
    shown = t.wait_for(b"> ")
    if b"\033[?2004h" not in shown:
        t.write(b"\x03")
        t.finish()
        return "there is no line editor"
    wait_for_the_editor(t)

    def send(*parts):
        for part in parts:
            t.write(part)
        t.wait_for(b"\033[?2004h")
        t.wait_for(b"> ")
        wait_for_the_editor(t)

    t.write("\033[200~/quit\r  second \u00e4 line\\\r\033[201~".encode())
    t.wait_for(b"[paste 1: 2 lines]")
    send(b" and more", b"\n")
    send(b"\033[200~one\tline\n\033[201~", b"\n")  # it does not end the line
    send(b"ab\033[Dc\n")  # keys that begin with ESC
    send(b"\033[200~x\ny\033[201~", b"\x7f" * 40, b"nothing\n")  # it was deleted
    send(b"x\033[200~1\n2\033[201~y\033[200~3\n4\n5\033[201~z\n")
    send(f"/save {saved}\n".encode())
    t.write(b"\x03")
    code, text = t.finish()
    expect(code == -signal.SIGINT and t.same_settings and text.count("\033[?2004h") == text.count("\033[?2004l"), "the modes end", (code, text))
    with open(saved) as f:
        said = [m["content"] for m in json.load(f)["messages"] if m["role"] == "user"]
    want = ["/quit\n  second \u00e4 line\\ and more", "one\tline", "acb", "nothing", "x1\n2y3\n4\n5z"]
    expect(said == want, "the messages", said)


def test_chat_works_on_a_terminal():
    if need_real():
        return need_real()
    t = Terminal("chat", REAL, "--temp", "1")
    expect(b"> " in t.wait_for(b"> "), "a prompt")
    wait_for_the_editor(t)
    t.write("Zähle: count from one to one thousand, in words.\n".encode())
    expect("Zähle" in t.wait_for(b"words.\r\n").decode(), "UTF-8 is echoed")
    started = t.wait_for(b"e")
    t.write(b"\x03")
    expect(b"> " in t.wait_for(b"> "), "Ctrl-C ends the reply only", started)
    t.write(b"/help\n")
    expect(b"/reset" in t.wait_for(b"/quit"), "and the program goes on")
    t.wait_for(b"> ")
    wait_for_the_editor(t)
    t.write(b"\x03")
    code, text = t.finish()
    expect(code == -signal.SIGINT and t.same_settings, "Ctrl-C at the prompt ends it, and the terminal is as before", code)


run_tests(globals())
