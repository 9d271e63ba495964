"""Traces and recipes are read from text that anyone may have changed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.edge.data import parse_json


def matmul() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b, c", np.float32, shape="n, n"), ...]
    return pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="matmul")


def step(**changes: object) -> dict[str, object]:
    return {"name": "split_iname", "arguments": {"split_iname": "i", "inner_length": 4}, **changes}


NO_TRACES: dict[str, object] = {
    "no step": [5],
    "a name that is a list": [step(name=[])],
    "a name that is an object": [step(name={})],
    "a name that is a number": [step(name=5)],
    "no arguments": [step(arguments=None)],
    "arguments that are a number": [{"name": "tag_inames", "arguments": 5}],
    "arguments that are a list": [step(arguments=["i", 4])],
    "an argument too few": [step(arguments={"split_iname": "i"})],
    "an argument of no function": [step(arguments={"self": 1})],
    "an argument of another type": [step(arguments={"split_iname": "i", "inner_length": "4"})],
    "a length that is huge": [step(arguments={"split_iname": "i", "inner_length": 2**70})],
    "a name that is a list in arguments": [step(arguments={"split_iname": ["i"], "inner_length": 4})],
    "lengths that are a list": [{"name": "tile", "arguments": {"lengths": [1]}}],
    "lengths that are texts": [{"name": "tile", "arguments": {"lengths": {"i": "4"}}}],
    "nothing to tensorize": [{"name": "tensorize", "arguments": {}}],
    "inames that are a text": [{"name": "tensorize", "arguments": {"insns": "x", "intrinsic": "y", "inames": "i"}}],
    "groups that are a number": [{"name": "distribute_loops", "arguments": {"iname": "i", "groups": 3}}],
    "a parameter that is a text": [{"name": "fix_parameters", "arguments": {"n": "4"}}],
    "tags that are numbers": [{"name": "tag_inames", "arguments": {"iname_to_tag": {"i": 5}}}],
}


@pytest.mark.parametrize("case", NO_TRACES)
def test_what_is_no_trace_is_refused(case: str) -> None:
    text = json.dumps(NO_TRACES[case])
    for read in (pl.trace_from_json, pl.Trace.from_json, pl.Recipe.from_json):
        with pytest.raises(pl.TransformError) as caught:
            pl.replay(pl.Trace(read(text).steps), matmul())
        assert caught.value.codes == ("bad-trace",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "more than 50 brackets are open at character 50"),
        ('{"a": ' * 60 + "1" + "}" * 60, "more than 50 brackets are open at character 300"),
        (f"[{'9' * 5000}]", "a number has more than 400 digits, at character 1"),
        ('[{"name": "x", "name": "y"}]', 'the name "name" stands twice in one object'),
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
        ('["\x01"]', "Invalid control character at: line 1 column 3 (char 2)"),
    ],
    ids=range(7),
)
def test_text_that_is_no_data_is_refused(text: str, why: str) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.trace_from_json(text)
    assert str(caught.value) == (
        f"trace_from_json: this is not a trace [bad-trace]\n  Note: {why}\n  Hint: pass what Trace.to_json() returned"
    )
    with pytest.raises(pl.TransformError):
        pl.Recipe.from_json(text)


def test_brackets_in_texts_do_not_count() -> None:
    assert parse_json(json.dumps("[" * 1000 + '\\"{')) == "[" * 1000 + '\\"{'


@pytest.mark.parametrize(
    "changes", [5, [5], [["x", [], []]], [["iname", "i", []]], [["iname", ["i"]]], [[[], [], []]], [["iname", [1], []]]]
)
def test_changes_of_names_are_those_of_a_step(changes: Any) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.Recipe.from_json(json.dumps({"steps": [step(changes=changes)], "parameters": {}}))
    assert caught.value.codes == ("bad-trace",)
    assert f"no changes of names: {json.dumps(changes)}" in str(caught.value)


@pytest.mark.parametrize("parameters", [5, ["x"], {"x": 5}, {"x": [5]}, {"x": {"y": "1.inner_length"}}])
def test_parameters_are_places(parameters: Any) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.Recipe.from_json(json.dumps({"steps": [step()], "parameters": parameters}))
    assert caught.value.codes == ("bad-trace",)


@pytest.mark.parametrize("place", ["", "1", "x.y", "1.", "9.inner_length", "1.nosuch", "1.inner_length.0", "²", "1.²"])
def test_places_are_steps_and_arguments(place: str) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.Recipe.from_json(json.dumps({"steps": [step()], "parameters": {"x": place}}))
    assert caught.value.codes == ("unknown-parameter",)


def test_a_step_with_a_mapping_is_read_again() -> None:
    half = pl.make_kernel(
        "{[i, j, k]: 0 <= i < 16 and 0 <= j < 8 and 0 <= k < 16}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b", np.float16), pl.GlobalArg("c", np.float32), ...], name="one",
    )  # fmt: skip
    half = pl.tensorize(half, "insn", "mma_m16n8k16_f16", inames={"i": "i", "j": "j", "k": "k"})
    for kernel in (pl.tile(matmul(), {"i": 16, "j": 4}, inner_tags={"i": "l.1"}), half):
        again = pl.trace_from_json(kernel.trace.to_json())
        assert again.to_json() == kernel.trace.to_json()
