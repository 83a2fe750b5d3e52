"""What the report looks like: the house's colours (`broker_sim.explain.style`), the page around the pictures, a few lines of script.

Rules:
1. Everything is in the file itself: no font, script, style or picture from elsewhere.
2. Light first; what the reader's system asks for decides. Without the script nothing is lost but the tooltips' looks.
"""

from __future__ import annotations

from broker_sim.explain.style import FONT, picture_css

__all__ = ["SCRIPT", "css"]

_VARIABLES = {
    "paper": ("#f6f8fb", "#0a0f18"),
    "card": ("#ffffff", "#0f1520"),
    "ink": ("#172033", "#e8edf5"),
    "muted": ("#64748b", "#8fa0b7"),
    "line": ("#dfe5ee", "#263346"),
    "bad": ("#dc2626", "#ff6b6b"),
    "warn": ("#d97706", "#fbbf24"),
    "note": ("#2563eb", "#7fb0ff"),
    "good": ("#16a34a", "#4ade80"),
    "heat": ("#2563eb", "#5b9bff"),
    "end": ("#94a3b8", "#64748b"),
}
"""name: light, dark."""

_SHAPES = """
.heat{fill:var(--heat)}.cell{fill:var(--card);stroke:var(--line);stroke-width:1}
.jammed{fill:none;stroke:var(--bad);stroke-width:2.5}.odd{fill:var(--warn)}
.calm{fill:var(--good);opacity:.22}.steady{opacity:.55}
.curve{fill:none;stroke:var(--heat);stroke-width:1.8;stroke-linejoin:round}
.area{fill:var(--heat);opacity:.16}.ends{fill:none;stroke:var(--end);stroke-width:1.2;stroke-dasharray:4 3}
.rate{fill:var(--good);opacity:.5}.fall{fill:none;stroke:var(--bad);stroke-width:2;stroke-linecap:round}
.left{fill:var(--end)}.tick{fill:var(--end)}.came{fill:#f5a623}.lost{fill:var(--bad)}.late{fill:#c026d3}.big{font-size:13px;font-weight:650}
.cut{fill:none;stroke:var(--paper);stroke-width:3}.hatch{fill:url(#hatch)}.tight{font-size:9.5px}
"""

_PAGE = """
*{box-sizing:border-box}:root{color-scheme:light dark}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 FONT}
main{max-width:1240px;margin:0 auto;padding:26px 20px 70px}
h1{font-size:27px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}h2{font-size:18px;margin:0 0 2px}
.sub{color:var(--muted);margin:0 0 18px;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(118px,1fr));gap:10px;margin:0 0 22px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:11px 14px}
.tile b{display:block;font-size:23px;line-height:1.2;font-weight:650;font-variant-numeric:tabular-nums}
.tile span{color:var(--muted);font-size:12.5px}.tile.bad b{color:var(--bad)}
section{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:18px 20px;margin:0 0 18px}
.lead{color:var(--muted);margin:0 0 12px;max-width:125ch;font-size:13.5px}
details summary{cursor:pointer;color:var(--note);font-size:13.5px;margin:12px 0 0}
.hint{color:var(--muted);font-size:12.5px;margin:8px 0 0}
ol.findings{list-style:none;margin:10px 0 0;padding:0;display:grid;gap:10px}
.findings li{border:1px solid var(--line);border-left:4px solid var(--note);border-radius:10px;padding:10px 14px;overflow-wrap:anywhere}
.findings li.bad{border-left-color:var(--bad)}.findings li.warn{border-left-color:var(--warn)}
.findings li.good{border-left-color:var(--good)}
.findings time{color:var(--muted);font-size:13px;font-variant-numeric:tabular-nums;display:block}
.findings p{margin:0}.findings p.do{color:var(--muted);font-size:13.5px;margin-top:3px}
nav{display:flex;flex-wrap:wrap;gap:6px 16px;margin:0 0 16px;font-size:13.5px}a{color:var(--note)}nav a{text-decoration:none}
svg.chart{display:block;width:100%;height:auto}svg.narrow{display:none}
.many{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,350px),1fr));gap:14px 18px}
.split{display:grid;grid-template-columns:minmax(0,1.6fr) minmax(0,1fr);gap:20px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;min-width:100%}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--muted);font-weight:550}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.path{overflow-wrap:anywhere;min-width:12ch}code{font:12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
ul.plain{margin:6px 0 0;padding-left:20px;max-width:100ch}ul.plain li{margin:3px 0}
footer{color:var(--muted);font-size:12.5px}
#tip{position:fixed;z-index:9;max-width:min(440px,90vw);padding:8px 11px;border-radius:8px;background:var(--ink);color:var(--card);
font-size:12.5px;line-height:1.45;white-space:pre-line;pointer-events:none;opacity:0;box-shadow:0 6px 24px rgba(0,0,0,.28)}
@media (max-width:720px){main{padding:16px 10px 50px}section{padding:14px 12px}h1{font-size:22px}.tile b{font-size:19px}
svg.wide{display:none}svg.narrow{display:block}.split{grid-template-columns:minmax(0,1fr)}}
@media print{body{background:#fff}#tip,nav{display:none}section{break-inside:avoid}}
"""


def css() -> str:
    """All rules of the page."""
    light = "".join(f"--{name}:{colour};" for name, (colour, _) in _VARIABLES.items())
    dark = "".join(f"--{name}:{colour};" for name, (_, colour) in _VARIABLES.items())
    variables = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return "".join((picture_css(), variables, _PAGE.replace("FONT", FONT), _SHAPES)).replace("\n", "")


SCRIPT = """
(function () {
  var tip = document.getElementById('tip');
  document.querySelectorAll('svg.chart title').forEach(function (title) {
    var owner = title.parentNode;
    if (owner.tagName === 'svg') return;
    owner.tip = title.textContent;
    owner.setAttribute('aria-label', title.textContent);
    owner.removeChild(title);
  });
  function show(event) {
    var at = event.target;
    while (at && !at.tip) at = at.parentNode;
    if (!at) { tip.style.opacity = 0; return; }
    tip.textContent = at.tip;
    tip.style.opacity = 1;
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)) + 'px';
    tip.style.top = (event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 12
      : event.clientY + 18) + 'px';
  }
  document.addEventListener('pointermove', show);
  document.addEventListener('pointerdown', show);
  document.addEventListener('scroll', function () { tip.style.opacity = 0; });
})();
"""
