"""`reprise chat` with a template in Jinja: its commands, tools, files, reasoning, messages of several lines, the terminal.

    test_chat.py PROGRAM SOURCE_DIR

The model is tests/golden/hf_text with other words in its vocabulary: one token is two whole tool calls, which a bias on its
logit makes the reply. The reply after it is text, as a penalty on recent tokens is larger than the bias.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import termios
import time

from cli_program import PROGRAM, SOURCE, TINY, TMP, Terminal, expect, expect_refusal, ok, run, run_tests, temporary, wait_until, wait_until_read

CALLS = '<tool_call>{"name": "f", "arguments": {"a": "b"}}</tool_call><tool_call>{"name": "g", "arguments": {}}</tool_call>'
BROKEN = '<tool_call>{"name": "f", "arguments": {"a": </tool_call>'
SOURCE_OF_TEMPLATE = """{% for t in tools or [] %}({{ t.function.name }}){% endfor %}{% for m in messages -%}
{% if 'refused' in m.content %}{{ raise_exception('no such word') }}{% endif %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>{% endif %}{% endif %}{# </think> #}
"""
WITHOUT_TOOLS = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


def make_model():
    folder = os.path.join(TMP.name, "model")
    shutil.copytree(os.path.join(SOURCE, "tests/golden/hf_text"), folder)
    for name in ("config.json", "tokenizer.json"):
        with open(os.path.join(folder, name)) as f:
            content = json.load(f)
        if name == "config.json":
            content["max_position_embeddings"] = 1024
        else:
            content["added_tokens"][3]["content"] = CALLS  # 659
            content["added_tokens"][4]["content"] = BROKEN  # 660
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f)
    return folder


MODEL = make_model()
TEMPLATE = temporary("template.jinja", SOURCE_OF_TEMPLATE.encode())
TOOLS = temporary("tools.json", b'[{"name": "f"}, {"name": "g"}]')
CALLING = ["--tools", TOOLS, "--logit-bias", "659+50", "--presence-penalty", "80"]


def path(name):
    return os.path.join(TMP.name, name)


def options(*more, template=TEMPLATE, n=4):
    return ["chat", MODEL, "--template", template, "-n", str(n), *more]


def chat(lines, *more, **settings):
    return ok(run(*options("-q", *more, **settings), stdin="".join(line + "\n" for line in lines).encode()))


def saved(name="saved.json"):
    with open(path(name)) as f:
        return json.load(f)


def messages_after(lines, *more, **settings):
    if os.path.exists(path("saved.json")):
        os.remove(path("saved.json"))
    r = chat([*lines, f"/save {path('saved.json')}"], *more, **settings)
    return r, [(m["role"], m["content"]) for m in saved()["messages"]]


def reply_to(messages, *more):
    """What `reprise generate` replies to these messages."""
    request = temporary("request.json", json.dumps(messages).encode())
    r = ok(run("generate", MODEL, "--messages", request, "--template", TEMPLATE, "-n", "4", "--events", *more))
    return "".join(e["text"] for e in map(json.loads, r.out.splitlines()) if e["event"] == "text")


def test_replies_are_those_of_whole_requests():
    r, all_messages = messages_after(["Hi", "More"], "--system", "S")
    expect([role for role, _ in all_messages] == ["system", "user", "assistant", "user", "assistant"], "roles", all_messages)
    as_json = [{"role": role, "content": text} for role, text in all_messages]
    for i in (2, 4):
        expect(all_messages[i][1] == reply_to(as_json[:i]) != "", "the reply", (i, all_messages))
    expect(r.text.replace("\n", "") == "".join(all_messages[i][1] for i in (2, 4)).replace("\n", ""), "it is printed", r)


def test_the_context_is_kept_from_turn_to_turn():
    def prompt_tokens(messages):
        request = temporary("request.json", json.dumps(messages).encode())
        err = ok(run("generate", MODEL, "--messages", request, "--template", TEMPLATE, "-n", "1")).err
        return int(re.search(r"prefill .* ms +(\d+) tokens", err)[1])
    r, sent = messages_after(["Hi", "More", "/reset", "Hi", "More"], "--stats")
    read = [int(n) for n in re.findall(r"prefill .* ms +(\d+) tokens", r.err)]
    as_json = [{"role": role, "content": text} for role, text in sent]
    first, second = prompt_tokens(as_json[:1]), prompt_tokens(as_json[:3])
    expect(read[0] == read[2] == first, "the first prompt", (read, first))
    expect(read[1] == read[3] <= second - first, "it is not read again", (read, second))


def test_another_reply():
    r, greedy = messages_after(["Hi", "/regen"])
    expect("[the temperature is 0: the reply will be the same]" in r.err, "a notice", r)
    expect(len(greedy) == 2 and r.text == 2 * (greedy[1][1].rstrip("\n") + "\n"), "the same", r)
    r, other = messages_after(["Hi", "/regen"], "--temp", "1", "--seed", "3")
    replies = r.text.splitlines()
    expect(len(other) == 2 and "temperature" not in r.err, "one reply is kept", r)
    expect(replies[0] != replies[1] and other[1][1].splitlines()[-1] == replies[-1], "another one, which is kept", (r, other))
    r, edited = messages_after(["Hi", "Two", "/edit More of it"])
    expect([t for role, t in edited if role == "user"] == ["Hi", "More of it"], "the last message is replaced", edited)
    as_json = [{"role": role, "content": text} for role, text in edited]
    expect(edited[3][1] == reply_to(as_json[:3]), "and answered", edited)
    r, left = messages_after(["Hi", "Two", "/undo"])
    expect([t for role, t in left if role == "user"] == ["Hi"] and len(left) == 2, "the last is taken back", left)
    expect("[the message was taken back]" in r.err, "a notice", r)


def test_wrong_commands_change_nothing():
    r, kept = messages_after(["/regen", "/edit a", "/undo", "Hi", "/nope", "/reset it", "/edit", "/think", "/think it", "/save", "/resume",
                              "refused", "/edit refused"])
    for text in ("/nope is none of the commands; /help lists them", "/reset it is none of the commands", "/edit needs TEXT", "/save needs FILE",
                 "/resume needs FILE", "/think needs on|off|hide", "/think is followed by on, off or hide, not by 'it'"):
        expect(text in r.err, text, r)
    expect(r.err.count("reprise: there is no message yet\n") == 3, "before the first message", r)
    expect(r.err.count("the template refuses the conversation: no such word") == 2, "the template", r)
    expect([role for role, _ in kept] == ["user", "assistant"] and kept[0][1] == "Hi", "the conversation is kept", kept)
    shown = chat(["/help"]).err
    for name in "reset system regen edit undo tools think save resume help quit".split():
        expect(f"  /{name} " in shown, name, shown)


def test_messages_of_several_lines():
    r, sent = messages_after(["one\\", "two\\", "", '"""', "/reset", "", "a\\", '"""', '"""', '"""', "/edit three\\", "four"])
    expect([t for role, t in sent if role == "user"] == ["one\ntwo\n", "three\nfour"], "joined", sent)
    r, sent = messages_after([], "--system", "S")
    expect(sent == [("system", "S")], "only the system message", sent)
    r = chat(["Hi", '"""', "not sent"])
    expect('the message that began with """ has no end: it was not sent' in r.err and len(r.text.splitlines()) == 1, "no end", r)
    r = ok(run(*options("-q", "--stats"), stdin=b'A\xff\nB\0\\\nC\n"""\nD\0\n"""\nE\\'))
    expect("this message is not UTF-8: it was not sent" in r.err and r.err.count("NUL byte") == 2, "bytes", r)
    expect(r.err.count("prefill ") == 1, "one message of four is sent", r)


# ---- tools ----


def test_calls_are_shown_and_their_results_asked_for():
    results = ['{"x": \\', "1}", "/etc"]
    r, sent = messages_after(["Hi", *results], *CALLING, n=1)
    expect(r.text.startswith('f({"a": "b"})\ng({})\n'), "readable", r)
    roles = [role for role, _ in sent]
    expect(roles == ["user", "assistant", "tool", "tool", "assistant"], "two results, then a reply", sent)
    m = saved()["messages"]
    calls = m[1]["tool_calls"]
    expect([c["function"] for c in calls] == [{"name": "f", "arguments": '{"a": "b"}'}, {"name": "g", "arguments": "{}"}], "calls", calls)
    expect(calls[0]["id"] != calls[1]["id"] and [x["tool_call_id"] for x in m[2:4]] == [c["id"] for c in calls], "ids", m)
    expect([(x["name"], x["content"]) for x in m[2:4]] == [("f", '{"x": \n1}'), ("g", "/etc")], "results", m)
    expect(saved()["tools"] == [{"name": "f"}, {"name": "g"}], "tools", saved())
    # Another conversation with the same calls has other ids, and so has one that goes on.
    r, _ = messages_after(["Ho", *results], *CALLING, n=1)
    expect(saved()["messages"][1]["tool_calls"][0]["id"] != calls[0]["id"], "other ids")
    # The file is one of `generate`, and the chat goes on with it.
    file = temporary("calls.json", json.dumps({"messages": m[:4], "tools": saved()["tools"]}).encode())
    last = ok(run("generate", MODEL, "--messages", file, "--template", TEMPLATE, "-n", "4", "-q")).text
    expect(chat(["/regen"], "--resume", file).text == last, "the reply to the results", last)


def test_a_call_without_a_result():
    before = ["Hi", "1", "2"]
    once = [*CALLING[:4], "--presence-penalty", "0"]  # each reply is a call
    r, sent = messages_after(["Hi", "1", "/undo", "/reset"], *once, n=1)
    expect("[the conversation is as it was before]" in r.err and sent == [], "/undo", r)
    r, sent = messages_after(["Hi", "1", "2", "3", "/undo", "/regen", "/undo"], *once, "--resume", temporary("hi.json", b'[{"role": "user", "content": "Hi"}]'), n=1)
    expect(r.err.count("[the conversation is as it was before]") == 2 and sent == [("user", "Hi")], "/undo behind /regen", (r, sent))
    r = chat([*before, "A\0", "/quit", f"/save {path('never.json')}"], *once, n=1)
    expect(r.err.count("NUL byte") == 1 and not os.path.exists(path("never.json")), "/quit", r)
    expect(r.text.count("f(") == 2, "two replies", r)
    ok(run(*options("-q", *once, n=1), stdin=b"Hi\n1\n"))  # the input ends at a prompt
    r, sent = messages_after(["Hi"], "--tools", TOOLS, "--logit-bias", "660+50", n=1)
    expect(sent[1] == ("assistant", BROKEN) and "tool_calls" not in saved()["messages"][1], "a broken call is text", sent)
    expect(r.text.endswith(f"(malformed call) {BROKEN}\n"), "and shown", r)


def test_tools_of_files():
    bad, word, twice = (temporary(f"{name}.json", text) for name, text in
                        (("bad", b"["), ("word", b'{"name": "f"}'), ("twice", b'[{"name": "f"}, {"name": "f"}]')))
    r = chat([f"/tools {TOOLS}  ", f"/tools {bad}", f"/tools {word}", f"/tools {twice}", "/tools -", f"/save {path('saved.json')}", "/tools"])
    expect(f"{bad}: line 1: " in r.err and f"{word}: tools must be an array" in r.err, "refusals", r)
    expect(f'{twice}: tools[1]: there are two tools "f"' in r.err, "the library's refusal", r)
    expect("-: standard input has the messages, so that no file can come from there" in r.err, "standard input", r)
    expect("[2 tools]\n" in r.err and r.err.endswith("[0 tools]\n"), "how many", r)
    expect(len(saved()["tools"]) == 2, "the old ones stayed", saved())
    plain = temporary("plain.jinja", WITHOUT_TOOLS.encode())
    r = chat([f"/tools {TOOLS}", "Hi"], template=plain)
    expect("the chat template has no tools: a message describes them" in r.err and r.text != "", "a template without tools", r)
    expect_refusal(run(*options("--tools", twice)), 1, "there are two tools")


# ---- files ----


def test_a_conversation_is_saved_and_resumed():
    _, sent = messages_after(["Hi", "More"], "--temp", "0.7")
    shutil.copy(path("saved.json"), path("first.json"))
    r, again = messages_after(["On"], "--resume", path("first.json"))
    expect(again[:4] == sent and len(again) == 6, "it goes on", again)
    expect(again[5][1] == reply_to([{"role": role, "content": text} for role, text in again[:5]]), "the reply", again)
    r, same = messages_after(["Hi", f"/resume {path('first.json')}", "On"])
    expect(same == again and "[4 messages and 0 tools]" in r.err, "/resume", r)
    array = temporary("array.json", json.dumps([{"role": "user", "content": "Hi"}]).encode())
    _, answered = messages_after([f"/resume {array}", "/regen"])
    expect(len(answered) == 2 and answered[1][1] == reply_to([{"role": "user", "content": "Hi"}]), "an array without a reply", answered)
    expect(ok(run("generate", MODEL, "--messages", path("first.json"), "--template", TEMPLATE, "-n", "1", "-q")).out != b"", "generate")
    r = chat([f"/save {path('first.json')}", f"/resume {path('first.json')}"])
    expect("[0 messages saved]" in r.err and "[0 messages and 0 tools]" in r.err, "it is replaced", r)
    expect(os.listdir(TMP.name) == [f for f in os.listdir(TMP.name) if not f.startswith(".reprise")], "no temporary file is left")


def test_a_context_is_saved_and_goes_on_at_once():
    kept = path("saved.context")
    r = chat(["Hi", "More", "/save " + path("plain.json")], "--save", kept, "--stats")
    with open(path("plain.json"), encoding="utf-8") as f:
        before = json.load(f)["messages"]
    again, sent = messages_after([f"/resume {kept}", "On"], "--stats")
    expect(re.search(r"\[4 messages and 0 tools, \d+ tokens in the context\]", again.err), "what was restored", again)
    computed, same = messages_after(["On"], "--resume", path("plain.json"), "--stats")
    expect([list(m) for m in sent] == [list(m) for m in same] and len(sent) == len(before) + 2, "the same reply", (sent, same))
    n = [int(re.search(r"prefill.* (\d+) tokens? ", x.err).group(1)) for x in (again, computed)]
    expect(n[0] < n[1] / 2, "tokens that are computed again", (n, again, computed))
    ok(run(*options("-q", "--resume", kept, "--save", kept), stdin=b"On\n"))
    r = chat([f"/resume {kept}"])
    expect("[6 messages and 0 tools, " in r.err, "a file that is resumed and saved", r)
    other = path("other.context")
    shutil.copy(TINY, other)
    expect_refusal(run(*options("--save", path("x.context"), "--parse-special")), 1, "--tools, --resume, --save, --reasoning-budget and")
    expect_refusal(run(*options("--save", other)), 1, f"{other}: the file is no context: it was not replaced")
    missing = "a temporary file in its folder: No such file or directory"
    for name, why in (("nosuch/x.context", missing), ("nosuch/x.json", missing), ("saved.context/x.json", "Not a directory"), ("", "is a folder")):
        expect_refusal(run(*options("--save", path(name)), stdin=b"Hi\n"), 1, f"{path(name)}: {why}")
    r = chat(["Hi", f"/save {other}"])
    expect(f"{other}: the file is no context: it was not replaced" in r.err, "a model", r)
    with open(kept, "rb") as f:
        damaged = bytearray(f.read())
    damaged[damaged.find(b"assistant")] ^= 1
    bad = temporary("bad.context", bytes(damaged))
    expect_refusal(run(*options("--resume", bad)), 1, "the metadata are damaged: their checksum is")
    r = chat([f"/resume {other}", f"/resume {bad}", "/resume " + kept])
    expect("other.context: the file is no context" in r.err and r.err.endswith(" tokens in the context]\n"), "/resume", r)


def test_a_bad_file_is_refused_with_its_reason():
    def file(name, value):
        return temporary(name, json.dumps(value).encode())
    cases = {
        temporary("b1.json", b'{"messages": ['): "b1.json: line 1: ",
        file("b2.json", 3): "b2.json: line 1: ",
        file("b3.json", {"tools": []}): "b3.json: the request has no array of messages",
        file("b4.json", [{"content": "Hi"}]): "b4.json: messages[0] has no role",
        file("b5.json", [{"role": "user", "content": "refused"}]): "the template refuses the conversation: no such word",
        file("b6.json", {"messages": [], "tools": 3}): "b6.json: tools must be an array",
        path("nowhere.json"): "nowhere.json: No such file or directory",
        "-": "-: standard input has the messages",
    }
    r, kept = messages_after(["Hi", *(f"/resume {p}" for p in cases)])
    for p, text in cases.items():
        expect(text in r.err, text, r)
        expect_refusal(run(*options("--resume", p)), 1, text)
    expect([role for role, _ in kept] == ["user", "assistant"], "the conversation is kept", kept)
    model = path("model.gguf")
    shutil.copy(TINY, model)
    other = file("other.json", {"a": 1})
    r = chat(["Hi", f"/save {model}", f"/save {other}", f"/save {TMP.name}", f"/save {path('none/x.json')}", "/save -"])
    for p in (model, other):
        expect(f"{p}: the file is no conversation: it was not replaced" in r.err, p, r)
    expect(r.err.count("reprise: ") == 4 and '"role": "user"' in r.text, "a folder, no folder, standard output", r)
    with open(model, "rb") as a, open(TINY, "rb") as b:
        expect(a.read() == b.read(), "the model is as before")
    expect_refusal(run(*options("--resume", other, "--system", "S")), 2, "--system and --resume exclude each other")


# ---- guesses ----

LONG = "Tell me of the sea, of the ships on the sea, of the men in the ships on the sea, and of the sea again."


def test_guesses_do_not_change_a_conversation():
    lines, how = [LONG, "More", "/regen", "/edit Other", "/undo", LONG], ["--temp", "0.7", "--seed", "4", "--repeat-penalty", "1.2"]
    plain, want = messages_after(lines, *how, n=12)
    for guesses in (["--lookup", "4"], ["--draft", MODEL], ["--draft", MODEL, "--draft-tokens", "1"]):
        r, sent = messages_after(lines, *how, "--stats", *guesses, n=12)
        expect(r.out == plain.out and sent == want, f"the same with {guesses}", (r, plain))
        expect(len(re.findall(r"^guesses  \d+ of \d+ were right$", r.err, re.M)) == 5 and "load " not in r.err, "the reports", r)
        read = [int(n) for n in re.findall(r"^prefill .* (\d+) tokens", r.err, re.M)]
        expect(len(read) == 5 and read[0] > 32 >= max(read[2:4]), "/regen and /edit find the blocks of the prompt in the cache", read)
    right, guessed = map(int, re.search(r"guesses  (\d+) of (\d+)", chat([LONG], "--stats", "--draft", MODEL, n=12).err).groups())
    expect(0 < right == guessed, "a model guesses itself", (right, guessed))
    for more in (["--no-template"], ["--template", "chatml"]):
        command, text = ["chat", MODEL, "-q", "-n", "12", *more, *how], "".join(line + "\n" for line in [LONG, "More", "/reset", LONG]).encode()
        expect(ok(run(*command, "--lookup", "4", stdin=text)).out == ok(run(*command, stdin=text)).out != b"", f"without a dialogue: {more}")
    calls = chat(["Hi", "1", "2", "On"], *CALLING), chat(["Hi", "1", "2", "On"], *CALLING, "--lookup", "4")
    expect(calls[0].out == calls[1].out and "f(" in calls[0].text, "tool calls", calls)
    expect_refusal(run(*options("--lookup", "2", "--mode", "eager")), 2, "--lookup and --draft do not go with --mode")
    expect_refusal(run(*options("--lookup", "2", "--draft", MODEL)), 2, "--lookup and --draft exclude each other")
    expect_refusal(run(*options("--draft", TINY)), 1, "the draft model has another vocabulary")


def test_a_model_guesses_by_its_own_layer_in_a_conversation():
    model = os.path.join(SOURCE, "tests/golden/tiny/qwen35-mix.gguf")
    command = ["chat", model, "--no-template", "-n", "24", "--temp", "0.9", "--seed", "3", "--stats"]
    guessed, plain = (run(*command, *more, stdin=b"abcab\nabcab\n") for more in ([], ["--no-mtp"]))
    expect(guessed.out == plain.out != b"" and len(re.findall("guesses  [0-9]+ of [0-9]+ were right", guessed.err)) == 2, "the same", (guessed, plain))
    expect("guesses" not in plain.err, "none", plain)


def test_guesses_do_not_change_a_conversation_of_a_recurrent_model():
    """Its session goes back further than to what the turns have in common, and the sampler must not count that twice."""
    model, template = os.path.join(SOURCE, "tests/golden/tiny/qwen35-mix.gguf"), temporary("plain.jinja", WITHOUT_TOOLS.encode())
    command = ["chat", model, "-q", "--template", template, "-n", "24", "--temp", "0.7", "--seed", "5", "--frequency-penalty", "0.6", "--repeat-last-n", "256"]
    lines = "".join(line + "\n" for line in ["abcab " * 12, "More", "/regen", "/edit other", "/undo", "On"]).encode()
    plain = ok(run(*command, "--no-mtp", stdin=lines))
    for more in ([], ["--no-mtp", "--lookup", "6"]):
        manifest = path("recurrent.json")
        expect(ok(run(*command, *more, "--manifest", manifest, stdin=lines)).out == plain.out != b"", f"the same with {more}")
        expect(ok(run("repeat", manifest, "-q")).text.startswith("equal: "), f"repeated with {more}")


FAILING = """#include "reprise/backend.h"
#include <stdlib.h>
static const RpBackendHost *host;
static int runs;
static RpStatus open_it(const RpBackendHost *h, RpBackendPlan *plan, void **self) { return (void)plan, host = h, *self = &runs, RP_OK; }
static RpStatus run(void *self, RpBackendPlan *plan) {
    if (++*(int *)self == atoi(getenv("FAIL_AT"))) return host->fail(RP_E_UNSUPPORTED, "this run fails");
    return host->run_steps(plan, 0, host->n_steps(plan));
}
static const char *describe(void *self) { return (void)self, "hands all back, but one"; }
static const RpBackend backend = {.bytes = sizeof backend, .abi = RP_BACKEND_ABI, .name = "failing", .open = open_it, .run = run, .describe = describe};
__attribute__((visibility("default"))) const RpBackend *rp_backend(void) { return &backend; }
"""


def test_a_step_that_fails_leaves_nothing_in_the_engine():
    compiler = shutil.which("cc")
    if compiler is None:
        return "no compiler"
    source, backend = temporary("failing.c", FAILING.encode()), path("failing.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-I", os.path.join(SOURCE, "include"), "-I", os.path.join(os.path.dirname(PROGRAM), "include"),
                    source, "-o", backend], check=True)
    lines = "".join(line + "\n" for line in [LONG, "Second", "Third"]).encode()
    plain = ok(run(*options("-q", n=8), stdin=lines.split(b"\n", 1)[1]))
    for at in "1", "4":
        r = run(*options("-q", "--backend", backend, "--lookup", "4", n=8), stdin=lines, FAIL_AT=at)
        expect("this run fails" in r.err and r.out.endswith(plain.out), f"after run {at} has failed", (r, plain))


def test_a_context_with_guesses_is_saved_and_goes_on_at_once():
    kept, lookup = path("guessed.context"), ["--lookup", "4", "--stats"]
    _, sent = messages_after([LONG, "More", f"/save {kept}"], *lookup, n=12)
    shutil.copy(path("saved.json"), path("first.json"))
    want = messages_after(["On"], "--resume", path("first.json"), n=12)[1]
    for more in (lookup, ["--stats"]):
        r, after = messages_after([f"/resume {kept}", "On"], *more, n=12)
        n = re.search(r"\[4 messages and 0 tools, (\d+) tokens in the context\]", r.err)
        expect(n and int(n[1]) > 0 and int(n[1]) % 32 == 0 and after == want and after[:4] == sent, f"it goes on with {more}", (r, after, want))
        expect(int(re.search(r"prefill .* (\d+) tokens", r.err)[1]) < 64, "what is computed again", r)
    ok(run(*options("-q", "--resume", kept, "--save", kept, n=12), stdin=b"On\n"))
    r, after = messages_after([f"/resume {kept}"], *lookup)
    n = re.search(r"(\d+) of (\d+) tokens in the context: the others are computed again\]", r.err)
    expect(after == want and n and int(n[2]) - 32 < int(n[1]) < int(n[2]) and int(n[1]) % 32 == 0, "the file of a session", (r, after))
    how = ["--resume", kept, "--repeat-penalty", "1.3", "--temp", "0.7", "--seed", "5"]
    expect(messages_after(["On", LONG], *how, *lookup, n=12)[1] == messages_after(["On", LONG], *how, n=12)[1], "penalties behind it")
    chat(["Hi", f"/save {kept}"], *lookup)
    r = chat([f"/resume {kept}"], *lookup)
    expect("[2 messages and 0 tools]\n" in r.err, "a text of less than a block", r)


# ---- reasoning ----


def test_reasoning():
    think = ["/think on", "Hi"]
    given = ["--reasoning-budget", "3"]
    r, sent = messages_after(think, *given, n=24)
    m = saved()["messages"][1]
    expect(m["reasoning_content"] != "" and m["content"] != "" and saved()["enable_thinking"] is True, "both are kept", m)
    expect(r.text.strip() == m["content"].strip() and "reasoning" not in r.err, "it is left out in a pipe", r)
    shown = chat(think, *given, "--show-reasoning", n=24)
    expect(shown.out == r.out and f"(reasoning) {m['reasoning_content']}" in shown.err, "on standard error", shown)
    hidden = chat(["/think hide", "Hi"], *given, "--show-reasoning", n=24)
    expect(hidden.out == r.out and re.search(r"^thought for \d+ tokens$", hidden.err, re.M) and "(reasoning)" not in hidden.err, "hidden", hidden)
    off = chat(["/think on", "/think off", "Hi"], "--show-reasoning")
    expect(off.out == chat(["Hi"]).out and off.err.count("reasoning") == 0, "off", off)
    plain = temporary("plain.jinja", WITHOUT_TOOLS.encode())
    r = chat(["Hi"], *given, template=plain)
    expect("a budget of 3 tokens for reasoning, which this model does not write" in r.err, "a model without reasoning", r)


def test_reasoning_before_calls():
    closing = json.loads(ok(run("tokenize", MODEL, "-p", "</think>", "--ids", "--json")).out)
    calls_twice = ["--tools", TOOLS, "--logit-bias", "659+50", "--frequency-penalty", "30"]  # the first is reasoning
    r, sent = messages_after(["/think on", "Hi", "1", "2"], *calls_twice, "--reasoning-budget", "1", n=len(closing) + 2)
    m = saved()["messages"]
    expect([role for role, _ in sent] == ["user", "assistant", "tool", "tool", "assistant"] and sent[1][1] == "", "calls", m)
    expect(m[1]["thinking"] == m[1]["reasoning_content"] == CALLS and len(m[1]["tool_calls"]) == 2, "as gpt-oss takes it, too", m)
    expect("thinking" not in m[4] and m[4]["reasoning_content"] != "", "not without calls", m)


# ---- plain formats ----


def test_plain_formats_have_no_dialogue():
    for more in (["--template", "chatml"], ["--no-template"], ["--template", TEMPLATE, "--parse-special"]):
        plain = ["chat", MODEL, "-n", "2", "-q", *more]
        for extra in (["--tools", TOOLS], ["--resume", TOOLS], ["--show-reasoning"], ["--reasoning-budget", "3"]):
            expect_refusal(run(*plain, *extra), 1, "--tools, --resume, --save, --reasoning-budget and --show-reasoning need a chat template in Jinja, "
                           "and no --parse-special")
        names = ["/regen", "/edit", "/undo", "/tools", "/think", "/save", "/resume"]
        r = ok(run(*plain, stdin="".join(f"{name}\n" for name in names).encode() + b"/help\nA\\\nB\n"))
        for name in names:
            expect(f"{name} needs a chat template in Jinja, and no --parse-special" in r.err, name, r)
        expect(r.err.count("/save") == 1 and "/system" in r.err and r.text.strip() != "", "/help lists what there is", r)


# ---- the terminal ----


def wait_for_the_editor(t):
    """The line editor takes control of the terminal after it has printed the prompt."""
    with open(PROGRAM, "rb") as f:
        has_editor = re.search(rb"libedit|\.editrc", f.read())
    if has_editor:
        wait_until(lambda: not termios.tcgetattr(t.fd)[3] & termios.ICANON, "the line editor")
    return has_editor


def send(t, prompt, line):
    t.wait_for(prompt)
    has_editor = wait_for_the_editor(t)
    t.write(line)
    return has_editor


def interrupt(t):
    """Ctrl-C at the prompt. In a build with the thread sanitizer, which delays signals, the first ones can get lost before the editor reads."""
    send(t, b"> ", b"\x03")
    with open(PROGRAM, "rb") as f:
        again = 6 if b"__tsan_init" in f.read() else 0
    for _ in range(again):
        time.sleep(0.5)
        t.write(b"\x03")


def test_signals_do_not_lose_the_conversation():
    out = path("by_signal.json")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        p = subprocess.Popen([PROGRAM, *options("-q", "--save", out)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, env={**os.environ, "REPRISE_DEVICE": "cpu", "REPRISE_THREADS": "1"})
        p.stdin.write(b"Hi\n")
        p.stdin.flush()
        wait_until_read(p)  # one thread: it does not sleep while the reply is computed
        p.send_signal(number)
        err = p.communicate()[1]
        expect(p.returncode == 128 + number and b"reprise:" not in err, "the status of the signal", (p.returncode, err))
        with open(out) as f:
            roles = [m["role"] for m in json.load(f)["messages"]]
        expect(roles == ["user", "assistant"], "the conversation is saved", (number, roles))
        os.remove(out)
    for typed in (b"", b"some words"):
        t = Terminal(*options("--save", out, n=1))
        send(t, b"> ", b"Hi\n")
        t.wait_for(b"tok/s")
        send(t, b"> ", typed + b"\x03")
        code, text = t.finish()
        expect(code == 130 and t.same_settings and os.path.exists(out), "Ctrl-C at the prompt", (code, text))
        with open(out) as f:
            expect(len(json.load(f)["messages"]) == 2, "the unfinished line is no message", text)
        os.remove(out)


def test_an_input_that_cannot_be_read():
    folder = os.open(SOURCE, os.O_RDONLY)
    p = subprocess.run([PROGRAM, *options("-q")], stdin=folder, capture_output=True, env={**os.environ, "REPRISE_DEVICE": "cpu"})
    os.close(folder)
    expect((p.returncode, p.stderr) == (1, b"reprise: standard input: Is a directory\n"), "it is named", p)


def test_the_terminal():
    t = Terminal(*options(*CALLING, n=1))
    send(t, b"> ", b"Hi\n")
    shown = t.wait_for(b"1 token, 0.0 tok/s")
    expect(b'\x1b[1mf\x1b[0m({"a": "b"})' in shown and b"\x1b[2m" in shown[-30:], "a call, then the speed", shown)
    send(t, b"tool f> ", b"1\\\n")
    send(t, b"... ", b"2\n")
    send(t, b"tool g> ", b"3\n")
    t.wait_for(b"tok/s")
    has_editor = send(t, b"> ", b"/he\t\n")
    if has_editor:
        expect(b"/quit" in t.wait_for(b"/quit"), "/help is completed")
    interrupt(t)
    code, _ = t.finish()
    expect(code == -signal.SIGINT and t.same_settings, "Ctrl-C at the prompt ends it", code)


def test_reasoning_on_a_terminal():
    for settings, mark in (({}, b"\x1b[2m"), ({"NO_COLOR": "1"}, b"(reasoning) ")):
        t = Terminal(*options("--reasoning-budget", "3", n=24), **settings)
        send(t, b"> ", b"/think on\n")
        send(t, b"> ", b"Hi\n")
        shown = t.wait_for(b"tok/s")
        expect(mark in shown and (b"\x1b[0m" in shown or settings), "dimmed, or marked", shown)
        send(t, b"> ", b"/quit\n")
        code, _ = t.finish()
        expect(code == 0, "exit 0", code)
    t = Terminal(*options("-q", n=2))
    send(t, b"> ", b"Hi\n")
    expect(b"tok/s" not in t.wait_for(b"> "), "no speed with -q")
    t.write(b"/quit\n")
    t.finish()


run_tests(globals())
