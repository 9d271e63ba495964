"""The examples of transforms run: a kernel before, and the instructions or the generated text after."""

from __future__ import annotations

import doctest
import inspect
import re
import textwrap
import warnings

import numpy as np
import pytest

import polyloop as pl
from polyloop.transform.registry import FUNCTIONS

_BODY = re.compile(r"^(?:void|extern \"C\" __global__ void)[^;{}]*\n\{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)


def body(knl: pl.LoopKernel, target: str = "c") -> str:
    """Return the bodies of the generated functions without blank lines; arrays without a type get float32."""
    knl = knl.add_dtypes({argument.name: np.float32 for argument in knl.arguments if argument.dtype is None})
    program = pl.generate_code(knl, target=pl.CTarget() if target == "c" else pl.CudaTarget())
    bodies = _BODY.findall(program.device_code)
    return re.sub(r"\n\n+", "\n", "\n".join(map(textwrap.dedent, bodies))).rstrip()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_transform_prints_what_it_shows(name: str) -> None:
    names = {"pl": pl, "np": np, "body": body}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(FUNCTIONS[name]) or "", names, name, None, None)
    assert any(f".{name}(" in example.source for example in test.examples), "no example"
    assert any(example.want for example in test.examples), "no text after it"
    reported: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=reported.append)
    assert reported == [], "".join(reported)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_docstring_of_a_transform_explains_each_parameter(name: str) -> None:
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    parameters = [parameter for parameter in inspect.signature(function).parameters if parameter != "kernel"]
    assert [parameter for parameter in parameters if not re.search(rf"\b{parameter}\b", text)] == []
