"""What the picture looks like: colours for light and dark, and the few lines of script of the HTML page."""

from __future__ import annotations

__all__ = ["HUES", "SCRIPT", "page_css", "picture_css"]

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# class: (what, light, dark)
_COLOURS: dict[str, tuple[str, str, str]] = {
    "bg": ("fill", "#ffffff", "#0f1520"),
    "ink": ("fill", "#172033", "#e8edf5"),
    "muted": ("fill", "#64748b", "#8fa0b7"),
    "grid": ("stroke", "#dfe5ee", "#263346"),
    "edge": ("stroke", "#ffffff", "#0f1520"),
    "track": ("fill", "#b9c4d4", "#43536b"),
    "prepare": ("fill", "#f5a623", "#f2a93b"),
    "complete": ("fill", "#7c5cfc", "#9b84ff"),
    "join": ("fill", "#f59e0b", "#f7b23b"),
    "sync": ("fill", "#7c5cfc", "#a594ff"),
    "slow": ("fill", "#d9a53a", "#c79a3c"),
    "commit": ("stroke", "#16a34a", "#4ade80"),
    "bad": ("fill", "#dc2626", "#ff6b6b"),
    "badline": ("stroke", "#dc2626", "#ff6b6b"),
    "warn": ("fill", "#d97706", "#fbbf24"),
    "warnline": ("stroke", "#d97706", "#fbbf24"),
    "faulty": ("fill", "#c026d3", "#e879f9"),
    "note": ("fill", "#2563eb", "#7fb0ff"),
    "noteline": ("stroke", "#2563eb", "#7fb0ff"),
    "goodline": ("stroke", "#16a34a", "#4ade80"),
}

HUES = (
    ("#3b82f6", "#eef5ff", "#142236"),
    ("#0f9f6e", "#ebf8f2", "#112823"),
    ("#0891b2", "#e9f7fb", "#102736"),
    ("#d1578a", "#fdf0f5", "#2c1b2c"),
    ("#6b8e23", "#f4f8e8", "#20281a"),
)
"""Of generations: the label's colour, and the tint behind the lanes for light and dark."""


def picture_css() -> str:
    """Rules for the SVG: light first, so that what knows no media query is light."""
    light = [f".{name}{{{what}:{colour}}}" for name, (what, colour, _) in _COLOURS.items()]
    dark = [f".{name}{{{what}:{colour}}}" for name, (what, _, colour) in _COLOURS.items()]
    for position, (label, tint, dark_tint) in enumerate(HUES):
        light += [f".g{position}{{fill:{label}}}", f".t{position}{{fill:{tint}}}"]
        dark.append(f".t{position}{{fill:{dark_tint}}}")
    shapes = [
        f"text{{font-family:{FONT};font-size:12px}}",
        ".h1{font-size:21px;font-weight:650}",
        ".h2{font-size:13px}",
        ".small{font-size:10.5px}",
        ".name{font-size:12.5px;font-weight:550}",
        ".on{fill:#ffffff;font-weight:650;font-size:12px}",
        ".mid{text-anchor:middle}",
        ".end{text-anchor:end}",
        ".grid,.commit,.badline,.warnline,.noteline,.goodline{fill:none}",
        ".grid{stroke-width:1}",
        ".commit{stroke-width:1.6;stroke-linecap:round}",
        ".badline,.warnline{stroke-width:2.2;stroke-linecap:round;stroke-linejoin:round}",
        ".goodline{stroke-width:2;stroke-linecap:round;stroke-linejoin:round}",
        ".noteline{stroke-width:1;stroke-dasharray:2 3;opacity:.75}",
        ".faint{opacity:.14}",
        ".veil{opacity:.3}",
    ]
    return "".join([*shapes, *light, f"@media (prefers-color-scheme:dark){{{''.join(dark)}}}"])


def page_css() -> str:
    """Rules for the page around the picture."""
    return (
        f":root{{color-scheme:light dark}}body{{margin:0;font:15px/1.55 {FONT};background:#ffffff;color:#172033}}"
        "main{max-width:1240px;margin:0 auto;padding:20px 20px 60px;overflow-x:auto}"
        "svg.timeline{display:block;width:100%;height:auto;border-radius:12px;cursor:grab;touch-action:none}"
        "@media(max-width:800px){svg.timeline{width:800px;touch-action:pan-x pan-y}}"  # to be scrolled, not shrunk out of sight
        "svg.timeline:active{cursor:grabbing}"
        "h2{font-size:17px;margin:34px 0 6px}p.lead{margin:6px 0 18px;max-width:95ch}"
        "ol{list-style:none;margin:0;padding:0;max-width:100ch}"
        "li{display:grid;grid-template-columns:105px 1fr;gap:14px;padding:9px 12px;border-radius:8px;border-left:3px solid transparent}"
        "li time{font:12.5px/1.9 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:#64748b;font-variant-numeric:tabular-nums}"
        "li.trouble{border-left-color:#dc2626}li.rebalance{border-left-color:#3b82f6}li.note{border-left-color:#f59e0b}"
        "li:target,li.lit{background:#f1f5fb}"
        ".hint{color:#64748b;font-size:12.5px;margin:8px 2px}"
        "#tip{white-space:pre-line;pointer-events:none}"
        "#tip{position:fixed;z-index:9;max-width:440px;padding:8px 11px;border-radius:8px;background:#172033;color:#f3f6fb;"
        "font-size:12.5px;line-height:1.45;opacity:0;transition:opacity .1s;box-shadow:0 6px 24px rgba(0,0,0,.28)}"
        "@media (prefers-color-scheme:dark){body{background:#0f1520;color:#e8edf5}li time,.hint{color:#8fa0b7}"
        "li:target,li.lit{background:#18212f}#tip{background:#e8edf5;color:#172033}}"
        "@media print{.hint,#tip{display:none}}"
    )


SCRIPT = """
(function () {
  var svg = document.querySelector('svg.timeline'), tip = document.getElementById('tip');
  if (!svg || !tip) return;
  var full = svg.getAttribute('viewBox').split(' ').map(Number), box = full.slice(), drag = null, moved = false;
  svg.querySelectorAll('title').forEach(function (title) {
    var owner = title.parentNode;
    if (owner === svg) return;
    owner.tip = title.textContent;
    owner.removeChild(title);
  });
  function show() { svg.setAttribute('viewBox', box.join(' ')); }
  function clamp() {
    box[2] = Math.min(Math.max(box[2], full[2] / 60), full[2]);
    box[3] = box[2] * full[3] / full[2];
    box[0] = Math.min(Math.max(box[0], 0), full[2] - box[2]);
    box[1] = Math.min(Math.max(box[1], 0), full[3] - box[3]);
  }
  svg.addEventListener('wheel', function (event) {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
    event.preventDefault();
    var rect = svg.getBoundingClientRect(), factor = Math.pow(1.0015, event.deltaY);
    var dx = (event.clientX - rect.left) / rect.width, dy = (event.clientY - rect.top) / rect.height;
    var x = box[0] + dx * box[2], y = box[1] + dy * box[3];
    box[2] *= factor; clamp(); box[0] = x - dx * box[2]; box[1] = y - dy * box[3]; clamp(); show();
  }, {passive: false});
  svg.addEventListener('pointerdown', function (event) { drag = [event.clientX, event.clientY, box[0], box[1]]; moved = false; });
  window.addEventListener('pointerup', function () { drag = null; });
  svg.addEventListener('dblclick', function () { box = full.slice(); show(); });
  svg.addEventListener('pointermove', function (event) {
    if (drag && box[2] < full[2]) {
      var rect = svg.getBoundingClientRect();
      moved = moved || Math.abs(event.clientX - drag[0]) + Math.abs(event.clientY - drag[1]) > 4;
      box[0] = drag[2] - (event.clientX - drag[0]) * box[2] / rect.width;
      box[1] = drag[3] - (event.clientY - drag[1]) * box[3] / rect.height;
      clamp(); show();
    }
    var at = event.target;
    while (at && at !== svg && !at.tip) at = at.parentNode;
    if (!at || at === svg) { tip.style.opacity = 0; return; }
    tip.textContent = at.tip;
    tip.style.opacity = 1;
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)) + 'px';
    tip.style.top = (event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 12
      : event.clientY + 18) + 'px';
  });
  svg.addEventListener('pointerleave', function () { tip.style.opacity = 0; });
  svg.addEventListener('click', function (event) {
    var band = event.target.closest ? event.target.closest('[data-at]') : null;
    var item = band && document.getElementById('at' + band.getAttribute('data-at'));
    if (!item || moved) return;
    document.querySelectorAll('li.lit').forEach(function (one) { one.classList.remove('lit'); });
    item.classList.add('lit');
    item.scrollIntoView({behavior: 'smooth', block: 'center'});
  });
})();
"""
