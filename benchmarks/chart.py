"""The chart: ratios to Hermes 0.13 on a logarithmic scale, as one self-contained SVG.

Colours follow the reader's light or dark theme; the text is text, so it can be read aloud.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.comparisons import BASELINE, COMPARISONS, Comparison
from benchmarks.opponents import OPPONENTS
from benchmarks.results import Results

WIDTH = 880
LABELS = 205
RIGHT = 70
TOP = 96
BAR = 13
GAP = 3
GROUP_GAP = 14
SHOWN = ("ours", "hermes-0.19", "openai-agents", "langgraph", "raw")

STYLE = """
  text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .note, .tick { font-size: 11px; fill: #59636e; }
  .value { font-size: 11px; }
  .ours-text { font-weight: 600; }
  .page { fill: #ffffff; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .one { stroke: #59636e; stroke-width: 1.5; }
  .ours { fill: #0969da; }
  .hermes-0-19 { fill: #bf8700; }
  .openai-agents { fill: #1a7f37; }
  .langgraph { fill: #8250df; }
  .raw { fill: #818b98; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note, .tick { fill: #9198a1; }
    .page { fill: #0d1117; }
    .grid { stroke: #30363d; }
    .one { stroke: #9198a1; }
    .ours { fill: #4493f8; }
    .hermes-0-19 { fill: #d29922; }
    .openai-agents { fill: #3fb950; }
    .langgraph { fill: #ab7df8; }
    .raw { fill: #6e7681; }
  }
"""


@dataclass(frozen=True)
class _Group:
    """The bars of one comparison."""

    comparison: Comparison
    bars: list[tuple[str, float]]

    @property
    def height(self) -> int:
        return len(self.bars) * (BAR + GAP) + GROUP_GAP


@dataclass(frozen=True)
class _Scale:
    """Maps a ratio to a horizontal place, by its logarithm; very small ones end at the edge."""

    low: int
    high: int

    @classmethod
    def over(cls, ratios: list[float]) -> _Scale:
        powers = [math.log10(ratio) for ratio in ratios]
        return cls(max(-1, math.floor(min(powers))), max(1, math.ceil(max(powers))))

    def x(self, ratio: float) -> float:
        share = max(0.0, (math.log10(ratio) - self.low) / (self.high - self.low))
        return LABELS + share * (WIDTH - LABELS - RIGHT)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def draw(results: Results, *, subtitle: str) -> str:
    """The chart of a run. Raises :class:`ValueError` when nothing can be compared."""
    groups = _groups(results)
    if not groups:
        raise ValueError(f"nothing was measured beside {OPPONENTS[BASELINE].label}")
    scale = _Scale.over([ratio for group in groups for _, ratio in group.bars] + [1.0])
    shown = [name for name in SHOWN if any(name == bar for g in groups for bar, _ in g.bars)]
    bottom = TOP + sum(group.height for group in groups)
    height = bottom + 46
    frame = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} role="img" aria-labelledby="title note">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        '<text id="title" class="title" x="16" y="28">Times as fast as Hermes 0.13</text>',
        f'<text id="note" class="note" x="16" y="47">{escape(subtitle)}</text>',
        *_legend(shown),
        *_axis(scale, bottom),
    ]
    y = TOP
    for group in groups:
        lines += _draw_group(group, scale, y)
        y += group.height
    return "\n".join([*lines, "</svg>"]) + "\n"


def _groups(results: Results) -> list[_Group]:
    groups = []
    for comparison in COMPARISONS:
        found = ((name, comparison.advantage(results, name)) for name in SHOWN)
        bars = [(name, ratio) for name, ratio in found if ratio is not None and ratio > 0]
        if bars:
            groups.append(_Group(comparison, bars))
    return groups


def _times(ratio: float) -> str:
    """Two digits are what such a ratio is good for."""
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.2g}×"


def _css_class(opponent: str) -> str:
    return opponent.replace(".", "-")


def _legend(opponents: list[str]) -> list[str]:
    lines, x = [], 16.0
    for name in opponents:
        label = OPPONENTS[name].label
        lines.append(f'<rect class="{_css_class(name)}" x="{x:g}" y="60" width="11" height="11"/>')
        lines.append(f'<text x="{x + 16:g}" y="70">{escape(label)}</text>')
        x += 34 + 7.2 * len(label)
    return lines


def _axis(scale: _Scale, bottom: int) -> list[str]:
    lines = []
    for tick in scale.ticks():
        x = scale.x(tick)
        style = "one" if tick == 1 else "grid"
        lines.append(
            f'<line class="{style}" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}"/>'
        )
        lines.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{tick:,g}×</text>"
        )
    lines.append(
        f'<text class="note" x="{scale.x(1):.1f}" y="{bottom + 34}" text-anchor="middle">'
        "Hermes 0.13 = 1, logarithmic; further right is better</text>"
    )
    return lines


def _draw_group(group: _Group, scale: _Scale, top: int) -> list[str]:
    one = scale.x(1.0)
    middle = top + (group.height - GROUP_GAP) / 2 + 4
    title = escape(group.comparison.title)
    lines = [f'<text x="{LABELS - 12}" y="{middle:.1f}" text-anchor="end">{title}</text>']
    for place, (opponent, ratio) in enumerate(group.bars):
        y = top + place * (BAR + GAP)
        end = scale.x(ratio)
        left, width = min(one, end), max(abs(end - one), 1.5)
        emphasis = " ours-text" if opponent == "ours" else ""
        lines.append(
            f'<rect class="{_css_class(opponent)}" x="{left:.1f}" y="{y}" width="{width:.1f}"'
            f' height="{BAR}" rx="2"><title>{escape(OPPONENTS[opponent].label)}:'
            f" {_times(ratio)}</title></rect>"
        )
        lines.append(
            f'<text class="value{emphasis}" x="{max(one, end) + 5:.1f}" y="{y + 10.5}">'
            f"{_times(ratio)}</text>"
        )
    return lines
