"""How the page looks and is used in headless Chromium: themes, contrast, narrow screens, keyboard, names, policy, long answers.

    test_look.py [-k NAME]       exit status 77 without chromium, chromedriver or selenium
"""
import threading

from browser import set_size, set_theme
from mock_server import DONE, call, delta, failure, finish, plain, showcase, usage
from page_case import Keys, PageCase, main

# What is wider than its place, other than what scrolls by itself.
OVERFLOWS = """
const wide = [document.scrollingElement, ...document.querySelectorAll("#scroll, #sidebar, dialog[open], main, .message, .box")]
  .filter((e) => e.scrollWidth > e.clientWidth && e.clientWidth > 0).map((e) => `${e.localName}#${e.id}.${e.className} ${e.scrollWidth} > ${e.clientWidth}`);
const out = [...document.querySelectorAll("main *, dialog[open] *")].filter((e) => !e.closest("pre, .table, .hidden-text, svg") && e.checkVisibility()
  && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => `${e.localName}.${e.className} ends at ${e.getBoundingClientRect().right}`);
return wide.concat(out);
"""
WIDE = ("x" * 300 + "\n\n" + "https://example.org/" + "a" * 300 + "\n\n| " + " | ".join(["column"] * 12) + " |\n|" + "---|" * 12 + "\n\n```\n" + "y" * 300 +
        "\n```\n\n`" + "z" * 200 + "`\n\n# " + "H" * 200 + "\n\n> " + "q" * 200 + "\n\n- " + "l" * 200)

class Look(PageCase):
    def converse(self):
        """One conversation with all that the page can show."""
        self.server.answers = [showcase(0), [call(0, "f", '{"a": "' + "b" * 200 + '"}', "call_1"), finish("tool_calls"), DONE],
                               [delta(content="Part"), *plain(WIDE)[1:]], failure("Something " + "long" * 60)]
        self.ask("Show me")
        self.ask("A call", 2)
        self.ask("w" * 200, 3)
        self.ask("Fail", 4)
        self.js("document.querySelectorAll('details').forEach((e) => { e.open = true; });"
                "document.querySelectorAll('.user .actions').forEach((e) => { e.style.opacity = 1; })")
        self.wait(lambda: self.texts(".reasoning .text"), "the reasoning")

    def test_contrast_of_both_themes(self):
        self.converse()
        for theme in ("light", "dark"):
            set_theme(self.driver, theme)
            self.js("document.getAnimations().forEach((a) => a.finish && a.effect.getTiming().iterations !== Infinity && a.finish())")
            self.assert_contrast(theme)
            self.js("document.querySelector('#list .open').focus()")
            self.assert_contrast(f"{theme}, the focus in the list")
            self.click("#open-settings")
            self.one("#settings [name=seed]").send_keys("x", Keys.ENTER)
            self.assert_contrast(f"{theme}, settings")
            self.click("#settings [value=cancel]")

    def test_the_theme(self):
        ground = lambda: self.js("return getComputedStyle(document.documentElement).backgroundColor")
        light = ground()
        set_theme(self.driver, "dark")
        dark = ground()
        self.assertNotEqual(light, dark, "the theme of the system")
        for name, expected in (("light", light), ("dark", dark)):
            self.click("#theme")
            self.assertEqual((self.text("#theme"), ground()), (f"Theme: {name}", expected))
            self.driver.refresh()
            self.assertEqual((self.text("#theme"), ground()), (f"Theme: {name}", expected), "after a reload")
        set_theme(self.driver, "light")
        self.assertEqual(ground(), dark)
        self.click("#theme")
        self.assertEqual((self.text("#theme"), ground()), ("Theme: system", light))

    def test_a_narrow_screen_does_not_scroll_sideways(self):
        set_size(self.driver, 360, 740)
        self.assertEqual(self.js(OVERFLOWS), [], "empty")
        self.converse()
        self.assertEqual(self.js("return document.scrollingElement.scrollWidth"), 360)
        self.assertEqual(self.js(OVERFLOWS), [], "a conversation")
        self.all(".user [title='Edit message']")[2].click()
        self.assertEqual(self.js(OVERFLOWS), [], "an edited message")
        self.one("#input").send_keys("v" * 200)
        self.assertEqual(self.js(OVERFLOWS), [], "a long word in the box")
        self.click("#model-name")
        self.assertEqual(self.js(OVERFLOWS), [], "settings")
        self.one("#settings [value=cancel]").click()
        self.click("#open-menu")
        self.assertEqual(self.js(OVERFLOWS), [], "the menu")

    def test_the_menu_of_a_narrow_screen(self):
        set_size(self.driver, 360, 740)
        self.wait(lambda: not self.shown("#new"), "the menu is hidden")
        self.click("#open-menu")
        self.wait(lambda: self.shown("#new"), "the menu")
        self.assertEqual([self.focused().get_attribute("id"), self.one("#open-menu").get_attribute("aria-expanded")], ["close-menu", "true"])
        self.focused().send_keys(Keys.ESCAPE)
        self.wait(lambda: not self.shown("#new"), "the menu is closed")
        self.assertEqual([self.focused().get_attribute("id"), self.one("#open-menu").get_attribute("aria-expanded")], ["open-menu", "false"])

    def test_every_control_has_a_name(self):
        self.converse()
        self.all(".user [title='Edit message']")[0].click()
        for opener, least in (("", 40), ("#open-settings", 9), ("[aria-label^=Rename]", 4), ("[aria-label^=Delete]", 3)):
            self.js("document.querySelector('dialog[open]')?.close(); document.querySelector(arguments[0] || '#empty').click()", opener)
            named = self.names()
            self.assertGreaterEqual(len(named), least, f"{opener}: {named}")
            self.assertEqual([role for role, name in named if not name.strip()], [], f"{opener}: {named}")

    def test_the_keyboard(self):
        self.ask("Hi")
        self.assertEqual(self.focused().get_attribute("id"), "input", "after sending the focus is in the box")
        self.js("document.body.tabIndex = -1; document.body.focus()")
        order = []
        for _ in range(14):
            self.driver.switch_to.active_element.send_keys(Keys.TAB)
            focused = self.focused()
            name = focused.get_attribute("id") or focused.get_attribute("aria-label") or focused.text
            order.append(name)
            seen = self.js("const e = document.activeElement, s = getComputedStyle(e.closest('.box') && e.id === 'input' ? e.closest('.box') : e);"
                           "return [s.outlineStyle, parseFloat(s.outlineWidth), e.matches(':focus-visible')]")
            self.assertEqual([seen[0], seen[1] >= 1, seen[2]], ["solid", True, True], f"the focus on {name} is seen")
        self.assertEqual(order, ["Skip to the message box", "new", "Hi", "Rename “Hi”", "Export “Hi”", "Delete “Hi”", "open-settings", "theme", "model-name",
                          "Copy message", "Edit message", "Copy answer", "Answer again", "input"])

    def test_the_policy_holds(self):
        self.converse()
        self.assertEqual(self.complaints(), [])
        origins = self.js("return [...new Set(performance.getEntriesByType('resource').map((e) => new URL(e.name).origin))]")
        self.assertEqual(origins, [self.server.url.rstrip("/")], "nothing comes from elsewhere")
        self.assertEqual(self.all("[style]:not(.actions)"), [], "no style attributes")
        self.assertEqual(self.js("return [...document.scripts].filter((e) => !e.src).length"), 0)
        self.js("const e = document.createElement('script'); e.append('self.ran = 1'); document.body.append(e);"
                "try { e.innerHTML = 'self.ran = 2'; } catch { self.refused = true; }")
        self.assertEqual(self.js("return [self.ran ?? null, self.refused]"), [None, True])
        self.js("document.body.setAttribute('style', 'color: red')")
        seen = " ".join(self.complaints())
        self.assertIn("TrustedHTML", seen, "a violation is seen")
        self.assertIn("Content Security Policy", seen, "a violation is seen")

    def test_a_megabyte_leaves_the_page_usable(self):
        words = "Some **text** with `code` and [a link](https://x.org). " * 8
        part = "".join(f"## Part {i}\n\n{words}\n\n- a\n- b\n\n```c\nint x = {i};\n```\n\n" for i in range(100))
        gate = threading.Event()
        n = 1048576 // len(part) + 1
        pieces = [part[i:i + 1000] for i in range(0, len(part), 1000)]
        self.server.answers = [[*[delta(content=piece) for piece in pieces] * n, gate, delta(content="\n\nThe end"), finish("stop"), usage(9, 9), DONE]]
        self.send("A long answer")
        self.one("#input").send_keys("typed")
        self.assertEqual(self.one("#input").get_attribute("value"), "typed", "keys arrive while the answer comes")
        self.assertTrue(self.shown("#stop"), "the answer still comes")
        self.wait(lambda: self.js("return document.querySelector('.answer > .text').childElementCount") > 400 * n - 10, "all of it is shown")
        gate.set()
        self.finished()
        self.assertEqual(self.js("return document.querySelector('.answer > .text').lastChild.textContent"), "The end")
        self.assertEqual(self.js("return document.querySelectorAll('.answer h3').length"), 100 * n)
        self.assertLess(self.js("const s = document.getElementById('scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight"), 60,
                        "the end is in sight")

    def test_scrolling_up_stops_following(self):
        gates = [threading.Event() for _ in range(2)]
        self.server.answers = [[delta(content="line\n\n" * 100), gates[0], delta(content="line\n\n" * 100), gates[1], delta(content="x"), finish("stop"), DONE]]
        bottom = "const s = document.getElementById('scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight"
        self.send("Hi")
        self.wait(lambda: len(self.all(".answer p")) > 100 and self.js(bottom) < 60, "the page follows")
        self.js("document.getElementById('scroll').scrollTop = 100")
        self.wait(lambda: self.shown("#down"), "the button to the end")
        gates[0].set()
        self.wait(lambda: len(self.all(".answer .text p")) == 200, "the second part")
        self.assertEqual(self.js("return document.getElementById('scroll').scrollTop"), 100)
        self.click("#down")
        self.assertLess(self.js(bottom), 60)
        gates[1].set()
        self.finished()


if __name__ == "__main__":
    main()
