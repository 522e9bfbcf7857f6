#!/usr/bin/env python3
"""Draws docs/pictures/page-light.png, page-dark.png and page-phone.png: the page with an answer of the mock server. With
REPRISE, the program, only graph-page.png: the page of `reprise graph --html` of the demo model.

    pictures.py [--graph REPRISE] [FOLDER]

Needs chromium, chromium-driver, python3-selenium, fonts-inter and fonts-jetbrains-mono, and pngquant for small files."""
import pathlib
import subprocess
import sys
import tempfile
import time

from browser import HANG_S, missing, open_browser, set_size, set_theme
from mock_server import MockServer, showcase

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TITLES = ["Explain split-KV attention", "Shell script for backups", "Haiku about memory bandwidth", "Review of a merge request"]
OTHERS = """arguments[0].forEach((title, i) => localStorage.setItem(`reprise.conversation.${i}`,
  JSON.stringify({ id: String(i), title, named: true, updated: 1e12 - i, messages: [{ role: "user", content: title }] })));"""
QUESTION = "What is the difference between Q4_0 and Q4_1?"


def wait(driver, script):
    end = time.monotonic() + HANG_S
    while not driver.execute_script(f"return {script}"):
        if time.monotonic() > end:
            raise RuntimeError(f"never true: {script}")
        time.sleep(0.02)


def save(driver, path):
    driver.save_screenshot(str(path))
    subprocess.run(["pngquant", "--force", "--skip-if-larger", "--quality=80-100", "--output", path, path], check=False)
    print(path, path.stat().st_size // 1024, "KiB")


def draw_graph(program, folder):
    with tempfile.TemporaryDirectory() as temporary:
        page = pathlib.Path(temporary) / "graph.html"
        subprocess.run([program, "graph", SOURCE / "assets/demo.gguf", "--html", page], check=True)
        driver = open_browser()
        set_size(driver, 1200, 900, 1.5)
        set_theme(driver, "light")
        driver.get(f"file://{page}")
        driver.execute_script("document.documentElement.style.fontFamily = 'Inter'; select(graph.nodes.find((node) => node.op === 'linear'), { move: false })")
        time.sleep(0.3)
        save(driver, folder / "graph-page.png")
        driver.quit()


def main():
    graph = sys.argv[1:2] == ["--graph"]
    arguments = sys.argv[3 if graph else 1:]
    folder = pathlib.Path(arguments[0] if arguments else SOURCE / "docs/pictures")
    if missing():
        sys.exit(f"not installed: {missing()}")
    if graph:
        draw_graph(sys.argv[2], folder)
        return
    server = MockServer()
    server.models = ["mock-server"]
    server.default = showcase(0.01)
    driver = open_browser()
    set_size(driver, 1200, 800)
    driver.get(server.url)
    driver.execute_script(OTHERS, TITLES)
    driver.refresh()
    driver.execute_script("document.documentElement.style.fontFamily = 'Inter'")
    wait(driver, "document.getElementById('model-name').textContent.startsWith('mock')")
    driver.find_element("id", "input").send_keys(QUESTION, "\n")
    wait(driver, "!document.querySelector('.answer .actions').hidden")
    driver.execute_script("document.getElementById('input').blur()")
    for name, theme, width, height, scale in (("light", "light", 1200, 900, 1.5), ("dark", "dark", 1200, 900, 1.5), ("phone", "light", 360, 720, 2)):
        set_theme(driver, theme)
        set_size(driver, width, height, scale)
        driver.execute_script("document.getElementById('scroll').scrollTop = 0")
        time.sleep(0.3)
        save(driver, folder / f"page-{name}.png")
    driver.quit()
    server.close()


if __name__ == "__main__":
    main()
