"""One self-contained HTML page of recorded scenarios: pods, nodes and workloads over time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from .controlplane.versions import KUBERNETES
from .fleets import ROOT
from .planes import SCENARIO_JOBSET, SCENARIO_KUEUE
from .timeline import Mark, Span, Timeline

OUTPUT = ROOT / ".stowplan" / "e2e"
TIMELINES = OUTPUT / "timelines"
PAGE = OUTPUT / "scenarios.html"

LABEL_WIDTH = 210
PLOT_WIDTH = 900
RIGHT_MARGIN = 40
DOT_RADIUS = 8
LANE_HEIGHT = 17
BAR_HEIGHT = 13
THIN_HEIGHT = 4
HEADING_HEIGHT = 24
AXIS_HEIGHT = 34
#: Bars narrower than this carry no text, in pixels per character.
CHARACTER_WIDTH = 6.4
TICKS = (1, 2, 5, 10, 15, 20, 30, 60, 120)
MOST_TICKS = 12

#: Pools get these colours in the order in which they appear; running pods show their pool's.
POOL_COLOURS = 8

_STATE_CLASS = {
    "Pending": "wait",
    "Gated": "gate",
    "Terminating": "stop",
    "Failed": "bad",
    "Evicted": "bad",
    "NotReady": "bad",
    "Cordoned": "gate",
    "Suspended": "gate",
    "QuotaReserved": "gate",
    "Admitted": "good",
    "Active": "good",
    "Succeeded": "good",
    "Finished": "good",
}

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b2530; --soft: #5a6775;
  --line: #d5dbe1; --lane: #f4f6f8; --good: #b9d9c4; --wait: #f2c14e; --gate: #cfd6de;
  --stop: #9aa5b1; --bad: #e08585; --p0: #8fb8de; --p1: #f0b27a; --p2: #a9d18e; --p3: #c9a7dd;
  --p4: #7fcdbb; --p5: #f4a6b8; --p6: #d9ca7a; --p7: #b5bfe8; --bar: #14202b; --mark: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ground: #12181f; --ink: #e3e8ed; --soft: #9aa7b4;
  --line: #33404c; --lane: #19212a; --good: #2f6b48; --wait: #a97b12; --gate: #46525e;
  --stop: #66727e; --bad: #94403f; --p0: #2f6597; --p1: #9a5d22; --p2: #4c7a31; --p3: #74508c;
  --p4: #237566; --p5: #97455b; --p6: #7d6f1e; --p7: #4c5aa0; --bar: #f3f6f8; --mark: #ff8a80; } }
body { background: var(--ground); color: var(--ink); margin: 2rem auto; max-width: 1180px;
  padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
a { color: inherit; } nav ul { columns: 2; padding-left: 1.2rem; }
p, li { max-width: 52rem; } .soft, figcaption { color: var(--soft); }
figure { margin: .6rem 0; overflow-x: auto; } svg { display: block; min-width: 900px; width: 100%; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); } svg .soft { fill: var(--soft); }
svg .head { font-weight: 600; font-size: 12px; } svg .in { fill: var(--bar); pointer-events: none; }
svg .tick { paint-order: stroke; stroke: var(--ground); stroke-width: 4px; }
.rule { stroke: var(--line); } .lane { fill: var(--lane); }
.mark { fill: none; stroke: var(--mark); stroke-dasharray: 4 3; } .dot { fill: var(--mark); }
svg .num { fill: var(--ground); font-weight: 700; font-size: 10px; }
.good { fill: var(--good); } .wait { fill: var(--wait); } .gate { fill: var(--gate); }
.stop { fill: var(--stop); } .bad { fill: var(--bad); }
ol { margin: .3rem 0; padding-left: 1.6rem; } time { font-variant-numeric: tabular-nums; }
.key { display: flex; flex-wrap: wrap; gap: .4rem 1.1rem; list-style: none; padding: 0; }
.key i { display: inline-block; width: .9rem; height: .9rem; border-radius: 3px;
  vertical-align: -2px; margin-right: .35rem; }
"""


def save(timeline: Timeline, folder: Path) -> Path:
    """Keep a recorded scenario as JSON, so that the page can be made from several runs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{anchor(timeline.title)}.json"
    path.write_text(json.dumps(asdict(timeline), indent=1))
    return path


def load(path: Path) -> Timeline:
    """A scenario that ``save`` wrote."""
    raw = json.loads(path.read_text())
    return Timeline(
        raw["title"],
        [Span(**span) for span in raw["spans"]],
        [Mark(**mark) for mark in raw["marks"]],
        raw["duration"],
        raw["story"],
    )


def forget_timelines() -> None:
    """Remove the scenarios of earlier runs."""
    for path in TIMELINES.glob("*.json"):
        path.unlink()


def write_page() -> None:
    """Make the page of all scenarios recorded so far."""
    timelines = [load(path) for path in sorted(TIMELINES.glob("*.json"))]
    parts = f"Kubernetes {KUBERNETES}, Kueue {SCENARIO_KUEUE}, JobSet {SCENARIO_JOBSET}."
    partial = PAGE.with_suffix(f".{os.getpid()}")
    partial.write_text(render(timelines, parts))
    partial.replace(PAGE)


def render(timelines: Iterable[Timeline], parts: str) -> str:
    """The page; ``parts`` says which versions played."""
    played = list(timelines)
    sections = "\n".join(_section(timeline) for timeline in played)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>stowplan: scenarios on a control plane</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{_STYLE}{_pool_rules()}</style></head><body>
<h1>Scenarios on a real control plane</h1>
<p class="soft">{escape(parts)} Nodes are simulated; everything that decides is real.</p>
{_contents(played)}
{_key()}
{sections}
</body></html>
"""


def anchor(title: str) -> str:
    """A title as part of a file name and of a link."""
    return "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")[:80]


def _contents(timelines: Iterable[Timeline]) -> str:
    rows = "".join(
        f'<li><a href="#{anchor(timeline.title)}">{escape(timeline.title)}</a></li>'
        for timeline in timelines
    )
    return f"<nav><ul>{rows}</ul></nav>"


def _pool_rules() -> str:
    return "".join(f".p{index} {{ fill: var(--p{index}); }}" for index in range(POOL_COLOURS))


def _key() -> str:
    rows = (
        ("p0", "pod running (colour and text: its node pool)"),
        ("wait", "pod pending"),
        ("gate", "gated, suspended, cordoned or waiting for admission"),
        ("stop", "pod being deleted"),
        ("bad", "evicted, failed, not ready"),
        ("good", "workload admitted, JobSet active"),
    )
    items = "".join(
        f'<li><i style="background: var(--{name})"></i>{text}</li>' for name, text in rows
    )
    return f'<ul class="key">{items}</ul>'


def _section(timeline: Timeline) -> str:
    marks = "".join(
        f"<li><time>{mark.at:.1f} s</time> {escape(mark.text)}</li>" for mark in timeline.marks
    )
    return (
        f'<section id="{anchor(timeline.title)}">'
        f"<h2>{escape(timeline.title)}</h2><p>{escape(timeline.story)}</p>"
        f"<figure>{_chart(timeline)}</figure><ol>{marks}</ol></section>"
    )


def _chart(timeline: Timeline) -> str:
    scale = PLOT_WIDTH / max(timeline.duration, 1.0)
    pools = _pool_classes(timeline.spans)
    body: list[str] = []
    y = AXIS_HEIGHT
    for heading, kinds in (
        ("JobSets", "JobSet"),
        ("Workloads", "Workload"),
        ("Pods by rank", "Pod"),
        ("Nodes", "Node"),
    ):
        lanes = _lanes(span for span in timeline.spans if span.kind == kinds)
        if not lanes:
            continue
        body.append(f'<text class="head" x="0" y="{y + 16}">{heading}</text>')
        y += HEADING_HEIGHT
        for lane, spans in lanes:
            body.append(_lane(lane, spans, y, scale, pools))
            y += LANE_HEIGHT
    axis, labels = _axis(timeline.duration, scale, y)
    marks = _marks(timeline.marks, scale, y)
    width = LABEL_WIDTH + PLOT_WIDTH + RIGHT_MARGIN
    title = escape(timeline.title, quote=True)
    return (
        f'<svg viewBox="0 0 {width} {y + 8}" role="img" aria-label="{title}">'
        f"{axis}{''.join(body)}{marks}{labels}</svg>"
    )


def _lanes(spans: Iterable[Span]) -> list[tuple[str, list[Span]]]:
    lanes: dict[str, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span.lane, []).append(span)
    return sorted(lanes.items())


def _pool_classes(spans: Sequence[Span]) -> dict[str, str]:
    names = sorted({span.detail for span in spans if span.kind == "Node"})
    return {name: f"p{index % POOL_COLOURS}" for index, name in enumerate(names)}


def _lane(lane: str, spans: Sequence[Span], y: float, scale: float, pools: dict[str, str]) -> str:
    bars = [
        f'<rect class="lane" x="{LABEL_WIDTH}" y="{y}" width="{PLOT_WIDTH}" height="{BAR_HEIGHT}"/>'
        f'<text x="0" y="{y + 11}">{escape(lane[:34])}</text>'
    ]
    for span in sorted(spans, key=lambda item: item.state == "Terminating"):
        end = span.end if span.end is not None else span.start
        x, width = LABEL_WIDTH + span.start * scale, max((end - span.start) * scale, 1.0)
        ready = span.state in ("Running", "Ready")
        style = pools.get(span.detail, "p0") if ready else _STATE_CLASS.get(span.state, "gate")
        # A pod that is being deleted may overlap its successor of the same rank.
        top = y + BAR_HEIGHT - THIN_HEIGHT if span.state == "Terminating" else y
        height = THIN_HEIGHT if span.state == "Terminating" else BAR_HEIGHT
        text = span.detail if ready else span.state
        if not ready and span.detail:
            text += f" ({span.detail})"
        bars.append(
            f'<rect class="{style}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{height}"'
            f' rx="2"><title>{escape(lane)}: {escape(span.state)} {escape(span.detail)},'
            f" {span.start:.1f} to {end:.1f} s</title></rect>"
        )
        if len(text) * CHARACTER_WIDTH < width and height == BAR_HEIGHT:
            bars.append(f'<text class="in" x="{x + 3:.1f}" y="{y + 10.5}">{escape(text)}</text>')
    return "".join(bars)


def _axis(duration: float, scale: float, bottom: float) -> tuple[str, str]:
    """The lines of the time axis, and its labels, which are drawn last to stay legible."""
    step = next((tick for tick in TICKS if duration / tick <= MOST_TICKS), TICKS[-1])
    lines, labels = [], []
    for second in range(0, int(duration) + 1, step):
        x = LABEL_WIDTH + second * scale
        lines.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="18" y2="{bottom}"/>')
        labels.append(f'<text class="soft tick" x="{x + 2:.1f}" y="30">{second} s</text>')
    return "".join(lines), "".join(labels)


def _marks(marks: Sequence[Mark], scale: float, bottom: float) -> str:
    """A line at each mark's time; numbers that would cover each other move to the right."""
    drawn, free = [], 0.0
    for number, mark in enumerate(marks, start=1):
        x = LABEL_WIDTH + mark.at * scale
        dot = max(x, free)
        free = dot + 2 * DOT_RADIUS + 1
        drawn.append(
            f'<path class="mark" d="M{x:.1f} {bottom} V22 L{dot:.1f} 15"/>'
            f'<circle class="dot" cx="{dot:.1f}" cy="9" r="{DOT_RADIUS}">'
            f"<title>{escape(mark.text)}</title></circle>"
            f'<text class="num" x="{dot:.1f}" y="12.5" text-anchor="middle">{number}</text>'
        )
    return "".join(drawn)
