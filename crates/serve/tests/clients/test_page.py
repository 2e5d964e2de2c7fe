"""The page of the server in headless Chromium, under load. `ci/serve.sh` runs it where `chromium` is installed; a folder as argument gets
pictures."""

import json
import re
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from playwright.sync_api import expect, sync_playwright
from program import Program

KEY = "anns-secret-key"
# A client's text comes back in errors: it must stay text.
MARKUP = "<img src=x onerror=alert(1)>"


class Server(Program):
    """A model, and keys."""

    def prepare(self, folder):
        models = folder / "models"
        models.mkdir()
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [x], [y])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), models / "same.onnx")
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"ann": {"keys": [KEY]}}))
        return [models, "--keys", keys]


def post(server, name="x"):
    tensor = {"name": name, "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    request = urllib.request.Request(f"http://{server.http}/v2/models/same/infer", json.dumps({"inputs": [tensor]}).encode(), {"X-API-Key": KEY})
    try:
        urllib.request.urlopen(request, timeout=20).read()
    except urllib.error.HTTPError as error:
        error.read()


def load(server, over):
    while not over.is_set():
        post(server)
        post(server, MARKUP)


def until(page, what):
    """Waits for it. `wait_for_function` would need `eval`, which the page forbids."""
    for _ in range(200):
        if page.evaluate(what):
            return
        time.sleep(0.1)
    raise AssertionError(what)


def looked_at(server, browser, scheme, folder):
    said, asked = [], []
    page = browser.new_page(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"http://{server.http}/")
    # Without a mouse: to the key, and in.
    expect(page.locator("#key")).to_be_visible(timeout=20_000)
    for _ in range(5):
        if page.evaluate("document.activeElement.id") == "key":
            break
        page.keyboard.press("Tab")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("Ready", timeout=20_000)
    expect(page.locator("#models th[scope=row]")).to_have_text("same 1", timeout=20_000)
    expect(page.locator("#errors")).to_contain_text(MARKUP, timeout=20_000)
    until(page, "parseFloat(document.querySelector('#models td').textContent) > 0")
    until(page, "document.querySelectorAll('#streams rect[height]:not([height=\"0\"])').length > 1")
    # Pause holds everything still.
    page.focus("#pause")
    page.keyboard.press("Space")
    assert page.get_attribute("#pause", "aria-pressed") == "true"
    held = page.inner_text("#streams-text"), page.inner_html("#models")
    time.sleep(2.5)
    assert held == (page.inner_text("#streams-text"), page.inner_html("#models"))
    page.keyboard.press("Space")
    # Names for those who hear the page.
    for role, name in (("main", None), ("heading", "Models"), ("region", "Models"), ("img", "Streams"), ("status", None), ("button", "Pause")):
        assert page.get_by_role(role, **({"name": name} if name else {})).first.is_visible(), (role, name)
    assert contrast(page, "body") >= 7 and contrast(page, ".quiet") >= 4.5
    # Nothing from elsewhere, and no picture of the client's.
    assert {re.sub(r"^http://[^/]*", "", url) for url in asked} == {"/", "/events"}, asked
    # Without a key the first attempt is refused, which Chromium says.
    assert all("401" in text for text in said), said
    if folder:
        page.screenshot(path=folder / f"{scheme}.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "it fits a telephone"
    if folder:
        page.screenshot(path=folder / f"{scheme}-small.png")
    return page


def contrast(page, selector):
    """Of a text and the page behind it, as WCAG reckons it."""
    def light(colour):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    text = page.eval_on_selector(selector, "found => getComputedStyle(found).color")
    behind = page.eval_on_selector("body", "found => getComputedStyle(found).backgroundColor")
    low, high = sorted((light(text), light(behind)))
    return (high + 0.05) / (low + 0.05)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    over = threading.Event()
    with Server() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        callers = [threading.Thread(target=load, args=(server, over)) for _ in range(4)]
        for caller in callers:
            caller.start()
        try:
            for scheme in ("light", "dark"):
                page = looked_at(server, browser, scheme, folder)
                print(f"the page, {scheme}: ok", flush=True)
        finally:
            over.set()
            for caller in callers:
                caller.join()
        # It says so when the server ends.
        server.process.terminate()
        expect(page.locator("#status")).to_contain_text("connection is lost", timeout=20_000)
        browser.close()


if __name__ == "__main__":
    main()
