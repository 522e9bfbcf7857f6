#!/usr/bin/env python3
"""The programs of docs/extend.md compile as they stand, run, and print what is listed here. Those in Python are run by the tests of the
Python package.

    tests/docs/test_extend.py SOURCE_DIR BUILD_DIR C_COMPILER REPRISE"""
import concurrent.futures
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

source, build, compiler, program = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), *sys.argv[3:]
PRINTED = ["2\nw is free\n", "int8x16: 16.0\n"]
programs = re.findall(r"```c\n(.*?)```", (source / "docs/extend.md").read_text(), re.S)
backends = [p for p in programs if "rp_backend(void)" in p]
programs = [p for p in programs if p not in backends]
assert len(backends) == 1
assert len(programs) == len(PRINTED), f"{len(programs)} programs, {len(PRINTED)} outputs"
with tempfile.TemporaryDirectory() as temp:
    for number, (text, printed) in enumerate(zip(programs, PRINTED)):
        path = pathlib.Path(temp, f"{number}.c")
        path.write_text(text)
        subprocess.run([compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{source}/include", f"-I{build}/include", path, "-o",
                        path.with_suffix(""), f"-L{build}", "-lreprise", "-lm", f"-Wl,-rpath,{build}"], check=True)
        done = subprocess.run([path.with_suffix("")], capture_output=True, text=True, env={**os.environ, "REPRISE_DEVICE": "cpu"})
        assert (done.returncode, done.stdout) == (0, printed), (number, done)
    path = pathlib.Path(temp, "plain.c")
    path.write_text(backends[0])
    subprocess.run([compiler, "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{source}/include", f"-I{build}/include", "-shared", "-fPIC", path,
                    "-o", path.with_suffix(".so")], check=True)
    path.with_suffix(".so").chmod(0o755) # nobody else may write to it, whatever the umask is
    model, backend = source / "tests/golden/tiny/llama-mix.gguf", ["--backend", path.with_suffix(".so")]

    def generate(*more):
        done = subprocess.run([program, "generate", "-m", model, "-n", "4", "-q", "-t", "1", *more, "-p", "a"], capture_output=True, text=True,
                              env={**os.environ, "REPRISE_DEVICE": "cpu"})
        return (done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr)
    assert generate() == generate(*backend) and generate(*backend)[0], generate(*backend)
    for guesses in (["--lookup", "2"], ["--draft", model]):
        assert generate(*guesses) == generate(*backend, *guesses) == generate(), guesses
    ok, said = generate(*backend, "--manifest", f"{temp}/m.json")
    assert not ok and "--manifest describes the built-in kernels only, not backend plain: hands every step back" in said, said

    def run(command, *more):
        return subprocess.run([program, *command, *more], capture_output=True, text=True, env={**os.environ, "REPRISE_DEVICE": "cpu"})
    for command, named in ((["embed", model, "-p", "a", "--pooling", "mean"], None), (["bench", model, "-p", "8", "-n", "2", "-r", "1"], ", backend plain: hands every step back"),
                           (["bench", model, "-p", "8", "-n", "2", "-r", "1", "--json"], '"backend":"plain: hands every step back"'),
                           (["bench", "sequences", model, "-s", "2", "-p", "4", "-n", "2"], ", backend plain: hands every step back"),
                           (["bench", "sequences", model, "-s", "2", "-p", "4", "-n", "2", "--json"], '"backend":"plain: hands every step back"')):
        done, plain = run(command, *backend), run(command)
        assert done.returncode == 0, (command, done)
        assert named in done.stdout and named not in plain.stdout if named else done.stdout == plain.stdout != "", (command, done)
        done = run(command, "--backend", f"{temp}/none.so")
        assert done.returncode != 0 and f"backend '{temp}/none.so': " in done.stderr, (command, done)
    done = run(["serve", model, "--port", "0", "--manifest-dir", temp], *backend)
    assert done.returncode != 0 and "--manifest-dir describes the built-in kernels only, not backend " in done.stderr, done
    done = run(["serve", model, "--port", "0"], "--backend", f"{temp}/none.so")
    assert done.returncode != 0 and f"backend '{temp}/none.so': " in done.stderr, done

    def ask(url, path, **body):
        data = json.dumps(body).encode() if body else None
        try:
            with urllib.request.urlopen(urllib.request.Request(url + path, data, {"Content-Type": "application/json"}), timeout=300) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def serve(*more):
        """The texts of four replies at a time, and what the server says of its graph."""
        with subprocess.Popen([program, "serve", model, "--port", "0", "--log-file", "/dev/null", "-t", "2", *more], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "REPRISE_DEVICE": "cpu"}) as server:
            url = server.stdout.readline().removeprefix("listening at ").strip()
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda i: ask(url, "/v1/completions", prompt="ab" * (1 + 9 * i), seed=i, temperature=1, max_tokens=8, ignore_eos=True), range(4)))
            assert all(status == 200 for status, _ in answers), answers
            graphs = ask(url, "/graph"), ask(url, "/graph?times=1")
            server.terminate()
        assert server.returncode == 0, server.returncode
        return [json.loads(text)["choices"][0]["text"] for _, text in answers], *graphs
    texts, graph, times = serve(*backend)
    plain_texts, plain_graph, plain_times = serve()
    assert texts == plain_texts and all(texts), (texts, plain_texts)
    assert graph[0] == 200 and "backend plain: hands every step back" in html.unescape(graph[1]).replace("\xa0", " ") and "backend plain" not in plain_graph[1], graph
    assert times[0] == 400 and "profile looks at the built-in kernels, not at backend plain" in times[1] and plain_times[0] == 200, times

    # Types and plugins: a model is converted and read as the page says.
    plugin = pathlib.Path(temp, "dtypes.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-DDTYPES_PLUGIN", "-Wall", "-Wextra", "-Werror", f"-I{source}/include",
                    f"-I{build}/include", source / "examples/dtypes.c", "-o", plugin, "-lm"], check=True)
    plugin.chmod(0o755)
    narrow, f32 = pathlib.Path(temp, "nf4.gguf"), pathlib.Path(temp, "f32.gguf")

    def reprise(*arguments, **variables):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, env={**os.environ, "REPRISE_DEVICE": "cpu", **variables})
        return (done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr)

    def reply(model, *more, **variables):
        return reprise("generate", "-m", model, "-n", "8", "-q", "-t", "1", "-p", "a", *more, **variables)
    ok, said = reprise("quantize", source / "tests/golden/tiny/llama-f32.gguf", narrow, "--type", "nf4", "--plugin", plugin)
    assert ok, said
    ok, said = reprise("quantize", narrow, f32, "--type", "F32", "--plugin", plugin)
    assert ok, said
    ok, said = reply(narrow)
    assert not ok and "is of the unknown type 20001" in said, said
    wanted = reply(f32)
    for given in (reply(narrow, "--plugin", plugin), reply(narrow, REPRISE_PLUGINS=f":{plugin}:{plugin}")):
        assert given == wanted and given[0], (given, wanted)
    for said, text in ((reply(f32, "--plugin", "none.so"), "plugin './none.so': the file cannot be opened: No such file or directory"),
                       (reply(f32, "--plugin", "x" * 5000), "the path of a plugin is too long"),
                       (reply(f32, "--plugin", plugin, "--manifest", f"{temp}/m.json"), "--manifest describes what is built in only, not plugins"),
                       (reprise("quantize", narrow, plugin, "--type", "F32", "--plugin", plugin), "an output must not be an input")):
        assert not said[0] and text in said[1], said
print(f"{len(programs)} programs and {len(backends)} backend of docs/extend.md")
