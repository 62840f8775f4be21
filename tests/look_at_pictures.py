"""`make pictures`: pictures of rebalances in a real browser, on light and dark ground, on paper and
without colours.

    python -m tests.look_at_pictures [FOLDER]

Checks that each picture of a page is drawn without an error and has marks, that nothing is loaded,
that no text is cut off, lies over another one, is too small or hard to read on its ground, and that
a mark shows its sentence when the mouse is over it; and writes screenshots into the folder for
people to look at. It needs Debian's packages chromium and chromium-driver, which CI does not have:
what is in the pictures is tested without a browser, too (tests/unit/trace/pictures).
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aktor.trace.pictures import draw
from aktor.trace.rebalances import read_files
from examples import incidents
from tests.unit.trace.pictures.many import many

PORT = 9515

#: Of the window, in pixels.
WIDTH = 1250

#: Moves the mouse over a mark of the first picture: a callback, if there is one.
_MOVE = """
const marks = [...document.querySelectorAll("#picture-0 .mark-rect path")];
const mark = marks.find(one => (one.getAttribute("aria-label") || "").includes("callback"))
  || marks.find(one => one.getBoundingClientRect().width > 20);
mark.scrollIntoView({block: "center"});
const box = mark.getBoundingClientRect();
const at = {bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2};
for (const kind of ["pointerover", "mouseover", "pointermove", "mousemove"])
  mark.dispatchEvent(new (kind.startsWith("p") ? PointerEvent : MouseEvent)(kind, at));
"""


#: What is wrong with the texts and marks of the pictures on this page, in sentences.
_FAULTS = """
const wrong = [];
const parts = colour => (colour.match(/[\\d.]+/g) || [0, 0, 0]).slice(0, 3).map(Number);
const light = colour => {
  const [r, g, b] = parts(colour).map(one => one / 255)
    .map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
for (const figure of document.querySelectorAll("figure")) {
  const name = figure.getAttribute("aria-label"), svg = figure.querySelector("svg");
  const ground = getComputedStyle(svg).backgroundColor, edge = svg.getBoundingClientRect();
  if (edge.right > innerWidth + 1) wrong.push(`${name}: it is wider than the page`);
  const marks = [...figure.querySelectorAll(".mark-rect path, .mark-symbol path, .mark-rule line")];
  if (!marks.some(one => one.getBoundingClientRect().width > 1)) wrong.push(`${name}: no marks`);
  const seen = [];
  for (const text of figure.querySelectorAll("svg text")) {
    const said = text.textContent.trim(), box = text.getBoundingClientRect();
    const style = getComputedStyle(text);
    if (!said || !box.width || style.opacity === "0") continue;
    if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1
        || box.bottom > edge.bottom + 1) wrong.push(`${name}: ${said} is cut off`);
    if (parseFloat(style.fontSize) < 9) wrong.push(`${name}: ${said} is too small`);
    if (!text.closest(".mark-text.role-mark") && contrast(style.fill, ground) < 4.5)
      wrong.push(`${name}: ${said} in ${style.fill} is hard to read on ${ground}`);
    for (const [other, its] of seen) {
      const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      if (wide > 2 && high > 4) wrong.push(`${name}: ${said} lies over ${other}`);
    }
    seen.push([said, box]);
  }
}
return wrong;
"""


class Browser:
    """Chromium without a window, by the WebDriver protocol."""

    def __init__(self, url: str) -> None:
        self._url = url
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={WIDTH},1600",
        ]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        given = self.asks("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._url = f"{url}/{given['sessionId']}"

    def asks(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def runs(self, script: str) -> Any:
        return self.asks("POST", "/execute/sync", {"script": script, "args": []})

    def commands(self, command: str, **parameters: Any) -> Any:
        return self.asks("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.asks("POST", "/se/log", {"type": kind})
        return found

    def shoots(self, file: Path) -> None:
        """A screenshot of the whole page, as far as it is not endless."""
        size = self.commands("Page.getLayoutMetrics")["cssContentSize"]
        self.commands(
            "Emulation.setDeviceMetricsOverride",
            width=WIDTH,
            height=min(round(size["height"]), 8000),
            deviceScaleFactor=1,
            mobile=False,
        )
        taken = self.commands("Page.captureScreenshot")
        file.write_bytes(base64.b64decode(taken["data"]))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser, for as long as it is needed."""
    driver = subprocess.Popen(["chromedriver", f"--port={PORT}", "--log-level=OFF"])
    try:
        for _ in range(100):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                found = Browser(f"http://127.0.0.1:{PORT}/session")
                break
            time.sleep(0.2)
        else:
            raise SystemExit("chromedriver does not answer")
        yield found
        found.asks("DELETE", "")
    finally:
        driver.terminate()
        driver.wait()


def look(at: Browser, page: Path, folder: Path) -> list[str]:
    """Take pictures of this page. Returns what is wrong."""
    wrong = []
    at.commands("Emulation.setEmulatedMedia", media="screen")
    at.asks("POST", "/url", {"url": page.resolve().as_uri()})
    wanted = at.runs("return document.querySelectorAll('figure').length")
    drawn = 0
    for _ in range(300):
        drawn = at.runs("return document.querySelectorAll('figure[data-drawn]').length")
        if drawn == wanted:
            break
        time.sleep(0.1)
    if drawn != wanted or not wanted:
        wrong.append(f"{drawn} of {wanted} pictures are drawn")
    wrong += [entry["message"] for entry in at.log("browser") if entry["level"] == "SEVERE"]
    sent = [json.loads(entry["message"])["message"] for entry in at.log("performance")]
    urls = [
        one["params"]["request"]["url"]
        for one in sent
        if one["method"] == "Network.requestWillBeSent"
    ]
    wrong += [f"it loads {url}" for url in urls if not url.startswith(("file:", "data:", "blob:"))]
    for look, media, scheme, sight in (
        ("light", "screen", "light", "none"),
        ("dark", "screen", "dark", "none"),
        ("paper", "print", "dark", "none"),
        ("grey", "print", "light", "achromatopsia"),
        ("red-green", "screen", "light", "deuteranopia"),
    ):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        at.commands("Emulation.setEmulatedMedia", media=media, features=features)
        at.commands("Emulation.setEmulatedVisionDeficiency", type=sight)
        wrong += [f"{look}: {one}" for one in at.runs(_FAULTS)]
        ground = at.runs(
            "return getComputedStyle(document.querySelector('figure svg')).backgroundColor"
        )
        if (ground == "rgb(255, 255, 255)") == (look == "dark"):
            wrong.append(f"{look}: the ground is {ground}")
        letters = at.runs("return getComputedStyle(document.querySelector('figure svg text')).fill")
        if (letters == "rgb(36, 41, 47)") == (look == "dark"):
            wrong.append(f"{look}: the letters are {letters}")
        at.shoots(folder / f"{page.stem}-{look}.png")
    at.commands("Emulation.setEmulatedVisionDeficiency", type="none")
    at.commands("Emulation.setEmulatedMedia", media="screen", features=[])
    at.runs(_MOVE)
    time.sleep(0.3)
    said = at.runs("return document.querySelector('#vg-tooltip-element')?.textContent || ''")
    if " on host-" not in said:
        wrong.append(f"over a mark it says {said!r}")
    at.shoots(folder / f"{page.stem}-mouse.png")
    return wrong


def look_at_svg(at: Browser, picture: Path, folder: Path) -> list[str]:
    """The same of a picture of its own, which is shown as it is."""
    page = folder / "svg.html"
    figure = f'<figure aria-label="{picture.name}">{picture.read_text(encoding="utf-8")}</figure>'
    page.write_text(f"<!doctype html><style>svg{{background:#fff}}</style>{figure}")
    at.asks("POST", "/url", {"url": page.resolve().as_uri()})
    at.shoots(folder / f"{picture.stem}-svg.png")
    wrong: list[str] = at.runs(_FAULTS)
    page.unlink()
    return wrong


def main(folder: str = "build/pictures") -> int:
    """The exit code: 1 if something is wrong."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        print("apt-get install chromium chromium-driver: there is no", " and no ".join(missing))
        return 1
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as traces:
        for name in incidents.INCIDENTS:
            incidents.replay(name, Path(traces, name))
            draw(read_files([str(Path(traces, name))])).write_html(place / f"{name}.html")
    draw(many()).write_html(place / "many.html")
    bad = 0
    for page in sorted(place.glob("*.html")):
        with browser() as at:  # one for each: the second page of one is sometimes not painted
            wrong = look(at, page, place)
        bad += bool(wrong)
        print(f"{page}: {'; '.join(wrong[:20]) or 'as it should be'}", flush=True)
    draw(many()).write_svg(place / "many")
    for picture in sorted([*Path("docs/rebalances").glob("*.svg"), *place.glob("many/*.svg")]):
        with browser() as at:
            wrong = look_at_svg(at, picture, place)
        bad += bool(wrong)
        print(f"{picture}: {'; '.join(wrong[:20]) or 'as it should be'}", flush=True)
    print(f"screenshots are in {place}: look at them")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
