"""Changed forms are refused with a code, or are values; ``python -m tests.serial.changed`` looks at many more."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import islpy as isl
import pytest

import polyloop as pl
from polyloop.creation import loaded
from polyloop.kernel.instruction import Copy
from polyloop.kernel.tags import LocalAxis
from polyloop.proof.read import is_read, of_what_was_read
from tests.serial.changed import change, outcome, sealed
from tests.serial.forms import FORMS

FEW = ("kernel", "a cluster", "launches jacobi", "recipe", "trace", "program", "error", "under_conditions",
       "python_horner")  # fmt: skip


def test_forms_changed_at_random() -> None:
    texts = {name: pl.dumps(FORMS[name]()).decode() for name in FEW}
    found = Counter[str]()
    for seed in range(80):
        rng = random.Random(seed)
        values = json.loads(texts[rng.choice(FEW)])["values"]
        change(rng, values)
        found[outcome(sealed(values), (pl.CTarget(),))] += 1
    assert found["not read: bad-form"] > 30
    assert found["code"] + found["value"] > 10


@pytest.mark.parametrize("name", ["a cluster", "example matmul_wgmma", "launches lu", "a gradient"])
def test_every_feature_has_a_form(name: str) -> None:
    kernel = FORMS[name]()
    again = pl.loads(pl.dumps(kernel))
    assert again == kernel
    assert pl.dumps(again) == pl.dumps(kernel)


def two() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i] = sum(j, a[i, j]*x[2*j])",
                         [pl.GlobalArg("a", "float32", shape="n, m"), pl.GlobalArg("x", "float32", shape="k"),
                          pl.GlobalArg("y", "float32", shape="n"), ...], name="two")  # fmt: skip
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def renamed_values(kernel: pl.LoopKernel) -> Any:
    return tuple(dataclasses.replace(arg, name="nn") if arg.name == "n" else arg for arg in kernel.arguments)


@pytest.mark.parametrize(("change", "words"), [
    (lambda k: {"conditions": ()}, "other conditions on sizes"),
    (lambda k: {"iname_tags": {**k.iname_tags, "i_inner": LocalAxis(7)}}, "'i_inner' has a tag that there is not"),
    (lambda k: {"arguments": renamed_values(k)}, "'n' is no integer argument"),
    (lambda k: {"evaluations": {"t": "insn"}}, "it has values kept in 't'"),
    (lambda k: {"buffers": {"t": "y"}}, "it has a buffer 't'"),
    (lambda k: {"instructions": tuple(dataclasses.replace(i, origin=Copy("insn", {})) for i in k.instructions)},
     "does not say which instances"),
    (lambda k: {"instructions": tuple(dataclasses.replace(i, origin=Copy("none", {})) for i in k.instructions)},
     "which its program has not"),
    (lambda k: {"instructions": tuple(dataclasses.replace(i, terms=()) for i in k.instructions)},
     "another number of reductions"),
    (lambda k: {"reference": dataclasses.replace(k.reference, tree=())}, "the program of its instructions"),
    (lambda k: {"reference": dataclasses.replace(k.reference, kernel=dataclasses.replace(
        k.reference.kernel, conditions=()))}, "a kernel made of these parts is another one"),
])  # fmt: skip
def test_parts_that_no_kernel_has(change: Callable[[Any], dict[str, Any]], words: str) -> None:
    kernel = two()
    with pytest.raises(pl.SerialError) as caught:
        pl.loads(pl.dumps(dataclasses.replace(kernel, **change(kernel))))
    assert words in str(caught.value)


def test_what_only_proofs_find_is_refused_where_it_is_asked() -> None:
    kernel = two()
    origin = kernel.instructions[0].origin
    assert isinstance(origin, Copy)
    wrong = Copy("insn", {**origin.forms, "j": origin.forms["i"]})  # each term of a sum is that of the row's number
    made = pl.loads(pl.dumps(dataclasses.replace(kernel, instructions=tuple(
        dataclasses.replace(i, origin=wrong) for i in kernel.instructions))))
    assert is_read(made)
    assert is_read(pl.loads(pl.dumps(kernel)).tag_inames({"j": "unr_hint"}))
    assert not is_read(kernel)
    for call in (pl.generate_code, pl.verify):
        with pytest.raises(pl.PolyloopError):
            call(made)


def test_a_kernel_that_took_long_to_make_takes_long_to_read() -> None:
    data = pl.dumps(two())
    with pytest.raises(pl.SerialError) as caught, pl.time_budget(1e-6):
        pl.loads(data)
    assert caught.value.codes == ("out-of-time",)
    assert "pl.time_budget" in str(caught.value)


@pytest.mark.parametrize("failure", [AssertionError("of parts that do not fit"), isl.Error("incompatible spaces")])
def test_broken_invariants_of_what_was_read_are_its_own(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def broken(*_: object) -> None:
        raise failure

    kernel = two()
    with pytest.raises(type(failure)), of_what_was_read("verify", kernel):
        broken()
    data = pl.dumps(kernel)
    made = pl.loads(data)
    with pytest.raises(pl.VerificationError) as caught, of_what_was_read("verify", made):
        broken()
    assert caught.value.codes == ("bad-form",)
    assert caught.value.__cause__ is failure
    monkeypatch.setattr(loaded, "_placed", broken)  # as one seed of 18,000 found it, of ISL
    with pytest.raises(pl.SerialError, match=str(failure)):
        pl.loads(data)
