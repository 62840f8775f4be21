"""A page of pictures in one HTML file, which loads nothing from anywhere: Vega is in it."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Final

from aktor.trace.pictures import colours
from aktor.trace.pictures.charts import Picture, vl_convert
from aktor.trace.plain import visible

__all__ = ["escaped", "page", "sentences"]

#: Sentences in a list.
MOST: Final = 100

#: (`details` is Vega's menu beside a picture.)
_STYLE: Final = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #24292f; --quiet: #57606a; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ground: #0d1117; --ink: #e6edf3; --quiet: #9da7b1; } }
@media print { :root { color-scheme: light; } details { display: none; }
  figure { break-inside: avoid; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 72rem;
  padding: 0 1rem; color: var(--ink); background: var(--ground); }
h1 { font-size: 1.4rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; overflow-wrap: anywhere; }
p, li { overflow-wrap: anywhere; max-width: 68rem; } p.note { color: var(--quiet);
  font-size: 13px; }
figure { margin: .6rem 0 0; overflow-x: auto; } figure svg { display: block;
  background: var(--ground) !important; }
#vg-tooltip-element.vg-tooltip { max-width: 34rem; white-space: pre-line; overflow-wrap: anywhere;
  color: var(--ink); background: var(--ground); border: 1px solid var(--quiet); font: 13px/1.4
  system-ui, sans-serif; }
"""

_SCRIPT: Final = """
const options = {mode: "vega-lite", renderer: "svg", tooltip: {theme: "custom"}, hover: false,
  actions: {export: true, source: false, compiled: false, editor: false}};
for (const [id, spec] of Object.entries(PICTURES))
  vegaEmbed("#" + id, spec, options).then(() => document.getElementById(id).dataset.drawn = "yes");
"""


def page(title: str, parts: Iterable[str | Picture]) -> str:
    """The page: of each part the HTML that it is, or the picture."""
    specs: dict[str, object] = {}
    body = []
    for part in parts:
        if isinstance(part, str):
            body.append(part)
            continue
        name = f"picture-{len(specs)}"
        specs[name] = part.spec(titled=False)
        body.append(
            f"<h3>{escaped(part.title)}</h3>"
            + "".join(f"<p>{escaped(line)}</p>" for line in part.lines)
            + f'<figure id="{name}" aria-label="{escaped(part.title)}"></figure>'
        )
    # "<" would end the script, or begin a comment in it.
    data = json.dumps(specs, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    bundle = vl_convert().javascript_bundle().replace("</script", "<\\/script")
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            '<link rel="icon" href="data:,">',
            f"<title>{escaped(title)}</title><style>{_STYLE}{colours.style('svg.marks')}</style>",
            f"</head><body><h1>{escaped(title)}</h1>",
            *body,
            f'<script type="module">{bundle}</script>',
            f'<script type="module">const PICTURES = {data};{_SCRIPT}</script>',
            "</body></html>\n",
        ]
    )


def sentences(told: Sequence[tuple[str, str]]) -> str:
    """A list of sentences, each with its time."""
    lines = [f"<li>{escaped(at)} {escaped(line)}</li>" for at, line in told[:MOST]]
    more = f'<p class="note">The first {MOST} of {len(told)}.</p>' if len(told) > MOST else ""
    return f"<ol>{''.join(lines)}</ol>{more}" if lines else '<p class="note">None.</p>'


def escaped(text: str) -> str:
    """Text in HTML."""
    return html.escape(visible(text))
