#!/usr/bin/env python3
"""The gain of prompt lookup: tokens a second of `reprise generate` without and with --lookup, in turns.

    bench/lookup.py MODEL [-k 8] [-n 160] [-r 3] [-t 2]

MODEL is a chat model with the format chatml. There are four requests. Each runs greedily, and with temperature 0.7 and a fixed
seed. The texts of both runs are compared: a guess must not change a reply. Cells are medians (lowest .. highest) of -r processes."""
import argparse
import re
import statistics
import subprocess
import sys

from compare_llama import ROOT, cell

CODE = """import math


class Circle:
    def __init__(self, radius):
        self.radius = radius

    def area(self):
        return math.pi * self.radius ** 2

    def perimeter(self):
        return 2 * math.pi * self.radius


class Rectangle:
    def __init__(self, width, height):
        self.width = width
        self.height = height

    def area(self):
        return self.width * self.height

    def perimeter(self):
        return 2 * (self.width + self.height)


def total_area(shapes):
    total = 0
    for shape in shapes:
        total += shape.area()
    return total
"""
ARTICLE = (
    "The city council voted on Tuesday to build a new bridge over the river. The old bridge, which was opened in 1931, was closed to trucks last "
    "year after engineers found cracks in two of its piers. The new bridge will have four lanes for cars, a lane for buses and a wide path for "
    "bicycles. It will cost 84 million euros, of which the state pays one half. Work begins in the spring and will take three years. Until then "
    "the old bridge stays open for cars. The mayor said that the bridge was the most important project of the decade. The owners of shops near "
    "the river fear that they will lose customers while the road is closed. The council promised to pay them for their losses, and to open a "
    "ferry for pedestrians.")
REQUESTS = {
    "edit code": f"Rename the class Circle to Disc and return the whole file.\n\n```python\n{CODE}```",
    "summarise": f"Summarise this article in a few sentences.\n\n{ARTICLE}",
    "correct a text": f"Correct the spelling of this text and repeat it:\n\n{ARTICLE}",
    "tell a story": "Tell a story about a fox and a lighthouse.",
}


def generate(args, prompt, temperature, more):
    """The text, the tokens per second of decode, and what the summary says of guesses."""
    command = [args.reprise, "generate", args.model, "-p", f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n", "-n", str(args.n),
               "--temp", temperature, "-s", "5", "-t", str(args.t), *more]
    run = subprocess.run(command, capture_output=True, text=True)
    speed = re.search(r"^decode .*?([0-9.]+) tok/s", run.stderr, re.MULTILINE)
    if run.returncode != 0 or not speed:
        sys.exit(f"reprise generate failed: {run.stderr.strip()[-1000:]}")
    guesses = re.search(r"^guesses +(\d+) of (\d+)", run.stderr, re.MULTILINE)
    return run.stdout, float(speed[1]), f"{guesses[1]} of {guesses[2]}" if guesses else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-k", type=int, default=8, help="guesses a step, at most")
    parser.add_argument("-n", type=int, default=160, help="tokens of a reply")
    parser.add_argument("-r", type=int, default=3, help="processes of each kind")
    parser.add_argument("-t", type=int, default=2, help="threads")
    parser.add_argument("--reprise", default=str(ROOT / "build" / "reprise"), help="the program to measure")
    args = parser.parse_args()
    print("| request | temperature | tok/s without | with lookup | ratio | guesses that were right |\n|---|---|---|---|---|---|")
    for name, prompt in REQUESTS.items():
        for temperature in ("0", "0.7"):
            plain, lookup, texts, right = [], [], set(), "-"
            for _ in range(args.r):
                for speeds, more in ((plain, []), (lookup, ["--lookup", str(args.k)])):
                    text, speed, guesses = generate(args, prompt, temperature, more)
                    speeds.append(speed)
                    texts.add(text)
                    right = guesses
            if len(texts) != 1:
                sys.exit(f"{name}, temperature {temperature}: the replies differ")
            print(f"| {name} | {temperature} | {cell(plain)} | {cell(lookup)} | {statistics.median(lookup) / statistics.median(plain):.2f} | {right} |", flush=True)


if __name__ == "__main__":
    main()
