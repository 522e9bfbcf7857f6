"""The chat page in headless Chromium: messages, answers, tool calls, errors, settings, conversations; and the tests of
test_look.py and test_markdown.py.

    test_page.py [-k NAME]       exit status 77 without chromium, chromedriver or selenium
"""
import json
import pathlib
import tempfile
import threading

from mock_server import CUT, DONE, PING, call, chunk, delta, failure, finish, plain, usage
from page_case import Keys, PageCase, main
from test_look import Look  # noqa: F401, one process and one browser for all
from test_markdown import Markdown  # noqa: F401

ANSWER = ".answer > .text"


class Answers(PageCase):
    def test_an_answer_streams(self):
        begin, middle = threading.Event(), threading.Event()
        self.server.answers = [[PING, begin, delta(role="assistant", content=""), delta(content="Hel"), middle, delta(content="lo *you*"),
                                finish("stop"), usage(1234, 5, 1000), DONE]]
        self.send("Hi")
        self.wait(lambda: self.text(".waiting") == "Waiting for the first token", "the page says that it waits")
        begin.set()
        self.wait(lambda: self.text(ANSWER) == "Hel", "the first piece")
        answer = self.one(ANSWER)
        self.assertEqual([answer.get_attribute("aria-live"), answer.get_attribute("aria-busy")], ["polite", "true"])
        self.assertFalse(self.one(".answer .text").find_elements("css selector", "em"))
        middle.set()
        self.finished()
        self.assertEqual(self.text(ANSWER), "Hello you")
        self.assertEqual(answer.get_attribute("aria-busy"), "false")
        self.assertEqual(self.js("return document.getElementById('status').textContent"), "The answer is complete")
        self.assertRegex(self.text(".counts"),
                         r"^5 tokens · [\d.]+ tok/s · prompt 1234 \(1000 cached\) · first token after \d\.\d\d s$")
        request = self.server.requests[0]
        self.assertEqual(self.roles(), [("user", "Hi")])
        self.assertEqual({key: value for key, value in request.items() if key != "messages"},
                         {"model": "mock-8b", "stream": True, "stream_options": {"include_usage": True}})

    def test_the_rate_is_that_of_the_server(self):
        end = chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}], timings={"predicted_per_second": 59.843})
        self.server.answers = [[delta(content="A"), end, usage(3, 4), DONE]]
        self.ask("Hi")
        self.assertRegex(self.text(".counts"), r"^4 tokens · 59\.8 tok/s · prompt 3 · ")

    def test_events_may_come_in_pieces(self):
        stream = b"".join(plain("Grüße \U0001f44b")[:-1]).replace(b"\n", b"\r\n") + DONE
        stream = stream.replace(b"\\u00fc", "ü".encode())
        self.server.answers = [[stream[i:i + 1] for i in range(len(stream))]]
        self.ask("Hi")
        self.assertEqual(self.text(ANSWER), "Grüße \U0001f44b")

    def test_enter_sends_and_shift_enter_starts_a_line(self):
        self.one("#input").send_keys("a", Keys.SHIFT, Keys.ENTER, Keys.NULL, "b", Keys.ENTER)
        self.finished()
        self.assertEqual(self.roles(), [("user", "a\nb")])
        self.assertEqual(self.text(".bubble"), "a\nb")
        self.assertEqual(self.one("#input").get_attribute("value"), "")
        self.one("#input").send_keys("  ", Keys.ENTER)
        self.assertEqual(len(self.server.requests), 1, "an empty message is not sent")

    def test_stop_keeps_what_came(self):
        for n, stop in enumerate((lambda: self.click("#stop"), lambda: self.focused().send_keys(Keys.ESCAPE)), 1):
            with self.subTest(n):
                never = threading.Event()
                self.server.aborted.clear()
                self.server.answers = [[delta(content=f"Part {n}"), never, delta(content="unseen"), finish("stop"), DONE]]
                self.send("Go")
                self.wait(lambda: self.text(ANSWER) == f"Part {n}", "the first piece")
                self.one("#input").send_keys("draft", Keys.ENTER)
                self.assertEqual(self.one("#input").get_attribute("value"), "draft", "Enter does not send beside a running answer")
                self.one("#input").clear()
                stop()
                self.finished(n)
                self.assertTrue(self.server.aborted.wait(60), "the server sees that the page has gone")
                self.assertEqual([self.text(ANSWER), self.text(".counts"), self.text(".problem")], [f"Part {n}", "stopped", ""])
                never.set()
        self.driver.refresh()
        self.finished(2)
        self.assertEqual([self.text(ANSWER), self.text(".counts")], ["Part 2", "stopped"])
        self.ask("On", 3)
        self.assertEqual(self.roles()[-2:], [("assistant", "Part 2"), ("user", "On")])

    def test_a_message_is_edited(self):
        self.ask("One")
        self.ask("Two", 2)
        self.one(".user .icon[title='Edit message']").click()
        self.assertEqual(self.focused().get_attribute("value"), "One")
        self.focused().send_keys(" changed", Keys.ESCAPE)
        self.assertEqual(self.texts(".bubble")[0], "One", "Escape leaves the message as it was")
        self.one(".user .icon[title='Edit message']").click()
        self.focused().send_keys(" more", Keys.ENTER)
        self.wait(lambda: len(self.server.requests) == 3, "the edited message is sent")
        self.finished(1)
        self.assertEqual(self.roles(), [("user", "One more")])
        self.assertEqual(self.texts(".bubble"), ["One more"])
        self.assertEqual(self.text("#title"), "One more")

    def test_the_last_answer_is_regenerated(self):
        self.server.answers = [plain("First"), plain("Second"), plain("Third")]
        self.ask("One")
        self.ask("Two", 2)
        self.assertEqual([len(self.all("[aria-label='Answer again']")), len(self.shown("[aria-label='Answer again']"))], [2, 1], "only the last")
        self.click("[aria-label='Answer again']")
        self.wait(lambda: self.text(ANSWER) == "Third", "the new answer")
        self.finished(2)
        self.assertEqual(self.roles(), [("user", "One"), ("assistant", "First"), ("user", "Two")])

    def test_an_answer_that_broke_off_goes_on(self):
        never = threading.Event()
        self.server.answers = [plain("First"), [delta(reasoning_content="Hm"), delta(content="One, "), finish("length"), usage(3, 2), DONE],
                               [delta(content="two, "), never, DONE], [delta(content="three"), finish("stop"), usage(9, 1), DONE]]
        self.ask("Hi")
        self.assertFalse(self.shown(".go-on"), "an answer that is complete")
        self.ask("Count", 2)
        self.assertEqual(self.texts(".go-on"), ["Continue"])
        self.click(".go-on")
        self.wait(lambda: self.texts(ANSWER) == ["First", "One, two,"], "the answer grows")
        self.assertFalse(self.shown(".go-on"), "it runs")
        first = {"role": "assistant", "content": "First"}
        self.assertEqual(self.server.requests[-1]["messages"], [{"role": "user", "content": "Hi"}, first, {"role": "user", "content": "Count"}, {
            "role": "assistant", "content": "One, ", "reasoning_content": "Hm"}])
        self.assertIs(self.server.requests[-1]["continue_final_message"], True)
        self.click("#stop")
        self.finished(2)
        self.assertEqual(self.texts(".counts")[1], "stopped")
        self.click(".go-on")
        self.wait(lambda: self.texts(ANSWER) == ["First", "One, two, three"], "the whole answer")
        self.finished(2)
        self.assertEqual(self.roles()[-1], ("assistant", "One, two, "))
        self.assertFalse(self.shown(".go-on"), "it is complete")
        self.driver.refresh()
        self.wait(lambda: self.texts(ANSWER) == ["First", "One, two, three"], "it is kept")
        self.ask("On", 3)
        self.assertNotIn("continue_final_message", self.server.requests[-1])
        never.set()

    def test_reasoning_is_folded(self):
        thought, answered = threading.Event(), threading.Event()
        self.server.answers = [[delta(reasoning_content="Let me "), delta(reasoning_content="think"), thought, delta(content="Done"),
                                answered, finish("stop"), DONE], plain("More")]
        self.send("Hi")
        self.wait(lambda: self.text(".reasoning summary").startswith("Thinking for "), "the state while it runs")
        self.assertIsNone(self.one(".reasoning").get_attribute("open"))
        thought.set()
        self.wait(lambda: self.text(".reasoning summary").startswith("Thought for "), "the state when it ended")
        answered.set()
        self.finished()
        self.assertEqual(self.text(".answer"), self.text(".reasoning summary") + "\n\nDone")
        self.click(".reasoning summary")
        self.wait(lambda: self.text(".reasoning .text") == "Let me think", "the text of the reasoning")
        self.ask("On", 2)
        self.assertEqual(self.roles()[1], ("assistant", "Done"), "reasoning is not sent again")

    def test_tool_calls_come_in_pieces(self):
        gate = threading.Event()
        self.server.answers = [[call(0, "get_weather", "", "call_a"), call(0, arguments='{"city": "Par'), gate, call(0, arguments='is"}'),
                                call(1, "add", '{"x":1,', "call_b"), call(1, arguments='"y":[2,3]}'), finish("tool_calls"), DONE],
                               plain("Sunny, and 6")]
        self.send("Weather and sum?")
        names = lambda: [e.get_attribute("textContent") for e in self.all(".call summary")]
        self.wait(lambda: names() == ["Tool call get_weather…"], "the name of the first call")
        self.click(".call summary")
        self.wait(lambda: self.text(".call pre") == '{"city": "Par', "arguments that are not complete are shown as they are")
        gate.set()
        self.finished()
        self.assertEqual(names(), ["Tool call get_weather", "Tool call add"])
        self.assertEqual(self.texts(".call pre")[0], '{\n  "city": "Paris"\n}')
        self.assertEqual(self.all(".call")[1].get_attribute("open"), None)
        self.all(".call summary")[1].click()
        self.assertEqual(json.loads(self.text(".call pre")), {"x": 1, "y": [2, 3]})
        for field, result in zip(self.all(".result textarea"), ("sunny", "6")):
            field.send_keys(result)
        self.click(".answer > .primary")
        self.finished(2)
        self.assertEqual(self.text(ANSWER), "Sunny, and 6")
        calls = [{"id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}},
                 {"id": "call_b", "type": "function", "function": {"name": "add", "arguments": '{"x":1,"y":[2,3]}'}}]
        self.assertEqual(self.server.requests[1]["messages"],
                         [{"role": "user", "content": "Weather and sum?"}, {"role": "assistant", "content": "", "tool_calls": calls},
                          {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
                          {"role": "tool", "tool_call_id": "call_b", "content": "6"}])

    def test_copy_buttons(self):
        self.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        self.server.answers = [plain("A *text*\n\n```make\nall:\n\tcc -o a a.c\n```")]
        self.ask("Copy me")
        for api in (True, False):
            for button, text in ((".user [aria-label='Copy message']", "Copy me"),
                                 ("[aria-label='Copy answer']", "A *text*\n\n```make\nall:\n\tcc -o a a.c\n```"),
                                 ("[aria-label='Copy code (make)']", "all:\n\tcc -o a a.c")):
                with self.subTest(button, api=api):
                    self.run_async("await navigator.clipboard.writeText('before')")
                    # As for a page from another machine without HTTPS.
                    self.js("self.kept = navigator.clipboard; if (!arguments[0]) "
                            "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})", api)
                    self.js("document.getElementById('status').textContent = ''")
                    self.one(button).click()
                    self.wait(lambda: self.js("return document.getElementById('status').textContent") == "Copied", "it is copied")
                    self.assertEqual(self.run_async("return self.kept.readText()"), text)
                    self.js("delete navigator.clipboard")


class Errors(PageCase):
    def test_an_error_has_a_retry_button(self):
        for n, (answer, text) in enumerate(((failure("The model is busy."), "The model is busy."),
                                            (failure("max_tokens is too large", 400), "max_tokens is too large"),
                                            ((502, "<html>Bad gateway</html>"), "The server answers with status 502."),
                                            ((503, "Starting"), "Starting")), 1):
            with self.subTest(text):
                self.server.answers = [answer, plain(f"Answer {n}")]
                self.ask(f"Question {n}", n)
                self.assertEqual(self.text(".problem > span"), text)
                self.assertEqual(self.js("return document.getElementById('status').textContent"), text)
                self.click(".answer .problem button")
                self.wait(lambda: self.text(ANSWER) == f"Answer {n}", "the answer to the second try")
                self.finished(n)
                self.assertEqual(self.roles(-2), self.roles(-1))
                self.assertEqual(self.text(".problem"), "")

    def test_an_error_inside_an_answer_keeps_what_came(self):
        lost = "The connection was lost before the answer was complete."
        error = b'data: {"error":{"message":"out of memory","code":500}}\n\n'
        for name, steps, text in (("error event", [error], "out of memory"), ("no JSON", [b"data: {\n\n"], "The server sent an event that is not JSON."),
                                  ("cut", [CUT], lost), ("no finish_reason", [DONE], lost), ("no end", [], lost)):
            with self.subTest(name):
                seen = threading.Event()
                self.server.answers = [[delta(content="Kept"), seen, *steps], plain("Whole")]
                self.click("#new")
                self.send("Hi")
                self.wait(lambda: self.text(ANSWER) == "Kept", "the first piece")
                seen.set()
                self.finished()
                self.assertEqual([self.text(ANSWER), self.text(".problem > span")], ["Kept", text])
                if name == "cut":
                    self.driver.refresh()
                    self.finished()
                    self.assertEqual([self.text(ANSWER), self.text(".problem > span")], ["Kept", text], "after a reload")
                self.click(".answer .problem button")
                self.wait(lambda: self.text(ANSWER) == "Whole", "the answer to the second try")
                self.finished()

    def test_a_page_that_is_left_keeps_what_came(self):
        never = threading.Event()
        self.server.answers = [[delta(content="Half"), never], plain("Whole")]
        self.send("Hi")
        self.wait(lambda: self.text(ANSWER) == "Half", "the first piece")
        self.driver.refresh()
        self.finished()
        self.assertTrue(self.server.aborted.wait(60), "the server sees that the page has gone")
        never.set()
        self.assertEqual([self.text(ANSWER), self.text(".problem > span")], ["Half", "The connection was lost before the answer was complete."])
        self.click(".answer .problem button")
        self.wait(lambda: self.text(ANSWER) == "Whole", "the answer to the second try")
        self.finished()

    def test_a_server_that_is_gone(self):
        network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **network})
        self.ask("Hi")
        self.assertEqual(self.text(".problem > span"), "The server does not answer.")
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **network})
        self.click(".answer .problem button")
        self.wait(lambda: self.text(ANSWER) == "An answer.", "the answer to the second try")
        self.finished()

    def test_the_token_limit_is_named(self):
        self.server.answers = [[delta(content="A"), finish("length"), usage(3, 1), DONE]]
        self.ask("Hi")
        self.assertRegex(self.text(".counts"), r"^1 token · prompt 3 · first token after [\d.]+ s · ended at the token limit$")

    def test_a_server_with_a_key(self):
        self.server.key = "secret"
        self.driver.refresh()
        self.wait(lambda: self.text("#notice span") == "The server asks for an API key.", "the notice")
        self.click("#notice button")
        self.one("[name=key]").send_keys("secret", Keys.ENTER)
        self.wait(lambda: self.text("#model-name") == "mock-8b" and self.text("#notice") == "", "the models of the server")
        self.ask("Hi")
        self.assertEqual(self.server.keys, ["Bearer secret"])
        self.assertEqual(self.js("return JSON.stringify(localStorage).includes('secret')"), False)
        self.driver.refresh()
        self.wait(lambda: self.text("#model-name") == "mock-8b", "the key outlives a reload")


class Settings(PageCase):
    def test_settings_reach_the_request(self):
        tools = [{"type": "function", "function": {"name": "f"}}]
        self.click("#open-settings")
        self.js("document.querySelector('#settings details').open = true")
        for name, value in {"system": "Be brief.", "temperature": "0.5", "max_tokens": "64", "seed": "7", "tools": json.dumps(tools)}.items():
            self.one(f"#settings [name={name}]").send_keys(value)
        self.one("#settings [name=model]").send_keys("mock-30b")
        self.click("#settings .primary")
        self.driver.refresh()
        self.wait(lambda: self.text("#model-name") == "mock-30b", "the chosen model")
        self.ask("Hi")
        request = self.server.requests[0]
        self.assertEqual(self.roles(), [("system", "Be brief."), ("user", "Hi")])
        self.assertEqual({k: request[k] for k in ("model", "temperature", "max_tokens", "seed", "tools")},
                         {"model": "mock-30b", "temperature": 0.5, "max_tokens": 64, "seed": 7, "tools": tools})

    def test_wrong_settings_are_refused(self):
        self.click("#open-settings")
        for name, value, text in (("temperature", "warm", "The temperature is a number from 0 to 10."),
                                  ("temperature", "11", "The temperature is a number from 0 to 10."),
                                  ("max_tokens", "0", "Maximum tokens is a whole number from 1."),
                                  ("seed", "-1", "The seed is a whole number from 0."),
                                  ("tools", "{}", "The tools are not a JSON array.")):
            with self.subTest(value):
                self.js("document.querySelector(`#settings [name=${arguments[0]}]`).value = arguments[1]", name, value)
                self.click("#settings .primary")
                self.assertEqual(self.text("#settings .problem"), text)
                self.js("document.querySelector(`#settings [name=${arguments[0]}]`).value = ''", name)
        self.click("#settings [value=cancel]")
        self.click("#open-settings")
        self.one("#settings [name=seed]").send_keys("9", Keys.ESCAPE)
        self.ask("Hi")
        self.assertNotIn("seed", self.server.requests[0], "Escape discards the changes")


class Conversations(PageCase):
    def titles(self):
        return [e.get_attribute("textContent") for e in self.all("#list .open span:first-child")]

    def tool(self, verb, title):
        """A button of a conversation, which is shown when the focus is in its row."""
        button = self.all(f"#list [aria-label='{verb} “{title}”']")[0]
        self.js("arguments[0].focus()", button)
        button.send_keys(Keys.ENTER)

    def test_a_reload_keeps_the_conversation(self):
        self.ask("First question")
        self.ask("Second", 2)
        address = self.driver.current_url
        self.driver.refresh()
        self.finished(2)
        self.assertEqual(self.texts(".bubble"), ["First question", "Second"])
        self.assertEqual([self.text(ANSWER), self.text("#title"), self.driver.current_url], ["An answer.", "First question", address])
        self.assertIn("prompt 7", self.text(".counts"))

    def test_the_list(self):
        self.ask("Alpha")
        self.click("#new")
        self.assertEqual([self.text("#messages"), self.text("#title")], ["", "New conversation"])
        self.ask("Beta")
        self.assertEqual(self.titles(), ["Beta", "Alpha"])
        self.tool("Rename", "Alpha")
        self.wait(lambda: self.shown("#ask [name=name]"), "the dialog")
        self.one("#ask [name=name]").send_keys("Renamed", Keys.ENTER)
        self.wait(lambda: self.titles() == ["Beta", "Renamed"], "the new name")
        self.all("#list .open")[1].click()
        self.wait(lambda: self.text("#title") == "Renamed" and self.text(".bubble") == "Alpha", "the other conversation")
        self.driver.back()
        self.wait(lambda: self.text("#title") == "Beta", "the one before")
        self.tool("Delete", "Beta")
        self.assertEqual(self.text("#ask p"), "“Beta” is removed from this browser.")
        self.click("#ask [value=cancel]")
        self.assertEqual(self.titles(), ["Beta", "Renamed"])
        self.tool("Delete", "Beta")
        self.click("#ask .primary")
        self.wait(lambda: self.titles() == ["Renamed"] and self.text("#title") == "New conversation", "it is deleted")
        self.driver.refresh()
        self.wait(lambda: self.titles() == ["Renamed"], "it stays deleted")

    def test_export(self):
        self.ask("Export me: a/b")
        with tempfile.TemporaryDirectory() as folder:
            self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            self.tool("Export", "Export me: a/b")
            file = pathlib.Path(folder, "Export-me-a-b.json")
            self.wait(file.exists, "the file is saved")
            exported = json.loads(file.read_text())
        self.assertEqual([(m["role"], m["content"]) for m in exported["messages"]], [("user", "Export me: a/b"), ("assistant", "An answer.")])

    def test_an_answer_goes_on_in_the_background(self):
        gate = threading.Event()
        self.server.answers = [[delta(content="Begin"), gate, delta(content=" and end"), finish("stop"), DONE]]
        self.send("Long")
        self.wait(lambda: self.text(ANSWER) == "Begin", "the first piece")
        self.click("#new")
        self.ask("Short")
        self.assertEqual(len(self.all("#list .pulse")), 1)
        gate.set()
        self.wait(lambda: not self.all("#list .pulse"), "the other answer is complete")
        self.all("#list .open")[1].click()
        self.wait(lambda: self.text(ANSWER) == "Begin and end", "the whole answer")

    def test_two_tabs(self):
        self.ask("Shared")
        first = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        try:
            self.driver.get(self.server.url)
            self.wait(lambda: self.titles() == ["Shared"], "the conversation of the other tab")
            self.ask("Of the second tab")
        finally:
            self.driver.close()
            self.driver.switch_to.window(first)
        self.wait(lambda: self.titles() == ["Of the second tab", "Shared"], "the conversation of the second tab")
        self.assertEqual(self.text("#title"), "Shared")

    def test_a_full_storage_is_named(self):
        self.js("for (let n = 1 << 22; n >= 1; n >>= 1) { try { for (let i = 0; ; i++) localStorage.setItem(`fill${n}.${i}`, 'x'.repeat(n)); }"
                " catch {} }")
        self.ask("Hi")
        self.assertEqual(self.text("#notice span"), "The storage of the browser is full. Export and delete a conversation.")
        self.assertEqual(self.text(ANSWER), "An answer.", "the page works on")

    def test_damaged_storage_is_left_out(self):
        self.ask("Good")
        self.js("localStorage.setItem('reprise.conversation.x', '{'); localStorage.setItem('reprise.conversation.y', '[]');"
                "localStorage.setItem('reprise.settings', 'null')")
        self.driver.refresh()
        self.finished()
        self.assertEqual(self.titles(), ["Good"])


if __name__ == "__main__":
    main()
