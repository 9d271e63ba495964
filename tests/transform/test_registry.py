"""Every transform is registered, documented and tested; traces are data."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyloop as pl
import polyloop.transform
from polyloop.transform.base import Transform
from polyloop.transform.registry import FUNCTIONS, TRANSFORMS
from tests.transform.checking import cuda
from tests.transform.kernels import blur


def transforms() -> Iterator[type[Transform]]:
    for module in pkgutil.walk_packages(polyloop.transform.__path__, "polyloop.transform."):
        found = vars(importlib.import_module(module.name)).values()
        yield from (kind for kind in found if inspect.isclass(kind) and issubclass(kind, Transform))


def test_every_transform_is_registered() -> None:
    assert {kind for kind in transforms() if not inspect.isabstract(kind)} == set(TRANSFORMS.values())
    assert TRANSFORMS.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_transform_is_public_and_documented(name: str) -> None:
    function = FUNCTIONS[name]
    assert getattr(pl, name) is function
    assert name in pl.__all__
    assert getattr(pl.LoopKernel, name) is function
    text = inspect.getdoc(function) or ""
    assert ">>> " in text, "no example of before and after"
    assert "Raises\n------" in text
    assert TRANSFORMS[name].__doc__
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert f".{name}(" in tests


def test_a_transform_is_loaded_when_it_is_first_used() -> None:
    program = (
        "import sys, polyloop as pl\n"
        "module = 'polyloop.transform.loops.split'\n"
        "before = module in sys.modules\n"
        "knl = pl.make_kernel('{[i]: 0 <= i < n}', 'y[i] = 2*x[i]').split_iname('i', 4)\n"
        "print(before, module in sys.modules, knl.split_iname('i_inner', 2).inames)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False True ('i_outer', 'i_inner_outer', 'i_inner_inner')\n"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            '[{"name": "split_in", "arguments": {}}]',
            "unknown-transform",
            "trace_from_json: no transform 'split_in' [unknown-transform]\n  Hint: did you mean 'split_iname'?",
        ),
        (
            "no JSON",
            "bad-trace",
            "trace_from_json: this is not a trace [bad-trace]\n"
            "  Note: Expecting value: line 1 column 1 (char 0)\n"
            "  Hint: pass what Trace.to_json() returned",
        ),
        (
            "{}",
            "bad-trace",
            "trace_from_json: this is not a trace [bad-trace]\n"
            "  Note: it is not an array\n"
            "  Hint: pass what Trace.to_json() returned",
        ),
        (
            '[{"step": 1}]',
            "bad-trace",
            "trace_from_json: this is not a trace [bad-trace]\n"
            '  Note: no step: {"step": 1}\n'
            "  Hint: pass what Trace.to_json() returned",
        ),
    ],
)
def test_what_is_no_trace_is_refused(text: str, code: str, message: str) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.trace_from_json(text)
    assert caught.value.codes == (code,)
    assert str(caught.value) == message


def test_unknown_arguments_in_a_trace_are_refused() -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.trace_from_json('[{"name": "split_iname", "arguments": {"factor": 16}}]')
    assert caught.value.codes == ("bad-trace",)


def test_a_step_that_does_not_fit_names_itself() -> None:
    trace = pl.split_iname(blur(), "i", 16).trace
    twice = pl.split_iname(blur(), "i", 16)
    with pytest.raises(pl.TransformError) as caught:
        pl.replay(trace, twice)
    assert caught.value.codes == ("unknown-iname",)


def test_transforms_leave_the_kernel_alone() -> None:
    base = blur()
    before = cuda(base)
    pl.split_iname(base, "i", 16, inner_tag="l.0")
    assert cuda(base) == before
    assert len(base.trace) == 0
