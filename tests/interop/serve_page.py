"""Tests the web page of `qkv serve` in Chromium, against an invented server (serve_page_mock.py) or a real one.

    /usr/bin/python3 tests/interop/serve_page.py --screenshots /tmp/page
    /usr/bin/python3 tests/interop/serve_page.py --url http://127.0.0.1:8080

Transcription is also checked with a real server, of `build/release/bin/qkv` or --qkv, and a microphone that Chromium invents.
Requires Debian's chromium, chromium-driver and python3-selenium. Each panel is used, by pointer and by keyboard alone; then
every state is checked at phone and desktop width, light and dark: no horizontal page scroll, no overlapping or clipped text,
contrast of at least 4.5, no console messages. With --url, only what any server supports is checked.
"""

import argparse
import array
import json
import math
import struct
import sys
import tempfile
import time
import urllib.request
import wave
import zlib
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

sys.path.insert(0, str(Path(__file__).parent))
import running_server  # noqa: E402
import serve_page_mock  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TALK = ROOT / "tests/apps/golden/audio/talk.flac"
SIZES = [(360, 740), (1280, 800)]
TEXTS = {
    "translate": "The small house by the river is old and nobody lives there any more.",
    "chat": "How are you?",
    "write": "Once upon a time",
    "embed": "A cat sleeps on the sofa.\nA cat naps on the old sofa.\nThe bank raised its interest rates.\nWhere is the station?",
    "classify": "A quiet film that stays with you for days.\nTwo hours that I will not get back.",
    "tag": "Ada Lovelace met Charles Babbage in London.\nThe Royal Society heard of the Analytical Engine.",
    "answer": "Ada Lovelace met Charles Babbage.\nThey spoke of the Engine in Z\u00fcrich.",
    "fill-mask": "The capital of France is [MASK].",
}
HOSTILE = "<script>alert(1)</script> hostile <img src=x onerror=alert(1)> مرحبا שלום 👩‍👩‍👧 " + "w" * 150

# Problems of the page as it is shown.
CHECKS = r"""
const problems = [], vw = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > vw) problems.push(`page is ${document.documentElement.scrollWidth} wide in ${vw}`);
const seen = e => { const s = getComputedStyle(e); return e.checkVisibility() && s.visibility === 'visible' && !e.closest('.hidden-text, .skip, [hidden]'); };
const name = e => `${e.tagName.toLowerCase()}${e.id ? '#' + e.id : ''}.${e.className.baseVal ?? e.className} "${(e.textContent || e.value || '').trim().slice(0, 30)}"`;
const pen = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext('2d', {willReadFrequently: true});
const rgba = colour => {
  const m = colour.match(/^color\(srgb ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+)(?: \/ ([\d.]+))?\)$/);
  if (m) return [255 * m[1], 255 * m[2], 255 * m[3], m[4] === undefined ? 1 : +m[4]];
  pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
  const d = pen.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255];
};
const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const light = c => { const f = [0, 1, 2].map(i => { const v = c[i] / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
const ground = e => { if (!e) return [255, 255, 255, 1]; const c = rgba(getComputedStyle(e).backgroundColor); return c[3] === 1 ? c : over(c, ground(e.parentElement)); };
const leaves = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; node = walker.nextNode();) {
  const e = node.parentElement;
  if (!node.data.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'OPTION', 'TEXTAREA'].includes(e.tagName) || e.closest('.faint') || !seen(e)) continue;
  const range = document.createRange(); range.selectNodeContents(node);
  // Lines that a clamp hides, with an ellipsis, are not shown.
  const bottom = getComputedStyle(e).webkitLineClamp === 'none' ? Infinity : e.getBoundingClientRect().bottom;
  for (const r of range.getClientRects()) if (r.top < bottom - 2 && r.width > 1 && r.height > 1) leaves.push([e, r, node]);
}
const contrastOf = (e, ink, back) => {
  const a = light(over(ink, back)), b = light(back), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.495) problems.push(`contrast ${ratio.toFixed(2)}: ${name(e)} ${ink.map(x => Math.round(x))} on ${back.map(x => Math.round(x))}`);
};
const done = new Set();
for (const [e] of leaves) {
  if (done.has(e) || e.disabled) continue;
  done.add(e);
  const rect = e.namespaceURI.endsWith('svg') && e.parentElement.querySelector(':scope > rect');
  const fill = rect && rgba(getComputedStyle(rect).fill), s = getComputedStyle(e);
  contrastOf(e, rgba(e.namespaceURI.endsWith('svg') ? s.fill : s.color), fill && fill[3] === 1 ? fill : ground(e));
}
for (const e of document.querySelectorAll('input, textarea, select')) if (seen(e)) contrastOf(e, rgba(getComputedStyle(e).color), ground(e));
for (const e of document.querySelectorAll('textarea, input')) if (seen(e)) contrastOf(e, rgba(getComputedStyle(e, '::placeholder').color), ground(e));
// Text on text, what floats above the page excepted.
const floats = e => e.closest('.menu, .tip, dialog');
const flat = leaves.filter(([e]) => !floats(e));
for (let i = 0; i < flat.length; i++) for (let j = i + 1; j < flat.length; j++) {
  const [a, p, m] = flat[i], [b, q, n] = flat[j];
  if (m === n || a.contains(b) && a.closest('.prose, .tagged, .lines') || b.contains(a) && b.closest('.prose, .tagged, .lines')) continue;
  const w = Math.min(p.right, q.right) - Math.max(p.left, q.left), h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
  const inScroll = a.closest('.scroll') !== b.closest('.scroll');
  if (w > 1.5 && h > 4 && !inScroll && problems.length < 40) problems.push(`overlap ${w.toFixed(0)}x${h.toFixed(0)}: ${name(a)} and ${name(b)}`);
}
for (const e of document.querySelectorAll('body *')) {
  if (!seen(e)) continue;
  const s = getComputedStyle(e);
  if (['hidden', 'clip'].includes(s.overflowX) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth && e.textContent.trim() && !e.namespaceURI.endsWith('svg')) problems.push(`clipped ${e.scrollWidth} in ${e.clientWidth}: ${name(e)}`);
  if (e.tagName === 'BUTTON' && e.scrollWidth > e.clientWidth + 1) problems.push(`button too narrow: ${name(e)}`);
}
for (const [e, r] of leaves) if (!e.closest('.scroll') && (r.left < -1 || r.right > vw + 1)) problems.push(`outside the page: ${name(e)}`);
for (const e of document.querySelectorAll('button, select, input, textarea')) {
  if (!seen(e)) continue;
  const label = e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent;
  if (!label.trim()) problems.push(`no label: ${name(e)}`);
}
if (document.querySelector('main script, main img:not(.thumbnails img), #menu script, #tip script')) problems.push('markup came through');
return problems;
"""


def png(width=240, height=180):
    """A picture: a sun over hills."""
    rows = b""
    for y in range(height):
        rows += b"\0"
        for x in range(width):
            sun = (x - 150) ** 2 + (y - 70) ** 2 < 900
            hill = y > 120 + 20 * ((x * 7 % width) / width - 0.5)
            rows += bytes((250, 205, 90) if sun else (60, 120, 70) if hill else (120 + y // 3, 170, 225))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Page:
    def __init__(self, url, folder):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                         "--force-device-scale-factor=1", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options)
        self.url, self.folder, self.problems, self.checks = url, folder, [], 0
        self.size, self.dark = SIZES[1], False
        self.image = folder / "picture.png"
        self.image.write_bytes(png())

    def look(self, size, dark):
        self.size, self.dark = size, dark
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}, {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def open(self, hash=""):
        self.driver.get("about:blank")
        self.driver.get(self.url + "/" + hash)
        if self.run("const kept = sessionStorage.length + localStorage.length; sessionStorage.clear(); localStorage.clear(); return kept"):
            self.driver.refresh()
        self.wait("!document.getElementById('tabs').hidden", "tabs")

    def run(self, script, *values):
        return self.driver.execute_script(script, *values)

    def wait(self, condition, what, seconds=20):
        try:
            WebDriverWait(self.driver, seconds, 0.05).until(lambda _: self.run("return " + condition))
            return True
        except Exception:  # noqa: BLE001
            self.problems.append(f"never happened: {what}")
            return False

    def expect(self, true, what):
        self.checks += 1
        if not true:
            self.problems.append(f"failed: {what}")
            print("  failed:", what)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def fill(self, selector, text):
        self.run("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                 "e.dispatchEvent(new Event('input', {bubbles: true}))", selector, text)

    def submit(self, panel, text=None):
        if text is not None:
            self.fill(f"#{panel}-text", text)
        if panel == "read" and self.run("return !document.getElementById('read-question-label').hidden"):
            self.fill("#read-question", "Whom did she meet? " + text[:20])
        self.run(f"document.querySelector('#{panel}-form .main').click()")
        self.idle(panel)

    def idle(self, panel):
        self.wait(f"!document.getElementById('{panel}-card').classList.contains('busy')", f"{panel} finished", 40)

    def keys(self, *keys):
        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(key).perform()

    def active(self, expression):
        return self.run(f"const e = document.activeElement; return {expression}")

    def snap(self, name):
        """Checks the page as it is, and photographs it."""
        where = f"{name}, {self.size[0]}x{self.size[1]}, {'dark' if self.dark else 'light'}"
        found = self.run(CHECKS)
        self.checks += 1
        self.problems += [f"{where}: {problem}" for problem in found]
        for problem in found[:6]:
            print(f"  {where}: {problem}")
        file = f"{name}-{self.size[0]}-{'dark' if self.dark else 'light'}.png"
        self.driver.save_screenshot(str(self.folder / file))

    def whole(self, name):
        """Photographs the whole page."""
        width, height = self.size
        full = self.run("return document.documentElement.scrollHeight")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": max(full, height), "deviceScaleFactor": 1, "mobile": False})
        self.snap(name)
        self.look(self.size, self.dark)

    def console(self, allowed=()):
        for row in self.driver.get_log("browser"):
            if row["level"] in ("SEVERE", "WARNING") and not any(part in row["message"] for part in allowed):
                self.problems.append(f"console: {row['message']}")
                print("  console:", row["message"])


def looks(page):
    for size in SIZES:
        for dark in (False, True):
            page.look(size, dark)
            yield


def panels(page):
    return page.run("return [...document.querySelectorAll('#tabs button')].map(b => b.id.slice(4))")


def check_generic(page):
    """What any server supports: every panel empty, and used with its model."""
    page.look(SIZES[1], False)
    page.open()
    found = panels(page)
    print("panels:", ", ".join(found))
    page.expect(found, "the page has panels")
    for _ in looks(page):
        page.open()
        for panel in found:
            page.run(f"document.getElementById('tab-{panel}').click()")
            page.snap(f"empty-{panel}")
    for _ in looks(page):
        page.open()
        for panel in found:
            page.run(f"document.getElementById('tab-{panel}').click()")
            if panel == "image":
                page.one("#image-file").send_keys(str(page.image))
                time.sleep(0.3)
                page.idle("image")
                page.whole("image")
                continue
            if panel == "speech":
                page.one("#speech-file").send_keys(str(TALK))
                page.submit("speech")
                page.expect(page.run("return document.getElementById('speech-error').hidden"), "speech gave no error")
                page.whole("speech")
                continue
            if panel in ("write", "chat"):
                page.fill(f"#{panel}-max_tokens", "60")
                page.fill(f"#{panel}-seed", "3")
            kinds = page.run("return location.hash.slice(1)") if panel == "read" else panel
            page.submit(panel, TEXTS[kinds if panel == "read" else panel])
            if kinds != "fill-mask":
                page.expect(page.run(f"return document.getElementById('{panel}-error').hidden"), f"{panel} gave no error")
            page.whole(panel)
    page.console()


def check_checks(page):
    """The checks find what they are for."""
    page.look(SIZES[0], False)
    page.open()
    faults = {"contrast": "color: #b8b8b8", "clipped": "width: 40px; overflow: hidden; white-space: nowrap", "page is": "width: 900px",
              "overlap": "margin-bottom: -20px; height: 20px", "outside": "transform: translateX(-60px)"}
    for problem, style in faults.items():
        page.run("const p = document.createElement('p'); p.id = 'fault'; p.textContent = 'Some words of text'; p.style.cssText = arguments[0];"
                 "const q = document.createElement('p'); q.id = 'after'; q.textContent = 'More words of text';"
                 "document.querySelector('main').prepend(p, q)", style)
        page.expect(any(one.startswith(problem) for one in page.run(CHECKS)), f"a fault is found: {problem}")
        page.run("document.getElementById('fault').remove(); document.getElementById('after').remove()")
    page.expect(page.run(CHECKS) == [], "without faults, none")


def check_load(page, server):
    """The sparkline; no polling in a hidden tab."""
    page.look(SIZES[1], False)
    page.open()
    time.sleep(8.5)
    page.snap("load")
    page.expect(page.run("return document.querySelector('#spark .line').getAttribute('d').split('L').length") >= 3, "a sparkline")
    page.expect(page.one("#queue").text == "2" and page.one("#running").text == "3", "queue and running requests")
    page.run("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});"
             "document.dispatchEvent(new Event('visibilitychange'))")
    time.sleep(0.5)
    before = server.polls
    time.sleep(3)
    page.expect(server.polls == before, "a hidden tab does not poll")
    page.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    time.sleep(0.5)
    page.expect(server.polls == before + 1, "a visible one does")
    page.console()


def check_translate(page, server):
    page.look(SIZES[1], False)
    page.open("#translate")
    page.fill("#translate-text", TEXTS["translate"])
    page.run("document.querySelector('#translate-form .main').click()")
    page.wait("document.querySelectorAll('.target-words .new').length >= 2", "words appear as found")
    page.snap("translate-busy")
    page.idle("translate")
    page.expect(page.one(".target-words").text == serve_page_mock.translated(TEXTS["translate"]), "the translation")
    page.expect(len(page.all("#translate-nbest tbody tr")) == 4, "four hypotheses")
    page.expect(len(page.all("#translate-tree-scroll g.node")) > 20, "a tree")
    page.expect(page.all("#translate-tree-scroll g.node.best"), "its best path")
    before = len(server.seen)
    word = page.all(".target-words .word")[2]
    ActionChains(page.driver).move_to_element(word).perform()
    page.wait("document.querySelector('.line-pair.attending') && !document.getElementById('translate-foot').hidden", "attention comes")
    page.expect([path for path, _ in server.seen[before:]] == ["/v1/attention"], "attention is fetched once, when needed")
    weights = page.run("return [...document.querySelectorAll('.source-words span')].map(e => +e.style.getPropertyValue('--w'))")
    page.expect(max(weights) == 1 and min(weights) < 0.5, f"source words are shaded: {weights}")
    for _ in looks(page):
        page.run("document.activeElement.blur(); document.querySelector('#translate-card').scrollIntoView()")
        ActionChains(page.driver).move_to_element(page.all(".target-words .word")[4]).perform()
        page.snap("translate-attention")
        page.run("document.querySelectorAll('.target-words .word')[2].click()")
        page.wait("document.querySelectorAll('#menu button').length == 5", "alternatives")
        page.snap("translate-menu")
        page.keys(Keys.ESCAPE)
    page.look(SIZES[1], False)
    # A choice in the menu, with the keyboard only.
    page.run("document.querySelectorAll('.target-words .word')[0].focus()")
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
    page.wait("document.querySelectorAll('#menu button').length == 5 && document.activeElement.closest('#menu')", "a menu with focus")
    sent = [body for path, body in server.seen if path == "/v1/translate"][-1]
    page.expect(sent["prefix"] == "das kleine" and sent["alternatives"] == 5 and "nbest" not in sent, f"the prefix: {sent}")
    page.keys(Keys.ARROW_DOWN)
    chosen = page.active("e.querySelector('b').textContent")
    page.expect(chosen == "Gebäude", f"the second alternative: {chosen}")
    page.keys(Keys.ENTER)
    page.idle("translate")
    page.expect(page.one(".target-words").text.startswith("das kleine Gebäude am"), "the translation continues from the choice")
    page.expect(page.active("e.textContent") == "Gebäude", "focus stays on the word")
    page.expect(len(page.all(".word.forced")) == 3, "chosen words are marked")
    for _ in looks(page):
        page.whole("translate-chosen")
    page.look(SIZES[1], False)
    page.keys(Keys.ENTER)
    page.wait("document.querySelectorAll('#menu button').length == 5", "the menu opens")
    page.keys(Keys.ESCAPE)
    page.expect(page.active("e.textContent") == "Gebäude", "Escape gives focus back")
    # The tree, with the keyboard only.
    page.run("document.querySelector('g.node[tabindex=\"0\"]').focus()")
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    page.expect("Step 3" in (page.active("e.getAttribute('aria-label')") or ""), "arrow keys move in the tree")
    page.wait("!document.getElementById('tip').hidden", "a tooltip in the tree")
    for _ in looks(page):
        page.run("document.activeElement.blur(); document.querySelector('#translate-tree-card').scrollIntoView({block: 'end'});"
                 "document.querySelectorAll('g.node.best')[3].focus()")
        page.snap("translate-tree")
    page.look(SIZES[1], False)
    page.run("document.getElementById('translate-pruned').click()")
    page.expect(not page.all("g.node.pruned:not(.best)"), "pruned candidates can be hidden")
    page.run("document.querySelectorAll('#translate-nbest button')[1].click()")
    page.expect("shown" in page.all("#translate-nbest tbody tr")[1].get_attribute("class"), "another hypothesis is shown")
    # Several lines, one of which fails; an error of the whole request; a newer request ends an older one.
    page.submit("translate", "The house is old.\nThis will fail here.\nNobody lives there.")
    page.expect(len(page.all(".line-pair")) == 3 and len(page.all(".line-pair .error")) == 1, "three lines, one error")
    for _ in looks(page):
        page.snap("translate-lines")
    page.look(SIZES[1], False)
    page.console()
    page.submit("translate", "refuse")
    page.expect("<b>bold</b>" in page.one("#translate-error").text, "the server's message is shown as text")
    page.snap("translate-error")
    page.console(["400"])
    page.fill("#translate-text", "slow")
    page.run("document.querySelector('#translate-form .main').click()")
    page.submit("translate", "The house")
    page.expect(page.one(".target-words").text == "das Haus", "a newer request ends an older one")
    page.run("document.getElementById('translate-beam').value = '1'")
    page.submit("translate", "The house is old.")
    page.expect(page.run("return document.getElementById('translate-nbest-card').hidden"), "greedy search has no n-best list")
    # Another model, without attention: alignments are shown.
    page.run("const m = document.getElementById('model'); m.value = 'marian-small'; m.dispatchEvent(new Event('change'))")
    page.submit("translate", "The house is old.")
    page.expect([body for path, body in server.seen if path == "/v1/translate"][-1]["model"] == "marian-small", "the chosen model")
    page.run("document.querySelectorAll('.target-words .word')[1].focus()")
    weights = page.run("return [...document.querySelectorAll('.source-words span')].map(e => +e.style.getPropertyValue('--w'))")
    page.expect(weights[1] == 1 and sum(weights) == 1, f"alignments shade source words: {weights}")
    page.console()


def check_write(page, server):
    page.open("#write")
    page.fill("#write-max_tokens", "30")
    page.fill("#write-top_k", "40")
    page.fill("#write-seed", "5")
    page.submit("write", TEXTS["write"])
    page.expect(len(page.all("#write-out .token")) == 30, "thirty tokens")
    sent = server.seen[-1][1]
    page.expect("seed 5" in page.one("#write-stats").text, "the seed is told")
    page.expect((sent["top_k"], sent["seed"], sent["temperature"], sent["logprobs"]) == (40, 5, 0.8, 5) and "min_p" not in sent, f"sampling: {sent}")
    labels = [token.get_attribute("aria-label") for token in page.all("#write-out .token")]
    chances = [float(label.removesuffix(" %").split()[-1]) / 100 for label in labels]
    perplexity = math.exp(-sum(map(math.log, chances)) / len(chances))
    shown = float(page.one("#write-stats").text.split("perplexity ")[-1].split()[0])
    page.expect(abs(shown / perplexity - 1) < 0.02, f"perplexity: expected {perplexity:.2f}, found {shown}")
    page.expect(page.one("#write-stage").text == "Ended at the limit", "the reason for the end")
    page.fill("#write-seed", "")
    page.submit("write", TEXTS["write"])
    first = server.seen[-1][1]["seed"]
    page.submit("write")
    page.expect(server.seen[-1][1]["seed"] != first, "without a seed, each click draws one")
    page.submit("write", "full")
    page.expect(page.one("#write-stage").text == "Context full", "the end of the context is named")
    page.submit("write", TEXTS["write"])
    for _ in looks(page):
        page.run("document.activeElement.blur(); document.querySelectorAll('#write-out .token')[7].focus()")
        page.wait("document.querySelectorAll('#tip tr').length >= 3", "a tooltip with alternatives")
        page.snap("write-tip")
    page.keys(Keys.ARROW_RIGHT, Keys.END)
    page.expect(page.active("e.dataset.at") == "29", "arrow keys move among tokens")
    page.fill("#write-max_tokens", "400")
    page.run("document.querySelector('#write-form .main').click()")
    page.wait("document.querySelectorAll('#write-out .token').length > 5", "tokens stream")
    page.run("document.getElementById('write-stop').focus()")
    page.keys(Keys.ENTER)
    page.idle("write")
    count = len(page.all("#write-out .token"))
    page.expect(5 < count < 400 and page.one("#write-stage").text == "Stopped", f"Stop stops: {count}")
    time.sleep(0.4)
    page.expect(len(page.all("#write-out .token")) == count, "nothing comes after Stop")
    page.console()
    page.fill("#write-max_tokens", "20")
    page.submit("write", "refuse")
    page.expect("1024" in page.one("#write-error").text, "the server's message")
    page.console(["400"])


def check_chat(page, server):
    said = "return [...document.querySelectorAll('#chat-log .turn')].map(turn => turn.querySelector(':scope > .said').textContent)"
    page.look(SIZES[1], False)
    page.open("#chat")
    page.expect(page.active("e === document.body") and page.one("#chat-again").get_attribute("disabled"), "nothing to regenerate yet")
    page.submit("chat", "Hello")
    page.expect(page.run(said) == ["Hello", "Answer 1 to <b>Hello</b>."], f"a turn and its answer, as text: {page.run(said)}")
    page.expect(page.one("#chat-text").get_attribute("value") == "", "the message is gone from its field")
    page.expect("seed 77" in page.one("#chat-stats").text and "9 + 4 tokens" in page.one("#chat-stats").text, "tokens and seed")
    sent = server.seen[-1][1]
    page.expect(set(sent) == {"model", "messages", "stream", "stream_options"}, f"the model's own sampling: {sent}")
    # By keyboard: system text, sampling, template variables, a message of two lines.
    page.fill("#chat-system", "Answer briefly.")
    page.fill("#chat-temperature", "0.5")
    page.fill("#chat-variables", '{"enable_thinking": false}')
    page.run("document.getElementById('chat-text').focus()")
    page.keys("one")
    ActionChains(page.driver, duration=0).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    page.keys("two", Keys.ENTER)
    page.wait("document.querySelectorAll('#chat-log .turn').length === 4", "Enter sends")
    page.idle("chat")
    sent = server.seen[-1][1]
    page.expect([message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "user"], f"the history: {sent}")
    page.expect(sent["messages"][-1]["content"] == "one\ntwo" and sent["messages"][2]["content"] == "Answer 1 to <b>Hello</b>.", "its texts")
    page.expect((sent["temperature"], sent["chat_template_kwargs"]) == (0.5, {"enable_thinking": False}), "settings")
    page.expect(page.active("e.id") == "chat-text", "focus stays in the field")
    # Regenerate asks again without the last answer; Copy; a reload keeps the conversation.
    page.run("document.getElementById('chat-again').click()")
    page.idle("chat")
    page.expect(server.seen[-1][1]["messages"] == sent["messages"] and len(page.all("#chat-log .turn")) == 4, "Regenerate replaces the answer")
    before = page.run(said)
    page.driver.refresh()
    page.wait("!document.getElementById('panel-chat').hidden", "the chat")
    page.expect(page.run(said) == before and len(before) == 4, "a reload keeps the conversation")
    page.run("window.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { copied.push(text); }}, configurable: true})")
    page.all("#chat-log .turn.assistant .plain")[1].click()
    page.one("#chat-copy").click()
    copied = page.run("return copied")
    page.expect(copied[0] == before[3] and copied[1].startswith("You: Hello\n\nsmollm2-instruct: Answer 1"), f"copied: {copied}")
    # Stop ends the answer and keeps what there is.
    page.fill("#chat-text", "a long story")
    page.run("document.querySelector('#chat-form .main').click()")
    page.wait("document.querySelectorAll('#chat-log .turn').length === 6 && document.querySelector('.turn:last-child .said').textContent.length > 60", "an answer begins")
    page.snap("chat-busy")
    page.run("document.getElementById('chat-stop').focus()")
    page.keys(Keys.ENTER)
    page.idle("chat")
    kept = page.run(said)[-1]
    page.expect(60 < len(kept) < 2000 and page.one("#chat-stage").text == "Stopped", f"Stop stops: {len(kept)}")
    page.expect(page.active("e.id") == "chat-text", "focus goes to the field")
    time.sleep(0.4)
    page.expect(page.run(said)[-1] == kept, "nothing comes after Stop")
    page.submit("chat", "think")
    page.expect(server.seen[-1][1]["messages"][-2]["content"] == kept, "a stopped answer is part of the history")
    page.expect(page.run(said)[-1].startswith("Answer 8") and "short" in page.one(".turn:last-child details .said").get_attribute("textContent"), "reasoning is folded")
    page.fill("#chat-max_tokens", "3")
    page.submit("chat", "Hello again")
    page.expect(page.one("#chat-stage").text == "Ended at the limit", "the limit is named")
    page.console()
    # Images go with the next message, and stay with it.
    page.fill("#chat-max_tokens", "")
    page.one("#chat-files").send_keys(f"{page.image}\n{page.image}")
    page.wait("document.querySelectorAll('#chat-images img').length === 2", "two images are added")
    page.all("#chat-images button")[1].click()
    page.expect(len(page.all("#chat-images img")) == 1 and page.active("e.closest('#chat-images') !== null"), "one is removed; focus stays there")
    page.snap("chat-images")
    page.submit("chat", "What is this?")
    sent = server.seen[-1][1]["messages"][-1]["content"]
    page.expect([part["type"] for part in sent] == ["image_url", "text"] and sent[0]["image_url"]["url"].startswith("data:image/"), "it is sent")
    page.expect("1 images and What is this?" in page.run(said)[-1], "with the text")
    page.expect(len(page.all("#chat-log .turn.user img")) == 1 and not page.all("#chat-images img"), "it is in the log")
    page.console()
    # Errors stay out of the history; the message can be sent again.
    page.submit("chat", "refuse this")
    page.expect("2048 tokens" in page.one("#chat-error").text and page.run(said)[-1] == "refuse this", "the server's message")
    page.expect(not page.one("#chat-again").get_attribute("disabled"), "it can be asked again")
    page.fill("#chat-variables", "{")
    page.run("document.getElementById('chat-again').click()")
    page.idle("chat")
    page.expect("Template variables" in page.one("#chat-error").text, "malformed variables are named")
    page.fill("#chat-variables", "")
    page.console(["400"])
    for _ in looks(page):
        page.whole("chat-error")
    page.look(SIZES[1], False)
    page.one("#chat-reset").click()
    page.expect(page.run(said) == [] and page.run("return document.getElementById('chat-error').hidden"), "a new chat is empty")
    page.fill("#chat-max_tokens", "")
    for text in ("Hello", "think about it", "tell me a long story", "Some code?"):
        page.submit("chat", text)
    code = page.run("const said = document.querySelector('.turn:last-child > .said'); return [said.querySelector('pre').textContent,"
                    "said.querySelector('code').textContent, said.querySelector('strong').textContent, said.lastChild.data]")
    page.expect(code[0].startswith("const a = '<b>';\n  go(a);") and code[0].endswith("far ") and "`" not in code[0], f"fenced code: {code}")
    page.expect(code[1:] == ["plain", "short", "That is all, 2 ** 3 ** 4."], f"inline marks: {code}")
    for _ in looks(page):
        page.run("const log = document.getElementById('chat-log'); log.scrollTop = log.scrollHeight; document.activeElement.blur()")
        page.snap("chat")
    page.console()


def check_others(page):
    page.look(SIZES[1], False)
    page.open("#embed")
    page.expect(page.run("return document.getElementById('model').value") == "all-minilm-l6", "the sentence-transformers folder")
    page.submit("embed", TEXTS["embed"])
    page.expect(len(page.all("#embed-map tbody td:not(.self)")) == 12, "a similarity for each pair")
    page.expect(page.one("#embed-note").text.startswith("Closest: 1 and 2"), "the closest pair")
    page.submit("embed", "one")
    page.expect("at least two" in page.one("#embed-error").text, "one sentence is not enough")
    page.submit("embed", "\n".join(f"Sentence number {i} {'is long ' * i}" for i in range(12)))
    for _ in looks(page):
        page.whole("embed-many")
    for task in ("classify", "tag", "answer", "fill-mask"):
        page.look(SIZES[1], False)
        page.open(f"#{task}")
        page.expect(page.one("#tab-read").get_attribute("aria-selected") == "true", f"#{task} opens its panel")
        page.submit("read", TEXTS[task])
        for _ in looks(page):
            page.whole(task)
        page.look(SIZES[1], False)
    page.open("#answer")
    page.submit("read", TEXTS["answer"])
    page.expect(page.one("#read-out mark").text == "Lovelace" and len(page.all("#read-out .name")) == 5, "the answer is marked in its text")
    page.fill("#read-question", "")
    page.run("document.querySelector('#read-form .main').click()")
    page.expect(page.run("return document.activeElement.id") == "read-question", "an empty question is asked for")
    page.open("#fill-mask")
    page.submit("read", TEXTS["fill-mask"])
    page.expect(page.one("#read-out .name").text == "paris", "mask candidates")
    page.submit("read", "no mask\nA [MASK] and a [MASK].")
    page.expect(len(page.all("#read-out .error")) == 1 and len(page.all("#read-out .labels")) == 2, "an error and two masks")
    page.open("#tag")
    page.submit("read", "Für Ada Lovelace 👩 in London.")
    marks = [mark.text for mark in page.all("#read-out mark bdi")]
    page.expect(marks == ["Ada Lovelace", "London"], f"offsets in bytes: {marks}")
    page.open("#image")
    page.one("#image-file").send_keys(str(page.image))
    page.wait("document.querySelectorAll('#image-labels li').length == 5", "labels of the image")
    page.idle("image")
    picture = "return document.getElementById('image-canvas').toDataURL()"
    rollout = page.run(picture)
    page.run("document.querySelectorAll('#image-views button')[1].click()")
    page.expect(page.run(picture) != rollout, "a head differs from the rollout")
    page.run("const h = document.getElementById('image-head'); h.value = '2'; h.dispatchEvent(new Event('change'))")
    page.expect("head 3" in page.one("#image-canvas").get_attribute("aria-label"), "the head is named")
    for _ in looks(page):
        page.whole("image-head")
    # A model of images and texts labels by what is asked for.
    page.run("const m = document.getElementById('model'); m.value = 'clip-vit-base'; m.dispatchEvent(new Event('change'))")
    page.idle("image")
    page.expect(not page.all("#image-labels li") and page.one("#image-own").is_displayed(), "no labels of its own")
    page.one("#image-own").send_keys("a cat, a dog\n")
    page.wait("document.querySelectorAll('#image-labels li').length == 2", "labels of one's own")
    page.expect("a dog" in page.one("#image-labels").text, "they are those asked for")
    for _ in looks(page):
        page.whole("image-own")
    page.run("const m = document.getElementById('model'); m.value = 'vit-base'; m.dispatchEvent(new Event('change'))")
    page.wait("document.querySelectorAll('#image-labels li').length == 5", "labels of the model")
    page.expect(not page.one("#image-own").is_displayed(), "no labels to be given")
    page.idle("image")
    # Dropped, and in a format that the browser cannot show.
    page.run("const data = new DataTransfer(); data.items.add(new File(['P6'], 'photo.ppm'));"
             "document.getElementById('image-card').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))")
    page.wait("document.getElementById('image-caption').textContent === 'photo.ppm'", "a dropped file")
    page.idle("image")
    page.expect("rollout" in page.one("#image-canvas").get_attribute("aria-label"), "its rollout is drawn")
    page.console()


def check_speech(page, server):
    """Against the invented server: states that a real one does not have at will."""
    page.look(SIZES[1], False)
    page.open("#speech")
    page.expect(page.one("#tab-speech").get_attribute("aria-selected") == "true", "#speech opens its panel")
    page.run("document.querySelector('#speech-form .main').click()")
    page.expect(page.active("e.id") == "speech-file", "without a file, it is asked for")
    page.one("#speech-file").send_keys(str(TALK))
    page.run("document.getElementById('speech-words').click()")
    page.submit("speech")
    page.expect(len(page.all("#speech-out li")) == 3 and len(page.all("#speech-out .token")) == 18, "segments of words")
    texts = page.run("return [...document.querySelectorAll('#speech-out p')].map(p => p.textContent)")
    page.expect(texts == ["The house by the river is old.", "Nobody lives there --> any more, they say.", "It was sold."], f"each with its own: {texts}")
    tints = page.run("return [...document.querySelectorAll('#speech-out .token')].map(e => +e.style.getPropertyValue('--w'))")
    chances = [float(word.get_attribute("aria-label").removesuffix(" %").split()[-1]) / 100 for word in page.all("#speech-out .token")]
    page.expect(all(abs(1 - p - w) < 0.006 for p, w in zip(chances, tints)) and max(tints) > 0.3, f"tints: {tints}, {chances}")
    page.expect(page.one("#speech-facts").text.startswith("Haitian Creole, detected \u00b7 0:04 \u00b7 in "), f"facts: {page.one('#speech-facts').text}")
    page.expect(page.one("#speech-legend").is_displayed(), "a legend of the tints")
    for _ in looks(page):
        page.run("document.activeElement.blur(); document.querySelectorAll('#speech-out .token')[8].focus()")
        page.wait("document.querySelector('#tip').textContent.includes('probability')", "a tooltip of a word")
        page.snap("speech-tip")
        page.run("document.activeElement.blur()")
    page.look(SIZES[1], False)
    # What is being played: segment and word, also without a sound that plays.
    page.wait("document.getElementById('speech-out').classList.contains('playable')", "the sound can be played")
    page.run("document.getElementById('speech-player').currentTime = 2.25")
    page.wait("document.querySelectorAll('#speech-out .token.on').length === 1", "a word is marked")
    on = page.run("return [...document.querySelectorAll('#speech-out .on')].map(e => e.textContent)")
    page.expect(on == ["0:01Nobody lives there --> any more, they say.", "any"], f"what is marked: {on}")
    page.expect(page.one("#speech-out li.on").get_attribute("aria-current") == "true", "it is told to screen readers")
    for _ in looks(page):
        page.whole("speech-playing")
    page.look(SIZES[1], False)
    # Keys: segments are one stop, words another; Enter plays.
    page.run("document.querySelector('#speech-out .time[tabindex=\"0\"]').focus()")
    page.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    page.expect(page.active("e.getAttribute('aria-label')") == "Play from 0:03: It was sold.", "arrow keys move from segment to segment")
    page.keys(Keys.ENTER)
    page.wait("!document.getElementById('speech-player').paused && document.querySelectorAll('#speech-out li')[2].matches('.on')", "Enter plays it")
    page.run("document.getElementById('speech-player').pause(); document.querySelector('#speech-out .token[tabindex=\"0\"]').focus()")
    page.keys(Keys.END)
    page.expect(page.active("e.textContent") == "sold.", "arrow keys move from word to word")
    page.keys(Keys.SPACE)
    page.wait("!document.getElementById('speech-player').paused && document.getElementById('speech-player').currentTime > 3.9", "a word is played")
    page.run("document.getElementById('tab-image').click()")
    page.expect(page.run("return document.getElementById('speech-player').paused"), "another tab is silent")
    page.run("document.getElementById('tab-speech').click()")
    # Translation has no words.
    page.run("document.getElementById('speech-translate').click()")
    page.expect(not page.one("#speech-words").is_displayed(), "translation has no words")
    page.submit("speech")
    path, body = server.seen[-1]
    page.expect(path == "/v1/audio/translations" and set(body) == {"model", "response_format", "file"}, f"translation: {path}, {set(body)}")
    page.expect(body["file"] == TALK.read_bytes() and not page.all("#speech-out .token") and not page.one("#speech-legend").is_displayed(), "the file, and no words")
    page.expect("Haitian Creole, detected \u00b7 translated to English" in page.one("#speech-facts").text, "it is told")
    page.driver.refresh()
    page.wait("!document.getElementById('panel-speech').hidden", "the panel")
    page.expect(page.run("return ['translate', 'words'].map(id => document.getElementById(`speech-${id}`).checked)") == [True, True], "a reload keeps the options")
    page.run("document.getElementById('speech-translate').click()")
    page.console()
    # Stop; a newer file ends what runs.
    page.one("#speech-file").send_keys(str(TALK))
    page.fill("#speech-language", "slow")
    page.run("document.querySelector('#speech-form .main').click()")
    page.wait("document.getElementById('speech-stage').textContent === 'Transcribing \u00b7 0:01'", "the time that passes")
    page.snap("speech-busy")
    page.run("document.getElementById('speech-stop').focus()")
    page.keys(Keys.ENTER)
    page.idle("speech")
    page.expect(page.one("#speech-stage").text == "Stopped" and not page.all("#speech-out li"), "Stop stops")
    page.expect(page.active("e.textContent") == "Transcribe" and page.one("#speech-stop").get_attribute("disabled"), "focus goes to the button that begins")
    page.fill("#speech-language", "none")
    page.submit("speech")
    page.expect(page.one("#speech-empty").text == "No speech was found." and not page.one("#speech-copy").is_displayed(), "silence")
    page.expect(page.one("#speech-facts").text.startswith("Haitian Creole \u00b7 0:00"), "a language that is given is not detected")
    page.snap("speech-none")
    page.fill("#speech-language", "long")
    page.submit("speech")
    page.expect(len(page.all("#speech-out li")) == 120, "a long text")
    page.run("document.querySelectorAll('#speech-out li')[2].click()")
    page.wait("document.querySelectorAll('#speech-out li')[2].matches('.on')", "it is played")
    page.run("document.getElementById('speech-player').pause()")
    for _ in looks(page):
        page.snap("speech-long")
    page.look(SIZES[1], False)
    page.console()
    # Errors of the server, and of the microphone.
    page.fill("#speech-language", "large")
    page.submit("speech")
    page.expect(page.one("#speech-error").text == "body: expected at most 8388608 bytes, found more. The server takes more if it is started with --body-bytes.", "a file that is too large")
    page.console(["413"])
    page.fill("#speech-language", "refuse")
    page.submit("speech")
    page.expect("found 'refuse'" in page.one("#speech-error").text, "the server's message")
    page.console(["400"])
    for refusal, told in (("NotAllowedError", "not allowed"), ("NotFoundError", "no microphone"), ("OddError", "cannot be used: odd")):
        page.run("navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('odd', arguments[0]); }".replace("arguments[0]", repr(refusal)))
        page.one("#speech-record").click()
        page.wait("!document.getElementById('speech-sound-error').hidden", "the refusal is shown")
        page.expect(told in page.one("#speech-sound-error").text and page.one("#speech-record").text == "Record", f"{refusal}: {page.one('#speech-sound-error').text}")
    for _ in looks(page):
        page.whole("speech-errors")
    page.look(SIZES[1], False)
    hide = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "Object.defineProperty(navigator, 'mediaDevices', {value: undefined})"})
    page.open("#speech")
    page.expect(not page.one("#speech-record").is_displayed(), "without mediaDevices, no button to record")
    page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", hide)
    # Pasted, dropped; a sound that the browser does not play; hostile texts.
    page.open("#speech")
    page.expect(page.one("#speech-record").is_displayed(), "with them, it is there")
    page.run("const data = new DataTransfer(); data.items.add(new File(['x'], '<b>odd</b>.aiff'));"
             "document.body.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true}))")
    page.wait("document.getElementById('speech-caption').textContent.includes('cannot play')", "a sound that cannot be played")
    page.expect(page.one("#speech-name").text == "<b>odd</b>.aiff", "a pasted file")
    page.run("document.getElementById('speech-words').click()")
    page.fill("#speech-language", "hostile")
    page.submit("speech")
    page.expect(all(button.get_attribute("disabled") for button in page.all("#speech-out .time")), "its times are no buttons")
    for _ in looks(page):
        page.whole("hostile-speech")
    page.look(SIZES[1], False)
    page.run("const data = new DataTransfer(); data.items.add(new File(['x'], 'dropped.wav'));"
             "document.getElementById('speech-form').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))")
    page.expect(page.one("#speech-name").text == "dropped.wav" and not page.all("#speech-out li"), "a dropped file; the old text is gone")
    page.console()


def form(fields):
    """The body of a form, and its type."""
    parts = b"".join(b'--boundary\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value) for name, value in fields)
    return parts + b"--boundary--\r\n", "multipart/form-data; boundary=boundary"


def check_sound(page, qkv, folder):
    """Against a real server: transcripts, files of subtitles, the microphone, its limits, its headers."""
    old, limit = page.url, 500_000
    process, page.url = running_server.start(qkv, {"whisper-tiny": ROOT / "tests/apps/golden/hub/whisper-tiny"}, "--body-bytes", limit)

    def answer(*fields):
        data, kind = form([("file", TALK.read_bytes()), *((name, value.encode()) for name, value in fields)])
        reply = urllib.request.urlopen(urllib.request.Request(f"{page.url}/v1/audio/transcriptions", data, {"Content-Type": kind}), timeout=60)
        return reply.read().decode()
    try:
        policy = urllib.request.urlopen(page.url + "/", timeout=5).headers["Content-Security-Policy"]
        page.expect("media-src 'self' blob:" in policy and "script-src" not in policy, f"the policy: {policy}")
        page.look(SIZES[1], False)
        page.open()
        page.expect(panels(page) == ["speech"] and page.run("return location.hash") == "#speech", "a server that transcribes has this panel")
        page.one("#speech-file").send_keys(str(TALK))
        page.submit("speech")
        expected = json.loads(answer(("response_format", "verbose_json")))
        shown = page.run("return [...document.querySelectorAll('#speech-out p')].map(p => p.textContent)")
        page.expect(shown == [one["text"].strip() for one in expected["segments"]] and len(shown) > 2, f"segments: {shown}")
        page.expect(page.one("#speech-facts").text.startswith(f"{expected['language'].title()}, detected \u00b7 0:05"), f"facts: {page.one('#speech-facts').text}")
        # Subtitles, made in the page, are the server's.
        page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder.resolve())})
        for kind in ("srt", "vtt"):
            file = folder / f"talk.{kind}"
            file.unlink(missing_ok=True)
            page.one(f"#speech-{kind}").click()
            WebDriverWait(page.driver, 10, 0.05).until(lambda _, file=file: file.exists() and file.stat().st_size)
            page.expect(file.read_text() == answer(("response_format", kind)), f"the file of {kind}")
        page.run("window.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { copied.push(text); }}, configurable: true})")
        page.one("#speech-copy").click()
        page.expect(page.run("return copied") == [expected["text"]], "the text is copied")
        # A click on a segment plays from there.
        page.wait("document.getElementById('speech-out').classList.contains('playable')", "the sound can be played")
        last = max(i for i, one in enumerate(expected["segments"]) if one["start"] < 5 and one["end"] > one["start"])
        page.all("#speech-out li")[last].click()
        page.wait("!document.getElementById('speech-player').paused", "it plays")
        page.expect(page.run("return document.getElementById('speech-player').currentTime") >= expected["segments"][last]["start"] - 0.01, "from there")
        page.wait("document.getElementById('speech-player').ended", "it plays to its end")
        # Words.
        page.run("document.getElementById('speech-words').click()")
        page.fill("#speech-language", "de")
        page.submit("speech")
        expected = json.loads(answer(("response_format", "verbose_json"), ("language", "de"), ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")))
        shown = page.run("return [...document.querySelectorAll('#speech-out .token')].map(e => [e.textContent.trim(), +e.style.getPropertyValue('--w')])")
        page.expect([word for word, _ in shown] == [one["word"].strip() for one in expected["words"]] and len(shown) > 5, f"words: {shown}")
        page.expect(all(abs(1 - one["probability"] - w) < 0.001 for one, (_, w) in zip(expected["words"], shown)), f"their tints: {shown}")
        page.expect(page.one("#speech-facts").text.startswith("German \u00b7 0:05"), "the language that is given")
        for _ in looks(page):
            page.whole("sound-words")
        page.look(SIZES[1], False)
        page.run("document.getElementById('speech-translate').click()")
        page.submit("speech")
        page.expect(page.run("return document.getElementById('speech-error').hidden") and page.all("#speech-out li"), "translation")
        page.fill("#speech-language", "Klingon")
        page.submit("speech")
        page.expect("language" in page.one("#speech-error").text, f"an unknown language: {page.one('#speech-error').text}")
        page.console(["400"])
        page.fill("#speech-language", "")
        # The microphone: Chromium's beeps. By keyboard alone.
        page.run("window.files = []; const url = URL.createObjectURL; URL.createObjectURL = file => { files.push(file); return url(file); }")
        page.run("document.getElementById('speech-record').focus()")
        page.keys(Keys.ENTER)
        page.wait("document.getElementById('speech-clock').textContent === '0:02'", "the clock runs")
        page.expect(page.one("#speech-record").text == "Stop recording" and page.one("#speech-recording").is_displayed(), "the button stops now")
        for _ in looks(page):
            page.snap("sound-recording")
        page.look(SIZES[1], False)
        page.keys(Keys.ENTER)
        page.wait("document.getElementById('speech-name').textContent === 'recording.wav'", "a recording")
        page.wait("document.getElementById('speech-out').classList.contains('playable')", "which can be played")
        page.expect(page.one("#speech-record").text == "Record" and page.active("e.id") == "speech-record" and not page.one("#speech-recording").is_displayed(), "recording has ended")
        heard = folder / "recording.wav"
        heard.write_bytes(bytes(page.driver.execute_async_script(
            "const done = arguments[0]; files.at(-1).arrayBuffer().then(data => done([...new Uint8Array(data)]))")))
        with wave.open(str(heard)) as file:
            page.expect((file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000), "16-bit, mono, 16 kHz")
            heard = array.array("h", file.readframes(file.getnframes()))
        page.expect(max(heard) > 1000 and 1.9 < len(heard) / 16000 < 8, f"beeps: {max(heard)}, {len(heard) / 16000} s")
        page.run("document.getElementById('speech-translate').click()")
        page.submit("speech")
        page.expect(page.run("return document.getElementById('speech-error').hidden"), f"the server reads it: {page.one('#speech-error').text}")
        page.expect(abs(page.run("return document.getElementById('speech-player').duration") - len(heard) / 16000) < 0.001, "its length")
        page.console()
        # Above the server's limit; a format that browsers do not play.
        large = folder / "large.wav"
        with wave.open(str(large), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(bytes(4 * limit))
        page.one("#speech-file").send_keys(str(large))
        page.submit("speech")
        page.expect(page.one("#speech-error").text == f"body: expected at most {limit} bytes, found more. The server takes more if it is started with --body-bytes.", f"a large file: {page.one('#speech-error').text}")
        page.console(["413"])
        sound = array.array("h", [int(8000 * math.sin(i / 9)) for i in range(16000)])
        sound.byteswap()
        body = struct.pack(">4sIhIh10s", b"COMM", 18, 1, len(sound), 16, bytes.fromhex("400cfa00000000000000")) + struct.pack(">4sIII", b"SSND", 2 * len(sound) + 8, 0, 0) + sound.tobytes()
        aiff = folder / "tone.aiff"
        aiff.write_bytes(struct.pack(">4sI4s", b"FORM", len(body) + 4, b"AIFF") + body)
        page.one("#speech-file").send_keys(str(aiff))
        page.wait("document.getElementById('speech-caption').textContent.includes('cannot play')", "the browser does not play AIFF")
        page.submit("speech")
        page.expect(page.one("#speech-facts").text.count("0:01") == 1, f"the server reads it: {page.one('#speech-error').text}")
        page.snap("sound-aiff")
        page.console()
    finally:
        page.url = old
        process.terminate()
        process.wait(30)


def check_kept(page):
    """Over a reload: what was written, and the theme."""
    page.look(SIZES[1], False)
    page.open("#write")
    page.fill("#write-text", "Once upon")
    page.fill("#write-top_k", "7")
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.one("#theme").click()
    dark = page.run(ground)
    page.expect(dark != light and page.one("#theme").text == "Light", f"the theme changes: {light}, {dark}")
    page.driver.refresh()
    page.wait("!document.getElementById('tabs').hidden", "tabs")
    kept = page.run("return ['write-text', 'write-top_k', 'translate-text'].map(id => document.getElementById(id).value)")
    page.expect(kept == ["Once upon", "7", ""], f"the text stays: {kept}")
    page.expect(page.run(ground) == dark, "the theme stays")
    page.whole("kept")
    page.look(SIZES[1], True)
    page.one("#theme").click()
    page.expect(page.run(ground) == light, "light in a dark system")
    page.console()


def check_keyboard(page):
    page.look(SIZES[1], False)
    page.open()
    page.keys(Keys.TAB)
    page.expect(page.active("e.className") == "skip", "first, a link to the content")
    page.keys(Keys.TAB)
    page.expect(page.active("e.id") == "model", "then the model")
    page.keys(Keys.TAB)
    page.expect(page.active("e.id") == "theme", "then the theme")
    page.keys(Keys.TAB)
    page.expect(page.active("e.getAttribute('role')") == "tab", "then the tabs, as one stop")
    page.keys(Keys.ARROW_RIGHT)
    page.expect(page.active("e.id") == "tab-chat" and page.run("return location.hash") == "#chat", "arrow keys change the tab")
    page.keys(Keys.END)
    page.expect(page.active("e.id") == "tab-image", "End: the last tab")
    page.keys(Keys.HOME, Keys.TAB)
    page.expect(page.active("e.id") == "translate-text", "then the panel")
    page.keys("The house is old.")
    ActionChains(page.driver, duration=0).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    page.wait("document.querySelector('#translate-card').classList.contains('busy') || document.querySelector('.word')", "Ctrl+Enter translates")
    page.idle("translate")
    stops = []
    page.run("document.getElementById('translate-text').focus()")
    for _ in range(16):
        page.keys(Keys.TAB)
        stops.append(page.active("e.id || e.getAttribute('class') || e.tagName"))
        ring = page.active("(s => s.outlineStyle !== 'none' || getComputedStyle(e.querySelector('rect') || e).strokeWidth === '3px' || e === document.body)(getComputedStyle(e))")
        page.expect(ring, f"visible focus on {stops[-1]}")
    page.expect(any("word" in stop for stop in stops) and any("node" in stop for stop in stops), f"words and tree are reached: {stops}")
    page.expect(sum("word" in stop.split() for stop in stops) == 1, f"words are one stop: {stops}")
    page.console()


def check_hostile(page):
    for _ in looks(page):
        page.open("#translate")
        page.submit("translate", HOSTILE + "\n" + "مرحبا بكم في العالم")
        page.run("document.querySelectorAll('.target-words .word')[0].focus()")
        page.whole("hostile-translate")
        page.run("document.querySelectorAll('.target-words .word')[0].click()")
        page.wait("document.querySelectorAll('#menu button').length > 1", "alternatives of hostile text")
        page.snap("hostile-menu")
        for panel, task in (("chat", "chat"), ("write", "write"), ("embed", "embed"), ("read", "classify"), ("read", "tag"), ("read", "answer"), ("read", "fill-mask")):
            page.open("#" + task)
            if panel == "write":
                page.fill("#write-max_tokens", "60")
            text = HOSTILE.replace("\n", " ")
            page.submit(panel, text + "\nsecond" if panel == "embed" else text + " [MASK]" if task == "fill-mask" else text)
            page.whole(f"hostile-{task}")
        page.expect(page.run("return document.querySelectorAll('script').length") == 1, "no script came in")
    page.console()


def check_states(page, folder):
    """Loading, nothing loaded, one model, a key, no server."""
    key = serve_page_mock.Server(key="secret", models=["gpt2"]).start()
    page.url = key.url
    page.look(SIZES[1], False)
    page.driver.get(page.url)
    page.wait("document.getElementById('key-dialog').open", "the key is asked for")
    for _ in looks(page):
        page.snap("key")
    page.keys("wrong", Keys.ENTER)
    page.wait("document.getElementById('key-dialog').open && document.getElementById('key-note').textContent.includes('not accept')", "asked again")
    page.keys("secret", Keys.ENTER)
    page.wait("!document.getElementById('tabs').hidden", "the key is accepted")
    page.expect(panels(page) == ["write"], "only the panel that the model supports")
    page.snap("one-model")
    page.console(["401"])
    none = serve_page_mock.Server(models=[]).start()
    page.driver.get(none.url)
    page.wait("document.getElementById('start-text').textContent.startsWith('No model')", "no model")
    for _ in looks(page):
        page.snap("no-model")
    page.console()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a running `qkv serve`, instead of the invented server")
    parser.add_argument("--screenshots", type=Path, help="folder for screenshots; default: a new temporary folder")
    parser.add_argument("--only", help="a check: generic, translate, chat, write, others, speech, sound, kept, keyboard, hostile, checks, load, states")
    parser.add_argument("--qkv", type=Path, default=ROOT / "build/release/bin/qkv", help="the program of a real server")
    arguments = parser.parse_args()
    folder = arguments.screenshots or Path(tempfile.mkdtemp(prefix="serve-page-"))
    folder.mkdir(parents=True, exist_ok=True)
    server = None if arguments.url else serve_page_mock.Server().start()
    page = Page(arguments.url.rstrip("/") if arguments.url else server.url, folder)
    checks = {"generic": lambda: check_generic(page)}
    if server:
        checks |= {"translate": lambda: check_translate(page, server), "chat": lambda: check_chat(page, server),
                   "write": lambda: check_write(page, server),
                   "others": lambda: check_others(page), "speech": lambda: check_speech(page, server),
                   "sound": lambda: check_sound(page, arguments.qkv, folder), "kept": lambda: check_kept(page), "keyboard": lambda: check_keyboard(page),
                   "hostile": lambda: check_hostile(page), "checks": lambda: check_checks(page), "load": lambda: check_load(page, server), "states": lambda: check_states(page, folder)}
    try:
        for name, check in checks.items():
            if not arguments.only or name in arguments.only.split(","):
                print(f"{name} ...", flush=True)
                check()
    finally:
        page.driver.quit()
    print(f"screenshots: {folder}")
    print(f"{page.checks} checks, {len(page.problems)} problems")
    for problem in page.problems:
        print("  " + problem)
    sys.exit(1 if page.problems else 0)


if __name__ == "__main__":
    main()
