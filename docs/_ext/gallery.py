"""Directive ``.. gallery::``: every program of ``examples/`` with its pictures and figures, all made from its code.

A program is transformed, drawn and counted while the site is built; pictures are files of their own beside its pages.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import polyloop as pl
from polyloop.runtime.explanation import Explanation, time_text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "_gallery"
MOST_BYTES, MOST_SECONDS = 200_000, 0.3
"""Of one picture."""
DEVICE = "H200"
ACCESSES, LARGEST = 1 << 35, 28
"""Accesses of a program at the size that its figures are for, at most; and the largest exponent of a size."""
COMPUTED = {"begin": 0, "stop": 16, "count": 16}
"""Typical values of what programs compute themselves and loop to."""


@dataclass(frozen=True)
class Entry:
    """One program: its pictures by their kind, and its figures by their names."""

    name: str
    about: str
    pictures: Mapping[str, pl.Picture]
    figures: Mapping[str, str]


def _timed(draw: Callable[[], pl.Picture]) -> tuple[pl.Picture, float]:
    """Return a picture, and the processor time that it took [s]."""
    begin = time.process_time()
    picture = draw()
    return picture, time.process_time() - begin


def drawn(draw: Callable[[], pl.Picture]) -> pl.Picture | None:
    """Return a picture that is small and was quickly drawn; None if there is nothing to draw."""
    try:
        draw()  # proves what it shows
        picture, took = _timed(draw)
        if took >= MOST_SECONDS:  # garbage of the pages before may have been collected meanwhile
            picture, took = _timed(draw)
    except pl.ArgumentError as error:
        if "nothing-to-draw" in error.codes:
            return None
        raise
    size = len(picture.svg().encode())
    assert took < MOST_SECONDS, f"it takes {took:.2f} s to draw {picture!r}"
    assert size < MOST_BYTES, f"{picture!r} has {size} bytes"
    return picture


def sizes_of(program: pl.LoopKernel) -> dict[str, int]:
    """Return one value for all sizes: the largest power of two for which a program makes not too many accesses."""
    counts = pl.get_mem_access_map(program)

    def accesses(exponent: int) -> int:
        sizes = dict.fromkeys(program.parameters, 1 << exponent)
        return int(counts.eval_and_sum({**COMPUTED, **sizes}))

    fitting = (n for n in range(LARGEST, 0, -1) if accesses(n) <= ACCESSES)
    return dict.fromkeys(program.parameters, 1 << next(fitting)) if program.parameters else {}


def explained(knl: pl.LoopKernel, sizes: Mapping[str, int]) -> tuple[Explanation, Mapping[str, int]]:
    """Return the bounds of a kernel, and all sizes that they are for."""
    try:
        return pl.explain(knl, sizes, DEVICE), sizes
    except pl.ArgumentError as error:
        if "bad-sizes" not in error.codes:
            raise
        notes = " ".join(note for finding in error.found for note in finding.notes)
    computed = {name: value for name, value in COMPUTED.items() if f"'{name}'" in notes}
    return pl.explain(knl, {**sizes, **computed}, DEVICE), {**sizes, **computed}


def entry_of(name: str) -> Entry:
    """Return the pictures and figures of the program ``examples/NAME.py``."""
    module: Any = import_module(f"examples.{name}")
    knl = module.transformed()
    target = getattr(module, "TARGET", None) or pl.CudaTarget(getattr(module, "ARCH", "sm_90"))
    program = pl.generate_code(knl, target=target)
    pictures = {
        "pipeline": drawn(lambda: pl.draw_pipeline(knl, target=target)),
        "loops": drawn(lambda: pl.draw_loops(knl, target=target)),
        "footprint": drawn(lambda: pl.draw_footprint(knl)),
    }
    figures = {
        "transforms": str(len(knl.trace)),
        "proofs": str(len(pl.verify(knl, target=target).proofs)),
        "lines of source": str(program.device_code.count("\n")),
    }
    if program.target == "cuda":
        figures["launches"] = "; ".join(
            f"{launch.name} of {' x '.join(str(extent) for extent in launch.block if extent > 1) or 1} threads"
            + f" and {launch.shared_bytes} bytes of shared memory" * (launch.shared_bytes > 0)
            for launch in program.launches)
        found, sizes = explained(knl, sizes_of(module.program()))
        given = ", ".join(f"{key} = {value}" for key, value in sizes.items()) or "no parameters"
        bound = found.bound
        by = "nothing" if bound is None else bound.resource
        figures[f"bound on {DEVICE}"] = f"{time_text(found.seconds)} by {by} ({given})"
    about = (module.__doc__ or "").strip().partition("\n\n")[0]
    kept = {kind: picture for kind, picture in pictures.items() if picture is not None}
    return Entry(name, " ".join(about.split()), kept, figures)


def names() -> list[str]:
    """Return the programs, by name."""
    return sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def entries() -> Iterator[Entry]:
    """Yield what the page shows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        yield from map(entry_of, names())


class Gallery(SphinxDirective):
    """``.. gallery::``: a section for each program."""

    def run(self) -> list[nodes.Node]:
        """Draw, write the files, and return the sections."""
        folder = Path(self.env.app.outdir) / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        up = "../" * self.env.docname.count("/")
        found = list(entries())
        return [self._contents(found, up), *(self._section(entry, folder, up) for entry in found)]

    def _contents(self, found: list[Entry], up: str) -> nodes.Node:
        cards = "".join(
            f'<a class="gallery-card" href="#{entry.name.replace("_", "-")}">'
            f'<span class="gallery-cut"><img loading="lazy" alt="" src="{up}{FOLDER}/{entry.name}-loops.svg"></span>'
            f"<span>{entry.name}</span></a>"
            for entry in found
        )
        return nodes.raw("", f'<div class="gallery">{cards}</div>', format="html")

    def _section(self, entry: Entry, folder: Path, up: str) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(entry.name)])
        section += nodes.title("", entry.name)
        section += nodes.paragraph("", entry.about)
        rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in entry.figures.items())
        parts = [f'<table class="gallery-figures">{rows}</table>']
        for kind, picture in entry.pictures.items():
            name = f"{entry.name}-{kind}.svg"
            picture.save(folder / name)
            place = f"{up}{FOLDER}/{name}"
            image = f'<img class="gallery-picture" alt="{kind} of {entry.name}" src="{place}" loading="lazy">'
            is_first = kind == next(iter(entry.pictures))
            parts.append(f"<details{' open' * is_first}><summary>{kind}</summary>{image}</details>")
        section += nodes.raw("", "".join(parts), format="html")
        return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("gallery", Gallery)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
