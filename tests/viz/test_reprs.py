"""Every public class has a repr of a few lines; notebooks show more."""

from __future__ import annotations

import dataclasses
import html.parser
import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import polyloop as pl
from examples import flash_attention, matmul_wgmma
from polyloop.kernel.devices import find_device
from polyloop.tuning.measure import Interval
from polyloop.tuning.report import Outcome, Trial

MOST_LETTERS = 700
MOST_LINES = 8
NO_INSTANCES = {"Array", "LoopKernel"}
"""Classes of types; a kernel is among the values below."""


@cache
def values() -> tuple[object, ...]:
    """Return instances of all public classes, and what public functions return."""
    knl = flash_attention.transformed()
    large = matmul_wgmma.transformed()
    cuda, c = pl.CudaTarget("sm_90a"), pl.CTarget()
    program = pl.generate_code(large, target=cuda)
    simple = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = alpha*x[i]",
        [pl.GlobalArg("x, y", np.float64, shape="n"), pl.ValueArg("alpha", np.float64), ...], name="scale",
    )  # fmt: skip
    run = pl.compile(simple, target=c)
    with TemporaryDirectory() as folder:
        loaded = pl.load(pl.export(simple, folder, c, bundle=True))
    later = pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", name="later"), target=c)
    x = np.ones(3)
    bound = run.bind(x=x, alpha=2.0)
    certificate = pl.verify(knl)
    divided = pl.distribute(simple, {"x": "block", "y": "block"}, "i:mesh.0", (2,))
    (rank,) = pl.run_ranks(1, pl.distribute(simple, {"x": "block", "y": "block"}, "i:mesh.0", (1,)).compile)
    trials = tuple(
        Trial({"block": 2**n, "how": "so"}, Outcome.TIMED, "", Interval(1e-5, 2e-5, 3e-5, 30), 32) for n in range(40)
    )
    refused = Trial({"block": 3}, Outcome.REFUSED, "a long reason " * 30)
    found = pl.dependences(knl)
    errors = [kind("name", "k", [pl.Diagnostic("some-code", "a message " * 50)]) for kind in exceptions()]
    warning = pl.PolyloopWarning("name", "k", pl.Diagnostic("some-code", "a message"))
    counts: list[Any] = [pl.get_op_map(knl), pl.get_mem_access_map(knl), pl.get_synchronization_map(knl)]
    return (
        knl, large, knl.reference, knl.trace, pl.Recipe.of(large), certificate, *certificate.proofs,
        *certificate.waits, *certificate.assumptions, program, *program.launches, *program.checks, *program.arguments,
        loaded, later, bound, run,
        run(x=x, alpha=2.0), found, *found, *counts, *(key for each in counts for key in each),
        *(count for each in counts for count in each.values()), pl.explain(knl, {"n": 4096, "m": 4096}),
        pl.gather_access_footprint_bytes(knl), pl.find_instructions(knl, "insn"), cuda, c, cuda.limits,
        find_device("H200"), pl.GlobalArg("a", np.float32, shape="n, m"), pl.ConstantArg("a", np.float32, shape="n"),
        pl.ValueArg("n", np.int32), pl.TemporaryVariable("t", np.float32, shape="3"), pl.Assignment("a[i]", "b[i]"),
        pl.BarrierInstruction(id="b"), pl.NoOpInstruction(id="n"), pl.CInstruction("i", "x = 3;" * 100),
        pl.make_function("{[i]: 0 <= i < 3}", "y[i] = 2*x[i]", [...], name="twice"),
        pl.ForeignFunction("f", [np.float32], np.float32), pl.ReductionOperation("both", "a + b", neutral=0),
        next(entry.matrix.intrinsic for entry in large.instructions if entry.matrix is not None),
        pl.Tuned((*trials, refused), 0), knl.loops, pl.auto, pl.check_equivalence(simple, simple), *errors, warning,
        errors[0].found[0], simple.made, pl.gufunc(simple), pl.dispatch(simple, {"plain": simple}, target=c),
        divided, divided.explain(n=10), pl.Link(), rank, rank.engine,
        *map(alone, (pl.TorchEngine, pl.MpiEngine)),
        pl.OpenCLDevice(), pl.CodeObject("gfx942", b"\x7fELF" * 1000, True, "v_mfma\n" * 1000, {}),
    )  # fmt: skip


def alone(kind: type[Any]) -> object:
    """Return an engine without its library, and the group of processes that this would have."""
    engine = object.__new__(kind)
    engine.rank, engine.size = 0, 1
    return engine


def exceptions() -> list[Any]:
    public = (getattr(pl, name) for name in pl.__all__)
    return [kind for kind in public if isinstance(kind, type) and issubclass(kind, pl.PolyloopError)]


def public_classes() -> Iterator[type]:
    for name in pl.__all__:
        value = getattr(pl, name)
        if inspect.isclass(value) and value.__module__.startswith("polyloop") and not issubclass(value, Enum):
            yield value


def test_there_is_an_instance_of_every_public_class() -> None:
    missing = [k.__name__ for k in public_classes() if not any(isinstance(value, k) for value in values())]
    assert set(missing) <= NO_INSTANCES


def test_every_repr_is_short() -> None:
    long = {}
    for value in values():
        text = repr(value)
        if len(text) > MOST_LETTERS or text.count("\n") >= MOST_LINES:
            long[type(value).__name__] = text
    assert long == {}


def test_a_brief_repr_has_what_is_not_as_by_default() -> None:
    assert repr(pl.GlobalArg("a", np.float32, shape="n")) == "GlobalArg('a', dtype=float32, shape='n')"
    assert repr(pl.ValueArg("n", np.int32)) == "ValueArg('n', dtype=int32)"
    assert repr(pl.Diagnostic("code", "text", notes=("one",))) == "Diagnostic('code', message='text', notes=('one',))"
    assert repr(pl.Op(np.dtype(np.float32), "add")) == "Op(dtype=float32, name='add')"


def test_reprs_tell_what_something_is() -> None:
    knl = flash_attention.transformed()
    assert repr(knl.trace).startswith(f"<Trace of {len(knl.trace)} steps: ")
    assert repr(pl.verify(knl)).startswith("<Certificate of 'flash_attention' for cuda: ")
    assert repr(pl.dependences(knl)) == "<Dependences: 19 RAW, 22 WAR, 16 WAW>"
    program = pl.generate_code(knl, target=pl.CudaTarget())
    lines = len(program.device_code.splitlines())
    assert repr(program) == f"<GeneratedProgram 'flash_attention' for cuda: 1 launch, {lines} lines>"


def test_dataclasses_of_users_keep_all_fields_equal() -> None:
    """A repr leaves things out; equality does not."""
    assert pl.ValueArg("n", np.int32) != pl.ValueArg("n", np.int64)
    assert dataclasses.is_dataclass(pl.ValueArg)


class _Balance(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_notebooks_show_html_of_everything() -> None:
    """Containers of Python alone have none; pictures have SVG."""
    shown = {type(value): value for value in values() if type(value) not in (tuple, dict)}
    for value in shown.values():
        if isinstance(value, pl.Picture):
            assert value._repr_svg_().startswith("<svg")
            continue
        text = value._repr_html_()  # type: ignore[attr-defined]
        assert len(text) < 60_000
        assert "object at 0x" not in text
        parser = _Balance()
        parser.feed(text)
        assert parser.open == []
        assert "script" not in parser.seen
        assert "http" not in text
        assert "prefers-color-scheme:dark" in text


def test_source_is_highlighted_and_nothing_is_lost() -> None:
    program = pl.generate_code(flash_attention.transformed(), target=pl.CudaTarget())
    text = program._repr_html_()
    assert text is not None
    assert '<span class="f-blue">for</span>' in text
    assert '<span class="f-purple">float</span>' in text
    assert '<span class="f-orange">' in text

    class Text(html.parser.HTMLParser):
        found = ""
        inside = False

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.inside = self.inside or tag == "pre"

        def handle_endtag(self, tag: str) -> None:
            self.inside = self.inside and tag != "pre"

        def handle_data(self, data: str) -> None:
            self.found += data * self.inside

    parser = Text()
    parser.feed(text)
    assert parser.found.strip() == program.device_code.strip()


def test_markup_in_names_is_escaped() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = i if 1 < i else 2", [pl.GlobalArg("a", shape="n"), ...])
    assert "1 &lt; i" in (knl._repr_html_() or "") or "i &gt; 1" in (knl._repr_html_() or "")
