"""The HTML of ``view``: one file with its own style and script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from polyloop.runtime.explanation import AccessFacts, Explanation, byte_text, short
from polyloop.target.certificate import Certificate
from polyloop.viz.colors import INKS, PAPERS, SHADES
from polyloop.viz.lines import SourceLine, assigned, barrier_keys
from polyloop.viz.loops import row_text
from polyloop.viz.notebook import highlighted
from polyloop.viz.rows import Kind, Row

__all__ = ["Stage", "page_text"]

_INKS: Final = {
    Kind.LAUNCH: "blue", Kind.AXIS: "quiet", Kind.LOOP: "blue", Kind.STATEMENT: "ink", Kind.BARRIER: "red",
    Kind.REASON: "quiet", Kind.END: "red", Kind.NOTE: "quiet",
}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """A state of the kernel.

    Attributes
    ----------
    title
        The call of the step that made it.
    why
        The reason for which there is no source.
    changed
        Lines of the patch from the source of the step before.
    proof, costs
        The reason, where there are none.
    """

    title: str
    note: str
    rows: tuple[Row, ...]
    source: tuple[SourceLine, ...]
    why: str
    changed: tuple[str, ...]
    proof: Certificate | str
    costs: Explanation | str


def page_text(kernel: str, target: str, stages: Sequence[Stage]) -> str:
    """Return the page."""
    steps = "".join(
        f'<button type="button" data-step="{number}" title="{escape(stage.title)}">{number} '
        f"{escape(stage.title.partition('(')[0])}</button>"
        for number, stage in enumerate(stages)
    )  # fmt: skip
    body = "".join(_stage(number, stage) for number, stage in enumerate(stages))
    title = escape(f"kernel {kernel}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_style()}</style></head>\n'
        f"<body><h1>{title} <small>for {escape(target)}</small></h1>"
        f'<nav aria-label="steps">{steps}</nav>\n{body}'
        f'<footer id="told" aria-live="polite">a pointer on a line of the source marks its statement, loops and '
        f"accesses</footer>\n<script>{_SCRIPT}</script></body></html>\n"
    )


def _theme(theme: str) -> str:
    colors = {**INKS[theme], **PAPERS[theme], **SHADES[theme]}
    return "".join(f"--{name}:{color};" for name, color in colors.items())


def _style() -> str:
    inks = "".join(f".f-{name}{{color:var(--{name})}}" for name in INKS["light"])
    light, dark = _theme("light"), _theme("dark")
    return (
        f":root{{color-scheme:light dark;{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{inks}{_RULES}"
    )


_RULES: Final = (
    "*{box-sizing:border-box}body{margin:0;padding:12px 16px 44px;background:var(--page);color:var(--ink);"
    "font:13px/1.45 system-ui,sans-serif}"
    "h1{font-size:17px;margin:0 0 8px}h1 small,.quiet{color:var(--quiet);font-weight:normal}"
    "h2{font-size:13px;margin:0;padding:5px 10px;background:var(--panel);border-bottom:1px solid var(--rule);"
    "position:sticky;top:0}"
    "nav{display:flex;flex-wrap:wrap;gap:4px;margin-bottom:8px}"
    "nav button{font:inherit;color:var(--ink);background:var(--panel);border:1px solid var(--rule);border-radius:4px;"
    "padding:3px 8px;cursor:pointer}nav button[aria-current]{background:var(--on-blue);border-color:var(--blue)}"
    ".step>p{margin:4px 0 8px;font-family:ui-monospace,Menlo,Consolas,monospace}"
    ".panels{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,3fr);gap:10px}"
    ".panel{border:1px solid var(--rule);border-radius:6px;overflow:auto;max-height:70vh}"
    ".panel.wide{grid-column:1/-1;max-height:50vh}"
    ".lines{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;"
    "padding:4px 0;margin:0;width:max-content;min-width:100%}.lines div{padding:0 10px;min-height:1.5em}"
    ".text{padding:6px 10px;margin:0;white-space:pre;font:12px/1.5 ui-monospace,Menlo,Consolas,monospace}"
    "table{border-collapse:collapse;font-size:12px;margin:0 10px 8px}td,th{text-align:left;padding:2px 12px 2px 0;"
    "border-bottom:1px solid var(--rule);vertical-align:top}td.n,th.n{text-align:right}"
    ".mark{background:var(--on-orange);box-shadow:inset 3px 0 var(--orange)}"
    ".loop{background:var(--on-blue);box-shadow:inset 3px 0 var(--blue)}"
    ".plus{background:var(--on-green);color:var(--green)}.minus{background:var(--on-red);color:var(--red)}"
    "footer{position:fixed;left:0;right:0;bottom:0;padding:6px 16px;background:var(--panel);"
    "border-top:1px solid var(--rule);font:12px ui-monospace,Menlo,Consolas,monospace;white-space:nowrap;"
    "overflow:hidden;text-overflow:ellipsis}"
    "@media (max-width:900px){.panels{grid-template-columns:minmax(0,1fr)}}"
)


def _stage(number: int, stage: Stage) -> str:
    note = f'<p class="quiet">{escape(stage.note)}</p>' if stage.note else ""
    panels = [
        _panel("loops", "".join(_tree(stage.rows)), kind="lines"),
        _panel("source", "".join(_source(stage.source)), kind="lines") if stage.source else
        _panel("source", escape(f"no source yet: {stage.why}")),
        _panel("certificate", escape(str(stage.proof))),
        _costs(stage.costs),
        _panel("difference to the step before", "".join(_patch(stage.changed)), kind="lines", wide=True)
        if stage.changed else
        _panel("difference to the step before", "none" if number else "it is the first", wide=True),
    ]  # fmt: skip
    return (
        f'<section class="step" data-step="{number}"{" hidden" * bool(number)}><p>{escape(stage.title)}</p>{note}'
        f'<div class="panels">{"".join(panels)}</div></section>\n'
    )


def _panel(title: str, body: str, *, kind: str = "text", wide: bool = False) -> str:
    name = title.partition(" ")[0]
    return (
        f'<div class="panel {name}{" wide" * wide}" tabindex="0"><h2>{title}</h2><div class="{kind}">{body}</div></div>'
    )


def _data(**values: str) -> str:
    return "".join(f' data-{name}="{escape(value)}"' for name, value in values.items() if value)


def _tree(rows: Sequence[Row]) -> Iterator[str]:
    around: list[Row] = []
    for row, barrier in zip(rows, barrier_keys(rows), strict=True):
        while around and row.depth <= around[-1].depth:
            around.pop()
        of = {}
        if row.kind is Kind.LOOP:
            of = {"loop": row.name}
            around.append(row)
        elif row.kind is Kind.STATEMENT:
            within = " ".join(loop.name for loop in around)
            of = {"insn": row.name, "within": within, "target": assigned(row.text)}
        text = f"{'  ' * row.depth}{row_text(row)}"
        name = (
            f'  <span class="f-quiet">{{{escape(row.name)}}}</span>' if row.kind is Kind.STATEMENT and row.name else ""
        )
        yield f'<div class="f-{_INKS[row.kind]}"{_data(**of, barrier=barrier)}>{escape(text)}{name}</div>'


def _source(lines: Sequence[SourceLine]) -> Iterator[str]:
    for line in lines:
        names = " ".join(sorted(line.names())) if line.instructions else ""
        marks = _data(insn=" ".join(line.instructions), loops=" ".join(line.loops), names=names, target=line.target,
                      barrier=line.barrier)  # fmt: skip
        yield f"<div{marks}>{highlighted(line.text)}</div>"


def _patch(lines: Sequence[str]) -> Iterator[str]:
    kinds = {"+": "plus", "-": "minus", "@": "quiet"}
    for line in lines[2:]:
        yield f'<div class="{kinds.get(line[:1], "ink")}">{escape(line)}</div>'


def _costs(costs: Explanation | str) -> str:
    if isinstance(costs, str):
        return _panel("costs", escape(costs))
    head = "<tr><th>instruction<th><th>access<th>memory<th class=n>moved<th class=n>times the least</tr>"
    rows = "".join(map(_access, costs.accesses))
    table = f"<table>{head}{rows}</table>" if rows else ""
    return (
        f'<div class="panel costs" tabindex="0"><h2>costs</h2><div class="text">{escape(str(costs))}</div>{table}</div>'
    )


def _access(access: AccessFacts) -> str:
    is_global = access.space == "global"
    moved = byte_text(access.nbytes) if is_global else f"{short(access.turns * access.requests)} turns"
    space = "global" if is_global else "shared"
    told = f"{access.instruction}: {access.direction} {access.text}, {moved} of {space} memory"
    marks = _data(insn=access.instruction, array=access.array, told=told)
    return (
        f"<tr{marks}><td>{escape(access.instruction)}<td>{access.direction}<td>{escape(access.text)}"
        f"<td>{space}<td class=n>{moved}<td class=n>{access.excess:.3g}</tr>"
    )


_SCRIPT: Final = """
'use strict';
const steps = [...document.querySelectorAll('.step')], buttons = [...document.querySelectorAll('nav button')];
const told = document.getElementById('told');
let shown = 0;
function words(value) { return (value || '').split(' ').filter(Boolean); }
function clear() {
  for (const e of document.querySelectorAll('.mark, .loop')) e.classList.remove('mark', 'loop');
}
function select(number) {
  shown = Math.max(0, Math.min(steps.length - 1, number));
  steps.forEach((e, n) => { e.hidden = n !== shown; });
  for (const e of buttons) e.removeAttribute('aria-current');
  buttons[shown].setAttribute('aria-current', 'step');
  clear();
}
function statements(step, line, ids, loops) {
  let rows = [...step.querySelectorAll('.loops [data-insn]')].filter(row => ids.includes(row.dataset.insn));
  if (!line.closest('.source')) return line.closest('.loops') ? [line] : rows;
  const same = rows.filter(row => row.dataset.target === line.dataset.target);
  if (same.length) rows = same;
  const inside = rows.filter(row => loops.every(name => words(row.dataset.within).includes(name)));
  const least = Math.min(...inside.map(row => words(row.dataset.within).length));
  return inside.length ? inside.filter(row => words(row.dataset.within).length === least) : rows;
}
function mark(line) {
  clear();
  const step = steps[shown], names = words(line.dataset.names), said = [];
  const ids = words(line.dataset.insn), barrier = line.dataset.barrier;
  const loops = words(line.dataset.loops || line.dataset.loop);
  statements(step, line, ids, loops).forEach(row => row.classList.add('mark'));
  for (const row of step.querySelectorAll('.loops [data-loop]'))
    if (loops.includes(row.dataset.loop)) row.classList.add('loop');
  if (barrier) for (const row of step.querySelectorAll('[data-barrier]'))
    if (row.dataset.barrier === barrier) row.classList.add('mark');
  const target = line.closest('.costs') ? '' : line.dataset.target;
  for (const row of step.querySelectorAll('.source [data-insn]'))
    if (words(row.dataset.insn).some(id => ids.includes(id)) && (!target || row.dataset.target === target))
      row.classList.add('mark');
  if (line.dataset.loop) for (const row of step.querySelectorAll('.source [data-loops]'))
    if (words(row.dataset.loops).includes(line.dataset.loop)) row.classList.add('loop');
  for (const row of step.querySelectorAll('.costs tr[data-insn]'))
    if (ids.includes(row.dataset.insn) && (!names.length || names.includes(row.dataset.array))) {
      row.classList.add('mark');
      said.push(row.dataset.told);
    }
  line.classList.add(ids.length || barrier ? 'mark' : 'loop');
  const parts = [];
  if (ids.length) parts.push('statement ' + ids.join(', '));
  if (barrier) parts.push('barrier');
  if (loops.length) parts.push('in loops ' + loops.join(', '));
  told.textContent = parts.concat(said).join(' | ') || '\\u00a0';
}
document.addEventListener('mouseover', event => {
  const line = event.target.closest('.lines div, .costs tr');
  if (line && (line.dataset.insn || line.dataset.loops || line.dataset.loop || line.dataset.barrier)) mark(line);
});
buttons.forEach((e, n) => e.addEventListener('click', () => select(n)));
document.addEventListener('keydown', event => {
  if (event.key === 'ArrowRight') select(shown + 1);
  if (event.key === 'ArrowLeft') select(shown - 1);
});
select(steps.length - 1);
"""
