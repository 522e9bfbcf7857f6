"""What the tests of pages share: one browser for a file of tests, waiting for what a page shows, contrasts, accessible names."""
import atexit
import sys
import time
import unittest

from browser import HANG_S, missing, open_browser

if not missing():
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.keys import Keys  # noqa: F401
# Not by Selenium, which sends a large script each time.
SHOWN = "[...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility({ visibilityProperty: true }))"

# Every text that is shown, with its contrast to what is behind it by WCAG 2. Half-transparent colours lie over those behind.
CONTRASTS = """
const rgba = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return text.startsWith("color(")
  ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const ground = (e) => { const layers = []; for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]); };
const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getBoundingClientRect().width > 1;
const top = document.querySelector("dialog[open]") ?? document.body;
const found = [];
const add = (what, color, e) => found.push([what, ratio(over(rgba(color), ground(e)), ground(e))]);
for (const e of top.querySelectorAll("*")) {
  if (!shown(e) || e.closest("[disabled]")) continue;
  const style = getComputedStyle(e);
  if ([...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) add(`${e.localName}: ${e.textContent.slice(0, 30)}`, style.color, e);
  if (e.placeholder) add(`placeholder ${e.placeholder}`, getComputedStyle(e, "::placeholder").color, e);
  if (e.localName === "svg" && style.stroke !== "none" && !e.classList.contains("sprite")) add(`icon ${e.firstElementChild.getAttribute("href")}`, style.stroke, e);
  if (["input", "select"].includes(e.localName)) add(`border of ${e.name}`, style.borderTopColor, e.parentElement);
}
return found;
"""

# Roles that need a name.
NAMED = {"button", "link", "textbox", "combobox", "DisclosureTriangle", "article", "region", "dialog", "navigation", "complementary", "checkbox", "spinbutton"}


class BrowserCase(unittest.TestCase):
    """No test may leave a complaint in the console: of a script, or of the policy of the page."""

    requests = False  # whether get_log("performance") has the requests

    @classmethod
    def setUpClass(cls):
        if not hasattr(BrowserCase, "driver"):
            BrowserCase.driver = open_browser(requests=cls.requests)
            atexit.register(BrowserCase.driver.quit)

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

    def focused(self):
        return self.driver.switch_to.active_element

    def assert_contrast(self, state):
        found = self.js(CONTRASTS)
        self.assertGreater(len(found), 5, state)
        for what, ratio in found:
            least = 3 if what.startswith(("icon", "border")) else 4.5
            self.assertGreaterEqual(ratio, least, f"{state}: {what}")

    def names(self):
        """(role, name) of all that needs a name."""
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [(node["role"]["value"], node["name"]["value"]) for node in nodes if node.get("role", {}).get("value") in NAMED and not node["ignored"]]


def main():
    if missing():
        print(f"SKIPPED: the page is not tested, as these are not installed: {missing()}")
        sys.exit(77)
    unittest.main()
