"""What follows from the declaration of a transform: the stub, the index, signatures, help, and types for mypy.

``mypy --strict`` reads this file too: a call that it should refuse and does not is an unused ``type: ignore``.
"""

from __future__ import annotations

import ast
import inspect
import pydoc
from collections.abc import Callable
from configparser import ConfigParser
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, assert_type

import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Applied, Transform
from polyloop.transform.declare import Keyed, Names, Takes, fields_of, function_of
from polyloop.transform.parameters import Iname, Inames, NewName, Pairs, pairs
from polyloop.transform.registry import FUNCTIONS
from tests.transform.declared import FILES, ROOT
from tests.transform.kernels import blur, matmul


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_written_from_the_declarations_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == FILES[path](), "run: python -m tests.transform.declared"


def test_no_package_below_the_transforms_calls_one() -> None:
    """Methods are known to the type checker everywhere, and import-linter does not see them."""
    config = ConfigParser()
    config.read(ROOT.parent / "setup.cfg")
    layers = config["importlinter:contract:layers"]["layers"].split()
    below = [ROOT / name for name in layers[layers.index("transform") + 1 :]]
    paths = [path for home in below for path in (home.rglob("*.py") if home.is_dir() else [home.with_suffix(".py")])]
    assert len(paths) > 100
    other = {"reverse", "shift", "swizzle"}  # of relations, of expressions, of temporaries
    called = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.attr}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS.keys() - other
    ]
    assert called == []


# {{{ static types


def test_functions_and_methods_have_types() -> None:
    knl = blur()
    assert_type(knl.split_iname("i", 16), pl.LoopKernel)
    assert_type(pl.split_iname(knl, "i", inner_length=16, outer_tag=None), pl.LoopKernel)
    assert_type(pl.split_iname(kernel=knl, split_iname="i", inner_length=16), pl.LoopKernel)
    assert_type(knl.split_iname("i", 16).tag_inames({"i_outer": "g.0"}).assume("n >= 1"), pl.LoopKernel)
    assert_type(knl.tile({"i": 4}, inner_tags={"i": "unr"}), pl.LoopKernel)
    assert_type(pl.fix_parameters(knl, n=16), pl.LoopKernel)
    assert_type(knl.fix_parameters(n=16), pl.LoopKernel)
    assert_type(matmul().realize_reduction(), pl.LoopKernel)
    name: Callable[[LoopKernel, str], LoopKernel] = pl.reverse
    assert name(knl, "i").inames


def refused(call: Callable[[], object]) -> tuple[str, ...]:
    with pytest.raises(pl.TransformError) as caught:
        call()
    return caught.value.codes


def test_a_wrong_call_is_no_correct_program() -> None:
    """mypy has to find something in each line; so does the library, when it runs."""
    knl = blur()
    calls: tuple[Callable[[], object], ...] = (
        lambda: knl.split_iname(3, 16),  # type: ignore[arg-type]
        lambda: pl.split_iname(knl, 3, 16),  # type: ignore[arg-type]
        lambda: knl.split_iname("i", 16, outer_tag=0),  # type: ignore[arg-type]
        lambda: knl.tag_inames("i:unr", force="yes"),  # type: ignore[arg-type]
        lambda: pl.tile(knl, {"i": "4"}),  # type: ignore[dict-item]
        lambda: knl.add_prefetch("x", pad=None),  # type: ignore[arg-type]
        lambda: knl.fix_parameters(n=[1]),  # type: ignore[arg-type]
        lambda: pl.map_domain(knl, 3),  # type: ignore[arg-type]
    )
    assert {code for call in calls for code in refused(call)} <= {"wrong-argument-type", "bad-value"}
    wrong: tuple[Callable[[], object], ...] = (
        lambda: knl.split_iname("i"),  # type: ignore[call-arg]
        lambda: knl.split_iname("i", 16, None),  # type: ignore[call-arg, misc]
        lambda: knl.split_iname("i", length=16),  # type: ignore[call-arg]
        lambda: pl.reverse(knl),  # type: ignore[call-arg]
    )
    assert {code for call in wrong for code in refused(call)} == {"wrong-call"}


def test_a_name_that_is_none_is_found_by_mypy() -> None:
    with pytest.raises(AttributeError):
        pl.splt_iname  # type: ignore[attr-defined] # noqa: B018
    with pytest.raises(AttributeError):
        blur().splt_iname  # type: ignore[attr-defined] # noqa: B018


# }}}
# {{{ a declaration


@dataclass(frozen=True)
class TurnRound(Transform):
    """Run loops backwards, and call them otherwise.

    Parameters
    ----------
    inames
        The loops.
    """

    inames: Inames
    new: Annotated[Pairs, Takes(dict[str, str] | None, pairs), Names.INAME, Keyed(Names.NEW)] = ()
    _: KW_ONLY
    only: Iname | None = None
    prefix: NewName = "r"

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        for iname in self.inames:
            kernel = kernel.reverse(iname)
        return kernel


def test_a_class_is_all_that_a_transform_needs() -> None:
    function = function_of(TurnRound)
    assert str(inspect.signature(function)) == (
        "(kernel: polyloop.kernel.kernel.LoopKernel, inames: str | collections.abc.Sequence[str], "
        "new: dict[str, str] | None = None, *, only: str | None = None, prefix: str = 'r') "
        "-> polyloop.kernel.kernel.LoopKernel"
    )
    assert (function.__name__, function.__doc__) == ("turn_round", TurnRound.__doc__)
    knl = function(blur(), "i", {"i": "k"})
    (step,) = knl.trace
    assert isinstance(step, Applied)
    assert step.transform == TurnRound(("i",), (("i", "k"),))
    assert step.script() == "knl = pl.turn_round(knl, inames=['i'], new={'i': 'k'})"
    assert step.data() == {"name": "turn_round", "arguments": {"inames": ["i"], "new": {"i": "k"}}}
    assert {name: entry.names for name, entry in fields_of(TurnRound).items()} == {
        "inames": Names.INAME, "new": Names.INAME, "only": Names.INAME, "prefix": Names.NEW,
    }  # fmt: skip
    assert fields_of(TurnRound)["new"].keyed == Keyed(Names.NEW)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_shows_parameters_and_documentation(name: str) -> None:
    function = FUNCTIONS[name]
    signature = inspect.signature(function)
    assert next(iter(signature.parameters)) == "kernel"
    assert function.__name__ == function.__qualname__ == name
    text = pydoc.plain(pydoc.render_doc(function))
    assert f"{name}(kernel" in text
    assert "Raises" in text
    for parameter in signature.parameters:
        assert parameter in text


def test_what_a_caller_may_pass_is_made_the_value_of_the_field() -> None:
    knl = blur()
    for given in ("i_outer:g.0", {"i_outer": "g.0"}, [("i_outer", "g.0")], (("i_outer", "g.0"),)):
        (*_, step) = knl.split_iname("i", 4).tag_inames(given).trace
        assert isinstance(step, Applied)
        assert step.transform.given() == {"iname_to_tag": {"i_outer": "g.0"}}


# }}}
