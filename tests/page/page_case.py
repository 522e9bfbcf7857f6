"""What the tests of the page share: one browser and one mock server for a file of tests, and waiting for what the page shows."""
import atexit
import sys
import time
import unittest

from browser import HANG_S, missing, open_browser, set_size, set_theme
from mock_server import MockServer

if not missing():
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.keys import Keys
# Not by Selenium, which sends a large script each time.
SHOWN = "[...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility({ visibilityProperty: true }))"


class PageCase(unittest.TestCase):
    """Each test begins with an empty storage, 1200 x 800 pixels, and a light system. None may violate the policy of the page."""

    @classmethod
    def setUpClass(cls):
        if not hasattr(PageCase, "driver"):
            PageCase.server = MockServer()
            PageCase.driver = open_browser()
            atexit.register(PageCase.driver.quit)

    def setUp(self):
        self.server.clear()
        set_size(self.driver, 1200, 800)
        set_theme(self.driver, "light")
        if self.driver.current_url.startswith(self.server.url):
            # The page of a test that failed would save its answer when it is left.
            self.js("addEventListener('pagehide', (event) => event.stopImmediatePropagation(), true);"
                    "localStorage.clear(); sessionStorage.clear();")
        self.driver.get(self.server.url)
        self.wait(lambda: self.text("#model-name") == "mock-8b", "the page has the models")
        self.driver.get_log("browser")

    def tearDown(self):
        self.assertEqual(self.complaints(), [], "what the console has of scripts and of the policy")

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["source"] != "network" and entry["level"] in ("SEVERE", "WARNING")]

    def wait(self, condition, what):
        """Waits for a condition. Only what hangs runs into the limit."""
        end = time.monotonic() + HANG_S
        while True:
            try:
                value = condition()
            except StaleElementReferenceException:
                value = None
            if value:
                return value
            if time.monotonic() > end:
                self.fail(f"never happened: {what}; the page shows: {self.text('body')[:2000]}")
            time.sleep(0.01)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def shown(self, selector):
        """The elements that are displayed."""
        return self.js(f"return {SHOWN}", selector)

    def one(self, selector):
        """The first element that is displayed, which there must be."""
        found = self.shown(selector)
        self.assertTrue(found, f"{selector} is shown")
        return found[0]

    def texts(self, selector):
        """The texts that the displayed elements show."""
        return self.js(f"return {SHOWN}.map((e) => e.innerText)", selector)

    def text(self, selector):
        """The text that the last one shows; '' without one."""
        return (self.texts(selector) or [""])[-1]

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script, *arguments):
        """Runs the body of an async function, and returns what it returns."""
        value = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            f"(async (...args) => {{{script}}})(...arguments).then((value) => done({{value}}), (e) => done({{error: String(e)}}));",
            *arguments)
        self.assertNotIn("error", value)
        return value["value"]

    def click(self, selector):
        self.wait(lambda: self.shown(selector), f"{selector} is shown")[0].click()

    def send(self, text):
        self.one("#input").send_keys(text, Keys.ENTER)

    def finished(self, answers=1):
        """Waits until that many answers are there and none runs."""
        self.wait(lambda: len(self.all(".answer")) == answers and self.shown("#send"), f"{answers} answers are complete")

    def ask(self, text, answers=1):
        self.send(text)
        self.finished(answers)

    def focused(self):
        return self.driver.switch_to.active_element

    def roles(self, request=-1):
        """Roles and texts of a request."""
        return [(message["role"], message["content"]) for message in self.server.requests[request]["messages"]]


def main():
    if missing():
        print(f"SKIPPED: the page is not tested, as these are not installed: {missing()}")
        sys.exit(77)
    unittest.main()
