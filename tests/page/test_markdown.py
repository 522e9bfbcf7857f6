"""markdown.js and inline.js in headless Chromium. What texts become is written by hand, by CommonMark and GitHub's specification.

    test_markdown.py [-k NAME]       exit status 77 without chromium, chromedriver or selenium
"""
import random
import re

from mock_server import DONE, delta, finish
from page_case import PageCase, main

CASES = [
    ("paragraphs", "a\nb\n\nc", "<p>a\nb</p><p>c</p>"),
    ("headings", "# One\n###### Six ##\n####### no\n#no", "<h2>One</h2><h6>Six</h6><p>####### no\n#no</p>"),
    ("rule", "a\n\n---\n* * *\n--", "<p>a</p><hr><hr><p>--</p>"),
    ("emphasis", "*a* _b_ **c** __d__ ***e*** ~~f~~", "<p><em>a</em> <em>b</em> <strong>c</strong> <strong>d</strong> "
     "<em><strong>e</strong></em> <del>f</del></p>"),
    ("nested emphasis", "**a *b* c** *d **e***", "<p><strong>a <em>b</em> c</strong> <em>d <strong>e</strong></em></p>"),
    ("no emphasis", "2 * 3 * 4, snake_case_name, *open, ~one~ \\*a\\*", "<p>2 * 3 * 4, snake_case_name, *open, ~one~ *a*</p>"),
    ("emphasis in words", "un*frigging*believable", "<p>un<em>frigging</em>believable</p>"),
    ("code", "`a *b*` ``c ` d`` ` e", "<p><code>a *b*</code> <code>c ` d</code> ` e</p>"),
    ("hard break", "a\\\nb<br>c", "<p>a<br>b<br>c</p>"),
    ("entities", "&lt;b&gt; &amp;amp; &copy;", "<p>&lt;b&gt; &amp;amp; &amp;copy;</p>"),
    ("bullets", "- a\n- b\n  c\n* d", "<ul><li><p>a</p></li><li><p>b\nc</p></li></ul><ul><li><p>d</p></li></ul>"),
    ("nested lists", "- a\n  - b\n    - c\n- d", "<ul><li><p>a</p><ul><li><p>b</p><ul><li><p>c</p></li></ul></li></ul></li><li><p>d</p></li></ul>"),
    ("two columns nest in a numbered item", "1. a\n  - b\n2. c", "<ol><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ol>"),
    ("tabs nest", "- a\n\t- b", "<ul><li><p>a</p><ul><li><p>b</p></li></ul></li></ul>"),
    ("numbers", "3. a\n4. b\n\n5) c", '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol><ol start="5"><li><p>c</p></li></ol>'),
    ("a number does not end a paragraph", "in\n1999. was", "<p>in\n1999. was</p>"),
    ("loose list", "- a\n\n  b\n- c", "<ul><li><p>a</p><p>b</p></li><li><p>c</p></li></ul>"),
    ("code in a list", "1. a\n   ```py\n   x\n     y\n   ```\n2. b", "<ol><li><p>a</p>[py:x\n  y]</li><li><p>b</p></li></ol>"),
    ("quote", "> a\nb\n> > c\n\nd", "<blockquote><p>a\nb</p><blockquote><p>c</p></blockquote></blockquote><p>d</p>"),
    ("quoted list", "> - a\n> - b", "<blockquote><ul><li><p>a</p></li><li><p>b</p></li></ul></blockquote>"),
    ("fence", "```c title\nint *a;\n\n# b\n```\nc", "[c:int *a;\n\n# b]<p>c</p>"),
    ("tildes", "~~~\n```\n~~~~", "[text:```]"),
    ("longer fence", "````\n```\n````", "[text:```]"),
    ("unclosed fence", "a\n```html\n<b>", "<p>a</p>[html:&lt;b&gt;]"),
    ("tabs in code", "```make\nall:\n\tcc\n```", "[make:all:\n\tcc]"),
    ("a fence of a million", "`" * 1000000 + "\na", "[text:a]"),
    ("table", "| a | b | c |\n|:--|--:|:-:|\n| 1 | `x\\|y` | **z** |\n| 2 |", '<table><thead><tr><th>a</th><th class="right">b</th>'
     '<th class="middle">c</th></tr></thead><tbody><tr><td>1</td><td class="right"><code>x|y</code></td><td class="middle">'
     '<strong>z</strong></td></tr><tr><td>2</td><td class="right"></td><td class="middle"></td></tr></tbody></table>'),
    ("a table without outer bars ends a paragraph", "t\na | b\n-|-\n1 | 2\n\nx", "<p>t</p><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>"
     "<tr><td>1</td><td>2</td></tr></tbody></table><p>x</p>"),
    ("no table", "a | b\n-|-|-", "<p>a | b\n-|-|-</p>"),
    ("links", '[a *b*](https://x.org/y_(z) "t") <http://x.org> https://x.org/a?b=c. [m](mailto:a@b.c)',
     '<p>{https://x.org/y_(z)|a <em>b</em>} {http://x.org/|http://x.org} {https://x.org/a?b=c|https://x.org/a?b=c}. {mailto:a@b.c|m}</p>'),
    ("images are links", "![alt](https://x.org/i.png)", "<p>{https://x.org/i.png|alt}</p>"),
    ("links do not nest", "[a [b](https://x.org) c](https://y.org)", "<p>[a {https://x.org/|b} c]({https://y.org/|https://y.org})</p>"),
]

HOSTILE = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<svg/onload=alert(1)>", "<iframe src=javascript:alert(1)>",
    "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](java\nscript:alert(1))", "[a](<java\tscript:alert(1)>)", "[a](\x01javascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)", "[a](vbscript:x)", "[a](//evil.example)", "[a](file:///etc/passwd)", "[a](blob:https://x)",
    "<javascript:alert(1)>", "![a](javascript:alert(1))", "[a](&#106;avascript:alert(1))", "[a](https://x.org\" onclick=\"alert(1))",
    "```<script>alert(1)</script>\n<script>alert(1)</script>", "```x\" onclick=\"alert(1)\ny", "| <img src=x onerror=alert(1)> |\n|-|\n| <b onclick=alert(1)> |",
    "# <img src=x onerror=alert(1)>", "- <img src=x onerror=alert(1)>", "> <img src=x onerror=alert(1)>", "`<img src=x onerror=alert(1)>`",
    "[<img src=x onerror=alert(1)>](https://x.org)", "[a](https://x.org 'x' onclick='alert(1)')", "**<img src=x onerror=alert(1)>**",
]
ALLOWED = {"p", "h2", "h3", "h4", "h5", "h6", "hr", "ul", "ol", "li", "blockquote", "figure", "figcaption", "pre", "code", "span", "button", "div", "table",
           "thead", "tbody", "tr", "th", "td", "a", "em", "strong", "del", "br"}
ALLOWED_ATTRIBUTES = {"class", "href", "rel", "target", "start", "type", "tabindex", "role", "aria-label"}

VIEW = """const { MarkdownView } = await import("/markdown.js");
const root = document.createElement("div");
document.getElementById("messages").replaceChildren(root);
const view = new MarkdownView(root);
"""


def short(html):
    """HTML as CASES write it: a code block is [language:text], a link {address|text}."""
    html = re.sub(r'<figure class="code"><figcaption><span>(.*?)</span><button class="copy-code" type="button" aria-label="Copy code [^"]*">Copy</button>'
                  r'</figcaption><pre tabindex="0"><code>(.*?)</code></pre></figure>', r"[\1:\2]", html, flags=re.S)
    html = re.sub(r'<a href="([^"]*)" rel="noopener noreferrer" target="_blank">(.*?)</a>', r"{\1|\2}", html)
    html = re.sub(r'<div class="table" tabindex="0" role="region" aria-label="Table">(.*?)</div>', r"\1", html)
    return re.sub(r' class="(tight|loose)"', "", html)


class Markdown(PageCase):
    def test_cases(self):
        htmls = self.run_async(VIEW + "return args[0].map((text) => { view.update(text); return root.innerHTML; });",
                               [text for _, text, _ in CASES])
        for (name, _, expected), html in zip(CASES, htmls):
            with self.subTest(name):
                self.assertEqual(short(html), expected)

    def test_growing_texts_give_the_same(self):
        texts = [text for name, text, _ in CASES if "million" not in name]
        texts += ["\n\n".join(texts), "line of text " * 20000 + "\n\nend", "- item\n" * 20000 + "\nend", "a\n" * 70000]
        differs = self.run_async(VIEW + """
            const different = [];
            for (const text of args[0]) {
              view.update(text);
              const whole = root.innerHTML;
              const step = text.length < 10000 ? 1 : Math.ceil(text.length / 40);
              view.clear();
              for (let n = step; n < text.length; n += step) view.update(text.slice(0, n));
              view.update(text);
              if (root.innerHTML !== whole) different.push(text.slice(0, 100));
            }
            return different;""", texts)
        self.assertEqual(differs, [])

    def test_a_long_line_is_complete(self):
        text = "word " * 50000
        shown = self.run_async(VIEW + "for (let n = 0; n < 50; n++) view.update(args[0].slice(0, n * 5003)); view.update(args[0]);"
                               "return root.textContent", text)
        self.assertEqual(shown.replace(" ", ""), text.replace(" ", ""))

    def assert_harmless(self, texts):
        found = self.run_async(VIEW + """
            return args[0].map((text) => {
              view.update(text);
              return [...root.querySelectorAll("*")].map((e) => [e.localName, e.getAttributeNames(), e.getAttribute("href")]);
            });""", texts)
        for text, elements in zip(texts, found):
            with self.subTest(text[:200]):
                self.assertLessEqual({name for name, _, _ in elements}, ALLOWED)
                self.assertLessEqual({name for _, names, _ in elements for name in names}, ALLOWED_ATTRIBUTES)
                self.assertEqual([href for _, _, href in elements if href and not re.match("https?:|mailto:", href)], [])

    def test_hostile_text_does_not_run(self):
        self.js("self.ran = false; self.alert = () => { self.ran = true; }")
        self.assert_harmless(HOSTILE)
        self.assertIs(self.js("return self.ran"), False)
        self.server.answers = [[*[delta(content=text + "\n\n") for text in HOSTILE], finish("stop"), DONE]]
        self.js("document.getElementById('input').value = arguments[0]", "\n".join(HOSTILE))
        self.ask("")
        self.assertIs(self.js("return self.ran"), False)
        self.assertEqual(self.js("return document.querySelector('.bubble').textContent"), "\n".join(HOSTILE))

    def test_random_text_is_harmless_and_grows_alike(self):
        pieces = ["*", "**", "_", "~~", "`", "```", "[", "]", "(", ")", "!", "<", ">", "|", "-", "- ", "1. ", "# ", "\n", "\n\n", "  ", "\t", "\\", "&lt;", "a",
                  "https://x.org", "](https://x.org)", "javascript:alert(1)", "|-|-|", "> ", "<br>", "<img onerror=alert(1)>"]
        source = random.Random(1)
        texts = ["".join(source.choices(pieces, k=source.randint(1, 60))) for _ in range(300)]
        self.assert_harmless(texts)
        self.assertEqual(self.run_async(VIEW + """
            return args[0].filter((text) => {
              view.update(text);
              const whole = root.innerHTML;
              view.clear();
              for (let n = 1; n <= text.length; n++) view.update(text.slice(0, n));
              return root.innerHTML !== whole;
            });""", texts), [])

    def test_many_marks_end(self):
        # Quadratic work would run into the limit of a script. Deep trees would end the tab.
        many = ["*a ", "*a", "a*", "**a*", "`a``b", "<https://", "- a\n", "a|b\n-|-\n", "```\n", "  - a\n ", "[](", "]"]
        million = ["*", "_", "`", "[", "[a](b", "![", "<", "&lt;", "\\", "> ", ">", "- ", "-", "1. ", "|", "|-", "#", "~~~", "a\n", "\n", " ", "\t",
                   "https://x", "(", "\u0301", "\U0001f44b", "- - - - x "]
        for units, length in ((many, 1e5), (million, 1e6)):
            sizes = self.run_async(VIEW + """
                root.remove();
                return args[0].map((unit) => {
                  view.update(unit.repeat(args[1] / unit.length));
                  return root.textContent.length;
                });""", units, length)
            self.assertEqual(len(sizes), len(units))

    def test_an_update_parses_only_the_last_block(self):
        text = "".join(f"## Part {i}\n\nSome **text** with `code`.\n\n- a\n- b\n\n```c\nint x = {i};\n```\n\n" for i in range(2000))
        scanned, length = self.run_async(VIEW + """
            for (let n = 1000; n < args[0].length; n += 500) view.update(args[0].slice(0, n));
            return [view.scanned, args[0].length];""", text)
        self.assertGreater(length, 130000)
        self.assertLess(scanned, 1.5 * length)


if __name__ == "__main__":
    main()
