"""The page of `reprise graph --html` and `reprise profile --html` in headless Chromium, opened from disk: what it shows, against
the JSON and DOT of the same graph; folding, search, keyboard, contrast, narrow screens, hostile names, differences.

    test_graph_page.py PROGRAM SOURCE_DIR [-k NAME]       exit status 77 without chromium, chromedriver or selenium
"""
import base64
import hashlib
import html.parser
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import urllib.request

PROGRAM, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:3]

from browser import set_size, set_theme  # noqa: E402, after the arguments, which unittest must not see
from browser_case import BrowserCase, Keys, main  # noqa: E402

TMP = tempfile.TemporaryDirectory(prefix="reprise-graph-page-")
TINY = os.path.join(SOURCE, "tests/golden/tiny/llama-mix.gguf")
HYBRID = os.path.join(SOURCE, "tests/golden/tiny/qwen35moe-mix.gguf")
MARKUP = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'><!--"
TURNED = "\u202egnp.exe\u2066\u200b"  # a right-to-left override, an isolate, a space without width
MOST_BYTES = 2_000_000


def run(*args):
    p = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=600, env={**os.environ, "REPRISE_DEVICE": "cpu"})
    assert p.returncode == 0, p.stderr
    return p.stdout


def page(name, *args, command="graph"):
    """The path of a new page."""
    path = os.path.join(TMP.name, f"{name}.html")
    run(command, *args, "--html", path)
    return path


def text_value(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(path, name, layers):
    """A file of a mixture of experts (qwen3moe) with small matrices."""
    embd, ff, experts, vocab = 32, 32, 4, 32
    keys = {"context_length": 512, "embedding_length": embd, "block_count": layers, "feed_forward_length": ff, "expert_count": experts,
            "expert_used_count": 2, "expert_feed_forward_length": ff, "attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 16,
            "attention.value_length": 16}
    values = [text_value("general.architecture") + struct.pack("<I", 8) + text_value("qwen3moe"), text_value("general.name") + struct.pack("<I", 8) + text_value(name)]
    values += [text_value(f"qwen3moe.{key}") + struct.pack("<II", 4, value) for key, value in keys.items()]
    values.append(text_value("qwen3moe.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-6))
    tensors = {"token_embd.weight": (embd, vocab), "output.weight": (embd, vocab), "output_norm.weight": (embd,)}
    for i in range(layers):
        of_layer = {"attn_norm": (embd,), "attn_q": (embd, 32), "attn_k": (embd, 16), "attn_v": (embd, 16), "attn_output": (32, embd), "attn_q_norm": (16,),
                    "attn_k_norm": (16,), "ffn_norm": (embd,), "ffn_gate_inp": (embd, experts), "ffn_gate_exps": (embd, ff, experts),
                    "ffn_up_exps": (embd, ff, experts), "ffn_down_exps": (ff, embd, experts)}
        tensors.update({f"blk.{i}.{key}.weight": ne for key, ne in of_layer.items()})
    table, at = [], 0
    for tensor, ne in tensors.items():
        n = 4
        for d in ne:
            n *= d
        table.append(text_value(tensor) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, 0, at))
        at += (n + 31) // 32 * 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values)) + b"".join(values) + b"".join(table)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + b"\0" * at)
    return path


def clusters(dot):
    """The labels of `graph --dot --fold` as the page writes them: [("layers 0-2, 4", 4)]."""
    labels = re.findall(r'subgraph cluster_\d+ \{\s*label="([^"]*)"', dot)
    return [(re.sub(r"^layer (\d+,)", r"layers \1", re.sub(r"  \(x\d+\)$", "", label)), int((re.search(r"\(x(\d+)\)$", label) or [0, 1])[1])) for label in labels]


class Strict(html.parser.HTMLParser):
    """The elements of a page: (name, attributes, text)."""

    def __init__(self, text):
        super().__init__()
        self.elements = [["", {}, ""]]
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append([tag, dict(attributes), ""])

    def handle_data(self, data):
        self.elements[-1][2] += data

    def handle_endtag(self, tag):
        self.elements.append(["", {}, ""])  # of what follows

    def texts(self, tag, **attributes):
        return [e[2] for e in self.elements if e[0] == tag and all(e[1].get(key) == value for key, value in attributes.items())]


# Cards that overlap, lie outside of the frame of their layer, or stand above what they read.
MISPLACED = """
const wrong = [], { cards, frames, edges, blocks } = drawing;
const name = (card) => `${card.node.op} ${card.node.name}`;
cards.forEach((a, i) => cards.slice(i + 1).forEach((b) => {
  if (Math.abs(a.x - b.x) < CARD_WIDTH && a.y < b.y + b.height && b.y < a.y + a.height) wrong.push(`${name(a)} and ${name(b)} overlap`);
}));
for (const frame of frames) for (const card of cards) {
  const inside = card.x >= frame.left && card.x + CARD_WIDTH <= frame.right && card.y >= frame.top && card.y + card.height <= frame.bottom;
  const apart = card.y >= frame.bottom || card.y + card.height <= frame.top;
  if (card.block === frame.block ? !inside : !apart) wrong.push(`${name(card)} and the frame of ${blocks[frame.block].layer}`);
}
for (const edge of edges) if (!edge.loop && cards[edge.from].y + cards[edge.from].height >= cards[edge.to].y) wrong.push(`${name(cards[edge.to])} above its source`);
for (const edge of edges) { // a difference can have circles
    const [from, to] = [cards[edge.from].node, cards[edge.to].node], own = to.src.some((s) => s >= 0 && throughViews(graph, graph.nodes[s]) === from);
    if (edge.loop && own && !graph.before) wrong.push(`${name(cards[edge.to])} reads ${name(cards[edge.from])} as if it were of another layer`);
}
for (const card of cards) {
  const button = card.button;
  if (Math.abs(button.offsetLeft - card.x) > 1 || button.offsetHeight !== card.height || button.scrollHeight > card.height) wrong.push(`${name(card)}: its element`);
}
return wrong;
"""


# What the panel has of facts: a list of terms and their texts, without explanations.
FACTS = """
const facts = (list) => Object.fromEntries([...list?.querySelectorAll("dt") ?? []].map((dt) => [dt.textContent, [...dt.nextSibling.childNodes]
  .filter((n) => n.nodeType === 3 || n.matches("bdi, span:not(.stepper, .arena)")).map((n) => n.textContent).join("").replaceAll("\u202f", "")]));
const section = (title) => [...panel.querySelectorAll(".part")].find((p) => p.firstChild.textContent === title);
const panel = document.getElementById("panel");
"""
CLICK_EACH = FACTS + """
return [...document.querySelectorAll(".card")].map((card) => {
  card.click();
  const i = Number(card.dataset.node), { moved, written } = graph.nodes[i].step;
  return [i, facts(panel.querySelector(".facts")), facts(section("Parameters")), [...section("Sources").querySelectorAll(".link .op")].map((op) => op.textContent),
    [moved, written]];
});
"""

ORIGINS = FACTS + """
return graph.nodes.filter((node) => node.kernel).map((node) => {
  select(node);
  const made = section("Made of");
  return [node.i, [[...made.querySelectorAll(".from")].map((e) => [...e.children].map((c) => c.textContent)), facts(made).Passes,
    panel.querySelector(".arena + small")?.textContent ?? ""]];
});
"""


class GraphPage(BrowserCase):
    requests = True
    pages = {}

    def open(self, name, *args, command="graph", **size):
        """Makes the page once, and opens it."""
        if name not in self.pages:
            self.pages[name] = page(name, *args, command=command)
        set_size(self.driver, size.get("width", 1200), size.get("height", 800))
        set_theme(self.driver, "light")
        self.driver.get_log("performance")
        self.driver.get(f"file://{self.pages[name]}")
        self.wait(lambda: self.shown(".card"), "cards")
        return self.pages[name]

    def facts(self):
        return self.js(f"{FACTS} return facts(panel.querySelector('.facts'))")

    def frames(self):
        return self.js("""return [...document.querySelectorAll(".frame")].map((frame) =>
          [frame.querySelector("h2").textContent.replaceAll("–", "-"), Number(frame.querySelector(".count")?.textContent.slice(1) ?? 1)])""")

    def test_it_opens_from_disk_without_a_request(self):
        for name, args in (("tiny", (TINY,)), ("hybrid", (HYBRID,)), ("diff", (TINY, "--diff", "after=attention", "after=quantize"))):
            path = self.open(name, *args)
            events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
            urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
            self.assertEqual([url for url in urls if not url.startswith("data:image/svg")], [f"file://{path}"])
            self.assertEqual(self.js("return performance.getEntriesByType('resource').length"), 0)

    def test_the_server_has_it(self):
        process = subprocess.Popen([PROGRAM, "serve", TINY, "--port", "0", "-t", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   env={**os.environ, "REPRISE_DEVICE": "cpu"})
        try:
            url = re.match(r"listening at (\S+)", process.stdout.readline())[1]
            self.wait(lambda: urllib.request.urlopen(f"{url}/v1/models"), "the server answers")
            self.driver.get_log("performance")
            self.driver.get(f"{url}/graph.html")
            self.wait(lambda: self.shown(".card"), "cards")
            self.assertEqual(self.frames(), [["layers 0-1", 2]])
            events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
            urls = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
            self.assertEqual({u for u in urls if not u.startswith("data:image/svg")}, {f"{url}/graph.html"})
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()

    def test_only_its_own_script_and_style_run(self):
        with open(self.open("tiny", TINY), encoding="utf-8") as f:
            document = Strict(f.read())
        policy = [e[1]["content"] for e in document.elements if e[1].get("http-equiv") == "Content-Security-Policy"]
        self.assertEqual(len(policy), 1)
        scripts, styles = document.texts("script"), document.texts("style")
        self.assertEqual((len(scripts), len(styles), len(document.texts("script", type="application/json"))), (2, 1, 1))
        files = os.path.join(SOURCE, "assets/graph")
        with open(os.path.join(SOURCE, "cmake/graph_page.cmake"), encoding="utf-8") as f:
            names = re.search(r"set\(graph_page_scripts ([^)]*)\)", f.read())[1].split()
        self.assertEqual({*names, "page.html", "page.css"}, set(os.listdir(files)))
        source = lambda names: "".join(open(os.path.join(files, name), encoding="utf-8").read() for name in names)
        self.assertEqual((scripts[1], styles[0]), (source(names), source(["page.css"])), "the files of assets/graph")
        for kind, text in (("script", scripts[1]), ("style", styles[0])):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            self.assertIn(f"{kind}-src 'sha256-{digest}';", policy[0])
        self.assertIn("default-src 'none'; ", policy[0])
        self.js("const s = document.createElement('script'); try { s.text = 'window.hacked = 1'; document.head.append(s); } catch {}")
        self.assertIsNone(self.js("return window.hacked"))
        self.assertTrue(self.complaints(), "the policy complains")

    def test_equal_layers_are_one_as_in_dot(self):
        for name, model in (("tiny", TINY), ("hybrid", HYBRID), ("gemma", os.path.join(SOURCE, "tests/golden/tiny/gemma3-pattern.gguf")),
                            ("llama3-8b", "llama3-8b"), ("experts", "deepseek-v3"), ("delta", "qwen3.5-35b-a3b")):
            self.open(name, model)
            expected = clusters(run("graph", model, "--dot", "--fold"))
            self.assertEqual([[re.sub("^((?:[^,]*,){5}).*,.*$", r"\1 …", label), n] for label, n in expected], self.frames(), name)
            self.assertEqual(self.js("return graph.groups.map((group) => group.layers.length)"), [n for _, n in expected], name)
            self.assertEqual(self.js(MISPLACED), [], name)

    def test_layers_unfold(self):
        self.open("llama3-8b", "llama3-8b")
        nodes = json.loads(run("graph", "llama3-8b", "--json"))["nodes"]
        kernels = [node["id"] for node in nodes if node["kernel"]]
        layer = sum(node["kernel"] and node["layer"] == 0 for node in nodes)
        self.assertEqual(self.frames(), [["layers 0-31", 32]])
        self.assertEqual(len(self.all(".card")), layer + sum(node["kernel"] and node["layer"] < 0 for node in nodes))
        self.click("[aria-label='Show the next layer']")
        self.assertEqual(self.texts(".frame .shown"), ["1"])
        self.assertEqual(self.js("return document.activeElement.getAttribute('aria-label')"), "Show the next layer", "the focus stays")
        self.click("[aria-label='Unfold 32 layers']")
        self.assertEqual(self.frames(), [[f"layer {i}", 1] for i in range(32)])
        self.assertEqual(sorted(self.js("return [...document.querySelectorAll('.card')].map((card) => Number(card.dataset.node))")), kernels)
        self.assertEqual(self.js(MISPLACED), [])
        self.click("[aria-label='Fold equal layers']")
        self.assertEqual(self.frames(), [["layers 0-31", 32]])

    def test_a_click_shows_what_json_has(self):
        for name, model in (("tiny", TINY), ("hybrid", HYBRID)):
            self.open(name, model)
            nodes = json.loads(run("graph", model, "--json"))["nodes"]
            steps = {step["node"]: step for step in json.loads(run("plan", model, "--json"))["plan"]["steps"]}
            seen = self.js(CLICK_EACH)
            self.assertGreater(len(seen), 5)
            for i, facts, params, sources, moved in seen:
                node, step = nodes[i], steps[i]
                ne = node["ne"]
                while len(ne) > 1 and ne[-1] == 1:
                    ne = ne[:-1]
                self.assertEqual((facts["Node"], facts["Type"], facts["Shape"]), (f"#{i}", node["dtype"], " × ".join(map(str, ne))), node)
                self.assertEqual((facts["Strides"], facts["Bytes"]), (", ".join(map(str, node["nb"])) + " B", str(node["bytes"])), node)
                self.assertEqual(facts["Step"], f"{step['step']} of {len(steps)}", node)
                self.assertEqual(facts.get("Arena"), f"{step['offset']} – {step['offset'] + node['bytes']}" if step["space"] == "arena" else None, node)
                self.assertEqual(moved, [step["moved_bytes"], step["bytes"]], node)
                self.assertEqual(facts.get("Fused", ""), node.get("parts", ""), node)
                whole = {key: str(value).lower() for key, value in node["params"].items() if not isinstance(value, float)}
                self.assertEqual({key: params[key] for key in whole}, whole, node)
                self.assertEqual(params.keys(), node["params"].keys(), node)
                self.assertEqual(sources, [nodes[s]["op"] for s in node["sources"] if s is not None], node)

    def test_where_nodes_and_weights_come_from(self):
        self.open("hash", TINY, "--hash")
        nodes = json.loads(run("graph", TINY, "--json"))["nodes"]
        seen = dict(self.js(ORIGINS))
        for i in [node["id"] for node in nodes if node["kernel"]][::3]:
            why = json.loads(run("graph", TINY, "--why", f"#{i}", "--json"))["nodes"][0]
            made, passes, use = seen[i]
            self.assertEqual(made, [[origin["op"], origin["name"]] for origin in why["origins"]], why)
            self.assertEqual(passes, ", ".join(why["passes"]) or "none changed it", why)
            if why["place"]["space"] == "arena":
                first, last = why["place"]["first_step"], why["place"]["last_step"]
                begin, end = "the start" if first < 0 else f"step {first}", "the end" if last >= len(seen) else f"step {last}"
                self.assertTrue(use.endswith(f"in use from {begin} to {end}"), (use, why))
                self.assertEqual(use.startswith("in place"), why["place"]["in_place"], why)
            for weight in why["weights"]:
                self.js("select(graph.nodes[arguments[0]])", weight["node"])
                shown = self.js(f"{FACTS} return facts(section('In the file'))")
                self.assertEqual((shown["File"], int(shown["Offset"]), shown["XXH64"]), (weight["file"], weight["offset"], weight["xxh64"]), weight)
        self.open("tiny", TINY)
        self.js("select(graph.nodes.find((node) => node.op === 'weight'))")
        self.assertNotIn("XXH64", self.text("#panel"), "it reads all weights, so it must be asked for")
        self.open("llama3-8b", "llama3-8b")
        self.js("select(graph.nodes.find((node) => node.op === 'weight'))")
        self.assertIn("none: made when the model was opened", self.text("#panel"))

    def test_links_lead_to_sources_and_readers(self):
        self.open("tiny", TINY)
        self.js("[...document.querySelectorAll('.card')].find((card) => card.textContent.startsWith('attention')).click()")
        self.assertIn("attention", self.text("#panel h2"))
        self.js("[...document.querySelectorAll('#panel .link')].find((link) => link.textContent.includes('k_cache') || link.textContent.startsWith('k')).click()")
        self.assertTrue(self.js("return selected.leaf || selected.view"), self.text("#panel h2"))
        self.assertTrue(self.all(".card.reads"), "its readers are marked")
        self.js("[...document.querySelectorAll('#panel .link')].find((link) => link.textContent.includes('attention')).click()")
        self.assertIn("attention", self.text("#panel h2"))
        self.click("[aria-label='The same node of the next layer']")
        self.assertEqual(self.facts()["Layer"], "1")
        self.assertEqual(self.texts(".frame .shown"), ["1"], "the graph shows that layer")

    def test_search(self):
        self.open("llama3-8b", "llama3-8b")
        field = self.one("#search")
        field.send_keys("blk.7.ffn_down")
        self.assertEqual(self.texts("#results [role=option] .name"), ["blk.7.ffn_down.weight"])
        field.send_keys(Keys.ENTER)
        self.assertIn("blk.7.ffn_down.weight", self.text("#panel h2"))
        self.assertEqual(self.texts(".frame .shown"), ["7"])
        self.assertEqual(len(self.all(".card.reads")), 1)
        field.clear()
        field.send_keys("attention")
        self.assertEqual(len(self.texts("#results [role=option]")), 32)
        field.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        self.assertEqual(field.get_attribute("aria-activedescendant"), "result-1")
        field.send_keys(Keys.ENTER)
        self.assertEqual((self.facts()["Layer"], self.focused().get_attribute("aria-pressed")), ("1", "true"))
        field.clear()
        field.send_keys("#3")
        self.assertEqual(self.texts("#results [role=option] .name"), ["token_embd.weight"], "the node of that number")
        field.clear()
        field.send_keys("nothing has this")
        self.assertEqual(self.texts("#results li"), ["No node has this"])
        field.send_keys(Keys.ESCAPE)
        self.assertFalse(self.shown("#results"))

    def test_the_keyboard_alone(self):
        self.open("tiny", TINY)
        self.js("document.body.tabIndex = -1; document.body.focus()")
        keys = self.driver.switch_to.active_element
        for _ in range(40):
            self.focused().send_keys(Keys.TAB)
            if "card" in (self.focused().get_attribute("class") or ""):
                break
        else:
            self.fail("the tabulator reaches a card")
        first = self.focused().text
        self.focused().send_keys(Keys.ARROW_DOWN)
        self.assertNotEqual(self.focused().text, first)
        self.focused().send_keys(Keys.ENTER)
        self.assertEqual(self.focused().get_attribute("aria-pressed"), "true")
        self.assertTrue(self.facts()["Node"])
        self.focused().send_keys(Keys.ESCAPE)
        self.assertEqual(self.text("#panel h2"), "Overview")
        self.focused().send_keys(Keys.END)
        last = self.focused().get_attribute("data-node")
        self.focused().send_keys(Keys.ARROW_DOWN)
        self.assertEqual(self.focused().get_attribute("data-node"), last, "there is no card behind the last")
        self.assertTrue(self.js("const r = document.activeElement.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight"), "it is in sight")
        self.focused().send_keys("u")
        self.assertEqual([n for _, n in self.frames()], [1, 1])
        self.js("document.activeElement.blur()")
        keys = self.one("body")
        keys.send_keys("u")
        self.assertEqual([n for _, n in self.frames()], [2])
        before = self.js("return zoom")
        keys.send_keys("-")
        self.assertLess(self.js("return zoom"), before)
        keys.send_keys("0")
        self.assertEqual(self.js("return zoom"), before)
        keys.send_keys("/")
        self.assertEqual(self.focused().get_attribute("id"), "search")
        self.js("document.querySelector('#strip button').focus()")
        self.focused().send_keys(Keys.ARROW_RIGHT, Keys.ENTER)
        self.assertEqual(self.texts(".frame .shown"), ["1"])

    def test_contrast_of_both_themes(self):
        self.open("diff", TINY, "--diff", "after=attention", "after=quantize")
        self.pages.setdefault("profile", page("profile", TINY, "-r", "2", "-q", command="profile"))
        for name in ("diff", "profile"):
            self.open(name)
            for theme in ("light", "dark"):
                set_theme(self.driver, theme)
                self.js("select(null); document.activeElement.blur()")
                self.assert_contrast(f"{name}, {theme}")
                self.js("(document.querySelector('.card.changed') ?? document.querySelector('.card')).click()")
                self.one("#search").send_keys("attn")
                self.assert_contrast(f"{name}, {theme}, a node and the results")
                self.one("#search").clear()

    def test_the_theme_can_be_chosen(self):
        self.open("tiny", TINY)
        ground = lambda: self.js("return getComputedStyle(document.documentElement).backgroundColor")
        light = ground()
        set_theme(self.driver, "dark")
        dark = ground()
        self.assertNotEqual(light, dark)
        for name, expected in (("light", light), ("dark", dark), ("system", dark)):
            self.click("#theme")
            self.assertEqual((self.one("#theme").get_attribute("aria-label"), ground()), (f"Theme: {name}", expected))

    def test_a_narrow_screen_does_not_scroll_sideways(self):
        wide = """return [document.scrollingElement, ...document.querySelectorAll("header, #bar, #panel, #results")].filter((e) => e.checkVisibility()
          && (e.scrollWidth > e.clientWidth || e.getBoundingClientRect().right > innerWidth)).map((e) => `${e.localName}#${e.id} ${e.scrollWidth}`)"""
        for name, args in (("llama3-8b", ("llama3-8b",)), ("delta", ("qwen3.5-35b-a3b",)), ("diff", (TINY, "--diff", "after=attention", "after=quantize"))):
            self.open(name, *args, width=375, height=740)
            self.assertEqual(self.js("return document.scrollingElement.scrollWidth"), 375)
            self.assertEqual(self.js(wide), [], name)
            self.assertFalse(self.shown("#panel"), "the graph has the screen")
            self.js("document.querySelectorAll('.card')[2].click()")
            self.assertEqual(self.js(wide), [], f"{name}, a node")
            card = self.js("const r = document.querySelector('.card[aria-pressed=true]').getBoundingClientRect(); return [r.left, r.right, r.bottom, panel.getBoundingClientRect().top]")
            self.assertTrue(card[0] >= 0 and card[1] <= 375, card)
            self.click("#panel [aria-label^=Close]")
            self.assertFalse(self.shown("#panel"))
            self.click("#overview")
            self.assertEqual(self.js(wide), [], f"{name}, the overview")
            self.one("#search").send_keys("weight")
            self.assertEqual(self.js(wide), [], f"{name}, the results")

    def test_every_control_has_a_name(self):
        self.open("hybrid", HYBRID)
        self.one("#search").send_keys("attn")
        named = self.names()
        self.assertGreaterEqual(len(named), 20)
        self.assertEqual([role for role, name in named if not name.strip()], [], named)
        attention = [name for role, name in named if name.startswith("attention ")]
        self.assertTrue(attention and "f32" in attention[0] or "q8_act" in attention[0], attention)

    def test_the_other_graphs_are_laid_out(self):
        for name, args in (("raw", ("deepseek-v3", "--raw")), ("after", ("granite4-h-1b", "--after", "norm")), ("tokens", (HYBRID, "-n", "16")),
                           ("gemma4", (os.path.join(SOURCE, "tests/golden/tiny/gemma4-mix.gguf"),))):
            self.open(name, *args)
            self.assertEqual(self.js(MISPLACED), [], name)

    def test_ninety_layers_are_small_and_quick(self):
        model = gguf(os.path.join(TMP.name, "deep.gguf"), "deep", 94)
        path = self.open("deep", model)
        self.assertLess(os.path.getsize(path), MOST_BYTES)
        self.assertLess(os.path.getsize(self.open("deep-raw", model, "--raw")), MOST_BYTES)
        self.assertEqual(self.frames(), [["layers 0-93", 94]])
        self.open("deep")
        self.click("#fold-all")
        self.assertEqual(len(self.frames()), 94)
        kernels = sum(node["kernel"] for node in json.loads(run("graph", model, "--json"))["nodes"])
        self.assertEqual(self.js("return document.querySelectorAll('.card').length"), kernels)

    def test_times_of_a_profile(self):
        self.pages.setdefault("profile", page("profile", TINY, "-r", "2", "-q", command="profile"))
        self.open("profile")
        self.assertRegex(self.facts()["Measured"], r"^cpu, .*: [\d.]+ us per token at position 128$")
        self.assertEqual(self.text("#panel .part h3"), "Keys")
        sums = self.js("const us = (nodes) => nodes.reduce((sum, node) => sum + node.us, 0); return [us(graph.nodes), us(graph.nodes.filter((n) => n.kernel)), graph.us]")
        self.assertTrue(sums[0] == sums[1] == sums[2] > 0, sums)
        self.js("[...document.querySelectorAll('.card')].find((card) => card.textContent.startsWith('attention')).click()")
        self.assertRegex(self.facts()["Time"], r"^[\d.]+ (µs|ms) · [\d.]+ GB/s$")
        bars = self.texts("#panel .bars button")
        self.assertEqual(len(bars), 2, "one for each layer")
        self.js("document.querySelectorAll('#panel .bars button')[1].click()")
        self.assertEqual(self.facts()["Layer"], "1")

    def test_a_difference(self):
        sides = ("after=attention", "after=quantize")
        self.open("diff", TINY, "--diff", *sides)
        diff = json.loads(run("graph", TINY, "--diff", *sides, "--json"))
        for status in ("added", "removed", "changed"):
            self.assertEqual(self.js("return graph.nodes.filter((node) => node.status === arguments[0]).map((node) => node.id)", status),
                             [node["b" if status == "changed" else "id"] for node in diff[status]], status)
        titles = [f"{status.capitalize()}: {len(diff[status])}" for status in ("changed", "added", "removed") if diff[status]]
        self.assertEqual(self.texts("#panel .part h3")[:len(titles)], titles)
        self.assertEqual(self.text("#title"), "after=attention → after=quantize")
        changed = next(node for node in diff["changed"] if node["op"] == "mul_mat")
        self.js("select(graph.nodes.find((node) => node.id === arguments[0] && node.status === 'changed'))", changed["b"])
        self.assertEqual(self.text("#panel .status"), "Changed")
        rows = self.js("return [...document.querySelectorAll('#panel .changes tbody tr')].map((tr) => [...tr.children].map((c) => c.textContent))")
        self.assertEqual([row[0] for row in rows], [{"ne": "shape", "nb": "strides", "dtype": "type", "params": "parameters"}.get(key, key) for key in changed["changes"]])
        self.assertNotEqual(rows[0][1], rows[0][2])
        self.assertEqual(self.js(MISPLACED), [])

    def test_removed_nodes_and_old_values(self):
        self.open("diff-raw", "--diff", "nn-6.9b:raw", "nn-6.9b")
        diff = json.loads(run("graph", "--diff", "nn-6.9b:raw", "nn-6.9b", "--json"))
        self.assertEqual(self.js("return graph.nodes.filter((node) => node.status === 'removed').length"), len(diff["removed"]))
        self.assertEqual(self.frames(), [["layers 0-29", 30]])
        cards = self.js("return drawing.cards.filter((card) => card.node.status === 'removed').length")
        self.assertEqual(len(self.all(".card.removed .badge")), cards)
        self.assertGreater(cards, 10)
        node = next(node for node in diff["changed"] if "op" in node["changes"] and node["layer"] == 0)
        self.js("select(graph.nodes.find((node) => node.id === arguments[0] && node.status === 'changed'))", node["b"])
        row = self.js("return [...document.querySelector('#panel .changes tbody tr').children].map((c) => c.textContent)")
        self.assertEqual(row, ["op", *node["changes"]["op"]])

    def test_a_difference_of_times(self):
        sides = [os.path.join(TMP.name, f"times-{side}.json") for side in "ab"]
        dumps = [json.loads(run("profile", TINY, "-r", "1", "-q", "--json")) for _ in sides]
        for path, dump, times in zip(sides, dumps, (2.0, 3.0)):
            for node in dump["graph"]["nodes"]:
                if "us" in node:
                    node["us"] = times
            with open(path, "w", encoding="utf-8") as f:
                json.dump(dump, f)
        self.open("times", "--diff", *sides)
        n = sum(node["kernel"] for node in dumps[0]["graph"]["nodes"])
        self.assertEqual(self.facts()["Time"], f"{2.0 * n:.1f} µs → {3.0 * n:.1f} µs")
        self.js("document.querySelector('.card').click()")
        self.assertEqual((self.facts()["Time of A"], self.facts()["Time"]), ("2.00 µs", "3.00 µs"))
        self.assertIn("B takes 50.0 % more", self.text("#panel"))

    def test_equal_graphs(self):
        self.open("same", "--diff", "tiny", "tiny")
        self.assertIn("There are no differences.", self.text("#panel"))
        self.assertEqual(self.all(".badge"), [])

    def assert_harmless(self):
        self.assertIsNone(self.js("return window.hacked"))
        self.assertEqual(self.js("return [document.images.length, document.scripts.length, document.querySelectorAll('[onerror]').length]"), [0, 2, 0])
        self.assertEqual(self.js("return (document.body.innerText + document.title + [...document.querySelectorAll('*')].map((e) => (e.title ?? '') + (e.ariaLabel ?? '')).join(''))"
                                 ".match(/[\\p{Cf}\\p{Co}]/gu)"), None)

    def test_the_name_of_a_model_is_text(self):
        model = gguf(os.path.join(TMP.name, "hostile.gguf"), f"{MARKUP}{TURNED}", 2)
        path = self.open("hostile", model)
        self.assert_harmless()
        self.assertIn(f"{MARKUP}\\u{{202e}}gnp.exe\\u{{2066}}\\u{{200b}}", self.js("return title.textContent + subtitle.textContent"))
        with open(path, encoding="utf-8") as f:
            text = f.read()
        data = Strict(text).texts("script", type="application/json")
        self.assertTrue(data[0].isascii() and "<" not in data[0])
        self.assertEqual((text.count("</script"), text.count("<!--")), (2, 0))

    def test_the_names_of_a_dump_are_text(self):
        dump = json.loads(run("graph", TINY, "--json"))
        dump["title"] = f"{MARKUP}: {TURNED}"
        for node in dump["nodes"]:
            hostile = {0: MARKUP, 1: TURNED, 2: "__proto__", 3: "constructor", 4: "x" * 3000, 5: "\u05d0\u05d1\u05d2", 6: "\U000e0041\ufeff\u2028", 7: "${1}`\\"}
            node["name"] = hostile[node["id"] % 8]
            node["params"] = {MARKUP.replace("<", "&lt;"): MARKUP, "__proto__": [TURNED]} if node["id"] % 3 else [MARKUP, {"a": TURNED}]
            if node["kernel"]:
                node.update(op=f"op{MARKUP}", dtype=f"t{TURNED}", note=MARKUP, parts=MARKUP, colour="red;} body{display:none}")
                node["source_names"] = [MARKUP, TURNED, "a,b"][:len(node["sources"])]
        path = os.path.join(TMP.name, "hostile.json")
        with open(path, "w") as f:
            json.dump(dump, f)
        self.open("hostile-dump", "--diff", path, TINY)
        self.open("hostile-dump-b", "--diff", TINY, path)
        for name in ("hostile-dump", "hostile-dump-b"):
            self.open(name)
            self.js("foldAll()")
            self.js("for (const node of graph.nodes) if (node.i % 7 === 0) select(node)")
            self.one("#search").send_keys("script")
            self.assert_harmless()
            self.assertEqual(self.js("return document.scrollingElement.scrollWidth"), 1200)
            self.assertEqual(self.js(MISPLACED), [], name)

    def test_odd_dumps(self):
        node = {"id": 7, "op": "add", "name": "", "layer": 4, "dtype": "f32", "ne": [4, 1, 1, 1], "nb": [4, 16, 16, 16], "kernel": True, "output": True, "sources": []}
        far = {**node, "id": 9, "layer": 4000, "sources": [7, None, 7], "params": None}
        leaf = {**node, "op": "weight", "kernel": False, "layer": -1, "name": "only a leaf"}
        for name, a, b in (("odd", [node, far], [node]), ("leaf", [node], [leaf])):
            for side, nodes in (("a", a), ("b", b)):
                with open(os.path.join(TMP.name, f"{name}-{side}.json"), "w") as f:
                    json.dump({"title": "", "nodes": nodes}, f)
            self.open(name, "--diff", *(os.path.join(TMP.name, f"{name}-{side}.json") for side in "ab"))
            self.assertEqual(self.js(MISPLACED), [])
            self.js("foldAll()")
            self.js("for (const node of graph.nodes) select(node)")


if __name__ == "__main__":
    main()
