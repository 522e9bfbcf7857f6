"""`reprise train plot`: the picture of a log, and of logs with any values that a log can have.

    test_plot.py PROGRAM SOURCE_DIR
"""

import math
import os
import random
import re
import resource
import signal
import sys
import xml.etree.ElementTree
from decimal import Decimal

from cli_program import TMP, expect, expect_refusal, ok, run, run_tests, temporary

SVG = "{http://www.w3.org/2000/svg}"
LARGEST, SMALLEST = sys.float_info.max, 5e-324
MAX_BYTES = 1 << 20


def path(name):
    return os.path.join(TMP.name, name)


def contents(name):
    with open(path(name), "rb") as f:
        return f.read()


def limit_files():
    """A picture without an end must not fill the disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_BYTES, MAX_BYTES))


def draw(log):
    """The picture of the log at the path `log`: its bytes and its elements."""
    r = run("train", "plot", log, "-o", path("plot.svg"), preexec_fn=limit_files)
    expect(r.code == 0 and r.err == "", "a picture", (log, r))
    data = contents("plot.svg")
    return data, xml.etree.ElementTree.fromstring(data)


def path_points(d):
    """The points of a path of M, L, H, V and h, absolute."""
    x = y = 0.0
    for letter, numbers in re.findall(r"([MLHVh])([^MLHVh]*)", d):
        values = [float(v) for v in numbers.split()]
        if letter in "ML":
            x, y = values
        else:
            (value,) = values
            x, y = (x + value, y) if letter == "h" else (value, y) if letter == "H" else (x, value)
        yield x, y
    expect(re.sub(r"[MLHVh][-0-9. ]*", "", d) == "", "only M, L, H, V and h", d)


def check_inside(svg):
    """All coordinates are finite and inside the picture, also those of the ends of texts."""
    _, _, width, height = (float(v) for v in svg.get("viewBox").split())
    points = []
    for e in svg.iter(SVG + "path"):
        points += path_points(e.get("d"))
    for e in svg.iter(SVG + "circle"):
        points.append((float(e.get("cx")), float(e.get("cy"))))
    for e in svg.iter(SVG + "text"):
        x, y = float(e.get("x")), float(e.get("y"))
        wide = float(e.get("textLength", 6.7 * len(e.text)))
        left = x - wide * {"end": 1.0, "middle": 0.5, None: 0.0}[e.get("text-anchor")]
        points += [(left, y), (left + wide, y)]
    for x, y in points:
        expect(math.isfinite(x) and math.isfinite(y) and 0 <= x <= width + 1 and 0 <= y <= height, "inside the picture", (x, y))


def axis(svg, top, bottom):
    """The labels of the upright axis between two heights: [(value, y)] from above."""
    labels = [(Decimal(e.text), float(e.get("y")) - 4.0) for e in svg.iter(SVG + "text") if e.get("text-anchor") == "end"]
    return sorted(((v, y) for v, y in labels if top - 1 <= y <= bottom + 1), key=lambda label: label[1])


def check_axis(labels):
    expect(2 <= len(labels) <= 30, "a few labels", labels)
    expect(all(a[0] > b[0] for a, b in zip(labels, labels[1:])), "labels differ and rise", labels)
    (top, y0), (bottom, y1) = labels[0], labels[-1]
    for value, y in labels:
        share = float((value - bottom) / (top - bottom))
        expect(abs(y1 - share * (y1 - y0) - y) < 1.5, "evenly spaced", labels)


def height_of(value, labels):
    (top, y0), (bottom, y1) = labels[0], labels[-1]
    return y1 - float((Decimal(value) - bottom) / (top - bottom)) * (y1 - y0)


# ---- ordinary logs ----


def test_plot_draws_the_log():
    log = path("plot.jsonl")
    with open(log, "w") as f:
        f.write('{"step":0,"validation_loss":8.5,"sequences":3}\n')
        for i in range(1, 2001):
            f.write('{"step":%d,"loss":%.3f,"balance":%.3f,"expert_load":[[0.5,0.5]]}\n' % (i, 3 + 5 * 0.998**i, 1.5))
            if i % 500 == 0:
                f.write('{"step":%d,"validation_loss":%.3f,"sequences":3}\n' % (i, 3.2 + 5 * 0.998**i))
    r = ok(run("train", "plot", log))
    ok(run("train", "plot", log, "-o", path("plot.svg")))
    expect(r.out == contents("plot.svg") and r.err == "", "file and standard output", r)
    svg = xml.etree.ElementTree.fromstring(r.text)
    curves = {e.get("class"): e.get("d") for e in svg.iter(SVG + "path") if "L" in e.get("d")}
    texts = [e.text for e in svg.iter(SVG + "text")]
    expect(set(curves) == {"loss", "smoothed", "validation", "balance", "even"}, "curves", set(curves))
    expect(len(list(svg.iter(SVG + "circle"))) == 5, "validations have points")
    expect(500 < curves["loss"].count("L") < 1000, "not more points than pixels", curves["loss"].count("L"))
    for words in ("loss, nats per token", "validation: lowest 3.291 at step 2000", "mean of 41 steps", "2000", "step", "8"):
        expect(words in texts, words, texts)
    # the last point of the curve of the validation: x of step 2000, y between the labels 3 and 4
    x, y = (float(v) for v in curves["validation"].split("L")[-1].split())
    place = {e.text: float(e.get("y")) - 4.0 for e in svg.iter(SVG + "text") if e.get("text-anchor") == "end"}
    expect(abs(x - 936.0) < 0.2 and abs(y - (place["3"] + 0.2912 * (place["4"] - place["3"]))) < 1.0, "in its place", (x, y, place))
    ok(run("train", "plot", "-", stdin=b'{"step":1,"loss":2}\n'))
    ok(run("train", "plot", "-", stdin=b'{"step":1,"loss":2}\n{"step":1,"validation_loss":null}'))


def test_plot_names_the_line_of_a_mistake():
    for text, words in [
        (b'{"step":1,"loss":2}\n{"step":2,"loss":', ":2:"),
        (b'{"step":1,"loss":2}\nnonsense\n', ":2:"),
        (b'{"step":1,"loss":2}\nnan\n', ":2:"),
        (b'{"step":nan,"loss":2}\n', ':1: "step" is missing or not a whole number'),
        (b'{"step":1,"loss":nano}\n', ":1:"),
        (b'{"step":1,"loss":1e999}\n', ":1:"),
        (b'{"step":1,"loss":2}\n\n{"step":1,"loss":2}\n', ":3: step 1 after step 1"),
        (b'{"loss":2}\n', ':1: "step" is missing or not a whole number'),
        (b'{"step":-1,"loss":2}\n', ':1: "step" is missing or not a whole number'),
        (b'{"step":1,"loss":"x"}\n', ':1: "loss" is not a number'),
        (b'{"step":1,"loss":"NaN"}\n', ':1: "loss" is not a number'),
        (b'{"step":1}\n', ':1: neither "loss" nor "validation_loss"'),
        (b"[1,2]\n", ':1: "step" is missing or not a whole number'),
        (b"", "there are no steps in it"),
        (b'{"step":0,"validation_loss":2}\n', "there are no steps in it"),
    ]:
        log = temporary("bad.jsonl", text)
        expect_refusal(run("train", "plot", log, "-o", path("bad.svg")), 1, log, words)
    expect_refusal(run("train", "plot", path("gone.jsonl")), 1, path("gone.jsonl"))
    expect_refusal(run("train", "plot"), 2, "FILE is needed")
    expect_refusal(run("train", "polt", "x"), 2, "did you mean `reprise train plot`?")
    expect(not os.path.exists(path("bad.svg")), "no output")


# ---- any values ----


def log_of(name, losses, validations=(), balances=(), first=1, each=1):
    """Each value is a number, None, or a word to write as it is."""
    lines, word = [], lambda v: v if isinstance(v, str) else "null" if v is None else repr(v)
    for i, loss in enumerate(losses):
        balance = ',"balance":' + word(balances[i]) if i < len(balances) else ""
        lines.append('{"step":%d,"loss":%s%s}' % (first + i * each, word(loss), balance))
        if i < len(validations):
            lines.append('{"step":%d,"validation_loss":%s}' % (first + i * each, word(validations[i])))
    return temporary(name, "\n".join(lines).encode())


def near(value, n):
    """n values, each one representable number above the one before."""
    values = [value]
    while len(values) < n:
        values.append(math.nextafter(values[-1], math.inf))
    return values


def check(losses, validations=(), balances=(), **steps):
    log = log_of("hostile.jsonl", losses, validations, balances, **steps)
    data, svg = draw(log)
    expect(len(data) < 40000 + 120 * (len(losses) + len(validations)), "a small picture", len(data))
    check_inside(svg)
    labels = axis(svg, 52, 372)
    check_axis(labels)
    if balances:
        check_axis(axis(svg, 416, 546))
    drawn = [e for e in svg.iter(SVG + "circle")]
    shown = [v for v in validations if isinstance(v, float) and math.isfinite(v)]
    if len(validations) <= 200:
        expect(len(drawn) == len(shown), "a point for each validation that is a number", (len(drawn), len(shown)))
        for e, value in zip(drawn, shown):
            y = float(e.get("cy"))
            expect(abs(y - height_of(value, labels)) < 1.5, "a point in its place", (value, y, labels))
    return svg


def test_axes_have_an_end_for_any_values():
    for losses in [
        [2.0],
        [0.0],
        [-0.0, 0.0],
        [7.5] * 300,
        near(3.0, 2),
        near(1e17, 2),
        near(1e300, 3),
        near(-1e9, 3),
        near(123456.789, 5),
        [SMALLEST],
        [SMALLEST, -SMALLEST],
        near(0.0, 4),
        [1e-310, 3e-310],
        [1e308],
        [1e308, 1e308],
        [LARGEST, LARGEST],
        [LARGEST, -LARGEST],
        [-LARGEST, 3.0, LARGEST],
        [LARGEST] * 500,
        [1e308, 3.0, 2.5],
        [1e17, 3.0],
        [999999.0, 1000000.0],
        [1e6, 1e6 + 1e-6],
        [12345678.0, 12345679.0],
    ]:
        check(losses, validations=[float(v) for v in losses][:200])
        check(losses, balances=losses)


def test_values_that_are_no_numbers_leave_gaps():
    for word in (None, "NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "-inf"):
        svg = check([3.0, word, 2.0, 1.5, word], validations=[word, 2.5, word], balances=[1.0, word, word, 2.0])
        paths = [e for e in svg.iter(SVG + "path") if "h20" not in e.get("d")]  # not those of the legend
        d = {e.get("class"): e.get("d") for e in reversed(paths)}
        expect([d["smoothed"].count("M"), d["validation"].count("M")] == [2, 1], "gaps", d)
        expect("h0" in d["validation"], "a point alone is a dot", d)
        for texts in svg.iter(SVG + "text"):
            expect("nan" not in texts.text and "inf" not in texts.text, "no such label", texts.text)
        check([word])
        check([word] * 300, [word] * 3, [word] * 300)
    # of two quotes in one string, only the second ends it
    _, svg = draw(temporary("q.jsonl", b'{"step":1,"loss":2,"note":"\\" nan \\\\"}\n{"step":2,"loss":nan}\n'))
    check_inside(svg)


def test_steps_may_be_any_whole_numbers():
    for first, each, n in [(0, 1, 1), (2**63 - 1, 1, 1), (0, 2**62, 2), (1, 2**53, 900), (10**7, 1, 30), (0, 123456789, 40), (0, 1, 10)]:
        check([3.0 - i / n for i in range(n)], first=first, each=each)
    # a value of the balance after the last loss
    _, svg = draw(temporary("late.jsonl", b'{"step":1,"loss":2}\n{"step":900,"validation_loss":null,"balance":1.5}\n'))
    check_inside(svg)


def test_random_logs():
    rng = random.Random(20261124)
    special = [0.0, -0.0, SMALLEST, -SMALLEST, 1e-300, 1.0, 3.0, 1e17, 1e300, -1e300, 1e308, -1e308, LARGEST, -LARGEST]
    words = [None, "NaN", "Infinity", "-Infinity", "-nan", "inf"]

    def value():
        kind = rng.random()
        if kind < 0.3:
            return rng.choice(special)
        if kind < 0.4:
            return rng.choice(words)
        return rng.uniform(-1, 1) * 10.0 ** rng.uniform(-320, 308)

    def values(n):
        kind = rng.randrange(4)
        if kind == 0:
            return [value() for _ in range(n)]
        base = 10.0 ** rng.uniform(-300, 307) * rng.choice([1, -1])
        if kind == 1:
            return [base * (1 + rng.randrange(8) * sys.float_info.epsilon) for _ in range(n)]
        if kind == 2:
            return [base] * n
        return [base * (1 + rng.random()) if rng.random() < 0.9 else value() for _ in range(n)]

    for _ in range(150):
        n = rng.choice([1, 2, 3, 50, 99, 100, 101, 1500])
        check(
            values(n),
            values(rng.randrange(min(n, 210) + 1)),
            values(rng.randrange(n + 1)),
            first=rng.choice([0, 1, 10**6]),
            each=rng.choice([1, 7, 10**9, 2**50]),
        )


def test_any_name_of_a_log_is_a_title():
    text = b'{"step":1,"loss":2}\n{"step":2,"loss":1}\n'
    for name, shown in [
        (b"a<b>&c\"d'.jsonl", "a<b>&c\"d'.jsonl"),
        (b"\xff\xfe.jsonl", "\ufffd\ufffd.jsonl"),
        (b"a\x01b\x1b[2J\x7f.jsonl", "a\\x01b\\x1b[2J\\x7f.jsonl"),
        ("a\x85b\u00a0\u00e9\u20ac\U0001f600.jsonl".encode(), "a\\x85b\u00a0\u00e9\u20ac\U0001f600.jsonl"),
        ("\ufffe\uffff\ufffd.jsonl".encode(), "\ufffd\ufffd\ufffd.jsonl"),
        (b"\xed\xa0\x80 \xc3 \xe2\x82 \xf0\x9f \xc0\xaf\xf4\x90\x80\x80.jsonl", None),
        (b"]]>\xc2", "]]>\ufffd"),
        (b"\r\n\t&#0;", "\\x0d\n\t&#0;"),
    ]:
        log = os.path.join(os.fsencode(TMP.name), name)
        with open(log, "wb") as f:
            f.write(text)
        _, svg = draw(log)
        title = svg.find(SVG + "title").text
        expect(title.startswith(TMP.name), "the path", title)
        if shown is not None:
            expect(title == os.path.join(TMP.name, shown), "the name", (title, shown))


run_tests(dict(globals()))
