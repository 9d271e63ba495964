"""What users pass is checked where they pass it, against the annotations of what they call."""

from __future__ import annotations

import inspect
import itertools
import pickle
import time
from collections.abc import Callable
from typing import Any, get_type_hints

import numpy as np
import pytest

import polyloop as pl
from polyloop.edge.words import shown
from polyloop.transform.registry import FUNCTIONS

F32 = np.float32


def axpy() -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", F32, shape="n"), pl.ValueArg("a", F32), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = a*x[i]", data, name="axpy", assumptions="n >= 1")


KNL: Any = axpy()
PAIR: Any = (KNL, 3)

REFUSED: dict[str, tuple[Callable[[], object], type[pl.PolyloopError], str]] = {
    "a forgotten result": (
        lambda: pl.split_iname(None, "i", 4),  # type: ignore[arg-type]
        pl.TransformError,
        "split_iname: argument 'kernel' cannot be None [wrong-argument-type]\n"
        "  Note: it takes a LoopKernel\n"
        "  Hint: pass what make_kernel or a transform returned; transforms leave their kernel alone and return a new "
        "one: knl = pl.split_iname(knl, ..)",
    ),
    "a pair": (
        lambda: pl.verify(PAIR),
        pl.ArgumentError,
        "verify: argument 'kernel' cannot be (a LoopKernel 'axpy', 3) [wrong-argument-type]\n"
        "  Note: it takes a LoopKernel\n"
        "  Hint: it has a LoopKernel 'axpy': pass that",
    ),
    "a number as text": (
        lambda: KNL.split_iname("i", "4"),
        pl.TransformError,
        "split_iname on kernel 'axpy': cannot split by '4' [bad-factor]\n"
        "  Hint: inner_length is the extent of the inner loop: an integer of at least 1",
    ),
    "an entry of a sequence": (
        lambda: KNL.add_prefetch("x", ["i", 3]),
        pl.TransformError,
        "add_prefetch on kernel 'axpy': argument 'sweep_inames' cannot be ['i', 3] [wrong-argument-type]\n"
        "  Note: it takes a string or a sequence of strings\n"
        "  Note: entry 1 is 3, not a string",
    ),
    "a number of the wrong kind": (
        lambda: pl.explain(KNL, {"n": 4.5}),  # type: ignore[dict-item]
        pl.ArgumentError,
        "explain on kernel 'axpy': argument 'sizes' cannot be {'n': 4.5} [wrong-argument-type]\n"
        "  Note: it takes a mapping from strings to integers or None\n"
        '  Hint: write sizes={"n": 1024}',
    ),
    "a huge number": (
        lambda: pl.fix_parameters(KNL, n=2**64),
        pl.TransformError,
        "fix_parameters on kernel 'axpy': argument 'n' cannot be 18446744073709551616 [wrong-argument-type]\n"
        "  Note: it takes an integer\n"
        "  Note: it has more than 64 bits",
    ),
    "a letter of no text": (
        lambda: pl.assume(KNL, "n >= 1\0"),
        pl.TransformError,
        "assume on kernel 'axpy': argument 'assumptions' cannot be 'n >= 1\\x00' [wrong-argument-type]\n"
        "  Note: it takes a string\n"
        "  Note: it has a letter that no program text may have: NUL, or half of a surrogate pair",
    ),
    "half of a surrogate pair": (
        lambda: pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 1", name="f\ud800"),
        pl.KernelError,
        "make_kernel: argument 'name' cannot be 'f\\ud800' [wrong-argument-type]\n"
        "  Note: it takes a string\n"
        "  Note: it has a letter that no program text may have: NUL, or half of a surrogate pair",
    ),
    "a target by its name": (
        lambda: pl.compile(KNL, target="cuda"),  # type: ignore[arg-type]
        pl.ArgumentError,
        "compile on kernel 'axpy': argument 'target' cannot be 'cuda' [wrong-argument-type]\n"
        "  Note: it takes a Target or None\n"
        "  Hint: write target=pl.CudaTarget() or target=pl.CTarget()",
    ),
    "a width that there is not": (
        lambda: pl.generate_code(KNL, index_bits=128),
        pl.ArgumentError,
        "generate_code on kernel 'axpy': argument 'index_bits' cannot be 128 [wrong-argument-type]\n"
        "  Note: it takes an integer out of 32, 64 or None",
    ),
    "a negative seed": (
        lambda: pl.check_equivalence(KNL, KNL, seed=-1),
        pl.ArgumentError,
        "check_equivalence on kernel 'axpy': argument 'seed' cannot be -1 [wrong-argument-type]\n"
        "  Note: it takes an integer of at least 0",
    ),
    "no trace": (
        lambda: pl.replay([], KNL),  # type: ignore[arg-type]
        pl.TransformError,
        "replay on kernel 'axpy': argument 'trace' cannot be an empty list [wrong-argument-type]\n"
        "  Note: it takes a Trace\n"
        "  Hint: a kernel has its trace as knl.trace, and pl.trace_from_json reads one",
    ),
    "a declaration": (
        lambda: pl.GlobalArg(["x"]),  # type: ignore[arg-type]
        pl.KernelError,
        "GlobalArg: argument 'name' cannot be ['x'] [wrong-argument-type]\n  Note: it takes a string",
    ),
    "an unknown member": (
        lambda: pl.AddressSpace("shared"),
        pl.ArgumentError,
        "AddressSpace: no AddressSpace is 'shared' [wrong-argument-type]\n"
        "  Hint: one of 'auto', 'private', 'local', 'cluster', 'global'",
    ),
    "a type of arguments": (
        lambda: pl.Array(F32, "n"),
        pl.KernelError,
        "Array: pl.Array is a type of arguments, and has no instances [outside-kernel]\n"
        '  Hint: write the entries in brackets: pl.Array[np.float32, "n"]',
    ),
    "a missing argument": (
        lambda: KNL.split_iname("i"),
        pl.TransformError,
        "split_iname on kernel 'axpy': argument 'inner_length' is missing [wrong-call]\n"
        "  Note: split_iname(kernel, split_iname, inner_length, ..)",
    ),
    "a misspelt argument": (
        lambda: KNL.split_iname("i", inner_lenght=4),
        pl.TransformError,
        "split_iname on kernel 'axpy': there is no argument 'inner_lenght' [wrong-call]\n"
        "  Note: split_iname(kernel, split_iname, inner_length, ..)\n"
        "  Hint: did you mean 'inner_length'?",
    ),
    "too many arguments": (
        lambda: KNL.split_iname("i", 4, "io"),
        pl.TransformError,
        "split_iname on kernel 'axpy': 4 arguments are given by position, and it takes 3 [wrong-call]\n"
        "  Note: split_iname(kernel, split_iname, inner_length, ..)",
    ),
    "an argument given twice": (
        lambda: KNL.split_iname("i", 4, split_iname="i"),
        pl.TransformError,
        "split_iname on kernel 'axpy': argument 'split_iname' is given twice [wrong-call]\n"
        "  Note: split_iname(kernel, split_iname, inner_length, ..)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case: str) -> None:
    call, kind, text = REFUSED[case]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize("bits", [0, -1, 8, 16, 31, 128, 2**70, True, "32", 32.0])
def test_index_bits_are_32_or_64(bits: Any) -> None:
    with pytest.raises(pl.ArgumentError):
        pl.generate_code(KNL, index_bits=bits)


@pytest.mark.few(80)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("first", [None, (), [], "axpy", 3, object()], ids=lambda value: type(value).__name__)
def test_a_first_argument_that_is_no_kernel_is_refused(name: str, first: object) -> None:
    with pytest.raises(pl.TransformError) as caught:
        getattr(pl, name)(first)
    assert caught.value.codes in {("wrong-argument-type",), ("wrong-call",)}


def test_numbers_of_numpy_are_numbers() -> None:
    wanted = str(KNL.split_iname("i", 4, slabs=(0, 1)))
    assert str(KNL.split_iname(np.str_("i"), np.int64(4), slabs=[np.int32(0), 1])) == wanted
    assert KNL.split_iname("i", np.uint8(4)).trace == KNL.split_iname("i", 4).trace


def test_iterables_stand_for_sequences() -> None:
    base = KNL.split_iname("i", 4)
    wanted = str(base.add_prefetch("x", ["i_inner"]))
    names = ["i_inner"]
    ways: list[Any] = [tuple, set, iter, np.array, dict.fromkeys(names).keys().__or__, lambda given: map(str, given)]
    for given in (way(names) for way in ways):
        assert str(base.add_prefetch("x", given)) == wanted


def test_an_iterator_without_an_end_is_no_sequence() -> None:
    with pytest.raises(pl.TransformError) as caught:
        KNL.add_prefetch("x", itertools.repeat("i"))
    assert caught.value.codes == ("wrong-argument-type",)


@pytest.mark.parametrize("given", ["i, j", ["i, j"], [("i", "j")], frozenset({("i", "j")}), frozenset({"i, j"})])
def test_an_order_of_loops_is_written_in_any_way(given: Any) -> None:
    made = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "y[j, i] = 1.0", [...], loop_priority=given)
    assert made.loop_priority == (("i", "j"),)


def test_values_whose_methods_raise_are_not_asked() -> None:
    class Weird:
        def __repr__(self) -> str:
            raise RuntimeError("repr")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("eq")

        __hash__ = None  # type: ignore[assignment] # on purpose

    weird: Any = Weird()
    for call in (lambda: pl.split_iname(weird, "i", 4), lambda: KNL.split_iname("i", weird), lambda: pl.merge([weird])):
        with pytest.raises(pl.PolyloopError) as caught:
            call()
        assert caught.value.codes in {("wrong-argument-type",), ("bad-function",)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**5000, "an integer of 16610 bits"),
        ("x" * 1000, f"'{'x' * 60}'.. (1000 letters)"),
        ([1] * 10, "a list of 10"),
        ([[1]], "a list of 1"),
        ({}, "an empty dict"),
        ((1,), "(1,)"),
        ({"b", "a"}, "{'a', 'b'}"),
        (int, "the class int"),
        (object(), "an object"),
        (pl.AddressSpace.LOCAL, "AddressSpace.LOCAL"),
        (np.float32(0.5), "np.float32(0.5)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shown_shortly(value: object, text: str) -> None:
    assert shown(value) == text


def test_annotations_of_everything_public_can_be_read() -> None:
    for name in pl.__all__:
        value = getattr(pl, name)
        if inspect.isfunction(value):
            assert value.__module__ == "polyloop", f"{name} is not checked"
            assert get_type_hints(inspect.unwrap(value), include_extras=True) is not None


@pytest.mark.parametrize("name", ["split_iname", "make_kernel", "compile", "verify", "replay"])
def test_public_functions_can_be_pickled_and_have_their_signature(name: str) -> None:
    function = getattr(pl, name)
    assert pickle.loads(pickle.dumps(function)) is function
    assert function.__name__ == name
    assert "kernel" in inspect.signature(function).parameters or name == "make_kernel"
    assert function.__doc__


def test_a_check_costs_next_to_nothing() -> None:
    checked, plain = pl.tag_inames, inspect.unwrap(pl.tag_inames)

    def seconds(function: Callable[..., object]) -> float:
        best = 1.0
        for _ in range(7):
            start = time.process_time()
            for _ in range(20):
                function(KNL, {}, force=True)
            best = min(best, (time.process_time() - start) / 20)
        return best

    assert seconds(checked) - seconds(plain) < 50e-6


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(pl.PolyloopError) as caught:
        pl.merge(deep)
    assert caught.value.codes == ("too-deep",)


@pytest.mark.parametrize("kind", [pl.PolyloopWarning, pl.KernelError, pl.ArgumentError])
def test_an_error_that_cannot_be_made_anew_is_a_type_error(kind: type[Exception]) -> None:
    """Test runners carry warnings between processes by calling their classes with the text, and look for this error."""
    with pytest.raises(TypeError):
        kind("a text")


@pytest.mark.parametrize("name", [name for name in pl.__all__ if name.endswith(("Error", "Warning"))])
def test_errors_are_made_of_diagnostics(name: str) -> None:
    """What rebuilds an error from its text, as pickle does, expects a TypeError."""
    kind = getattr(pl, name)
    finding = pl.Diagnostic("a-code", "no")
    made = kind("step", "axpy", finding if issubclass(kind, Warning) else [finding])
    assert str(pickle.loads(pickle.dumps(made))) == str(made)
    for wrong in (("text",), ("step", None, 3), ("step", None, ["text"]), (["step"], None, [finding])):
        with pytest.raises(pl.ArgumentError) as caught:
            kind(*wrong)
        assert isinstance(caught.value, TypeError)
