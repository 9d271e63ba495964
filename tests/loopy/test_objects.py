"""Objects that scripts for Loopy pass: tags, callables, manglers and generators, and traces of assignments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from polyloop import loopy as lp
from tests.transform.checking import check

F = np.float64
X = np.arange(1, 9, dtype=F)


class Stream:
    """A tag of a script."""


class Hot(Stream):
    """Another one."""


def scaled() -> lp.TranslationUnit:
    data = [lp.GlobalArg("x", F, shape="n", tags=[Stream()]), ...]
    return lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 2}", "y[i, j] = 2*x[i] {id=set}", data)


def test_inames_arrays_and_instructions_carry_objects() -> None:
    knl = lp.tag_inames(scaled(), {"i": Stream(), "j": [Hot(), "unr"]})
    knl = lp.tag_instructions(knl, Hot(), "id:set")
    kernel = knl.default_entrypoint
    assert {type(tag) for tag in kernel.inames["i"].tags} == {Stream}
    assert kernel.iname_tags_of_type("j", Stream) == kernel.inames["j"].tags_of_type(Hot)
    assert {str(tag) for tag in kernel.iname_tags("j") if not isinstance(tag, Stream)} == {"unr"}
    assert {type(tag) for tag in kernel.arg_dict["x"].tags} == {Stream}
    assert kernel.id_to_insn["set"].tags_of_type(Hot)
    assert not kernel.id_to_insn["set"].tags_of_type(int)
    found = lp.find_instructions(knl, lp.match.ObjTagged(Hot()))
    assert [insn.id for insn in found] == ["set"]


def test_objects_stay_behind_other_steps_and_change_no_result() -> None:
    knl = lp.tag_inames(scaled(), {"j": Hot()})
    knl = lp.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert knl.default_entrypoint.iname_tags_of_type("j", Hot)
    assert str(knl.default_entrypoint.inames["i_inner"].tags) == "frozenset({LocalAxis(axis=0)})"
    check(knl.default_entrypoint.kernel, {"x": X}, {"y": np.stack([2 * X, 2 * X], 1)})


def test_match_expressions_are_built_by_functions() -> None:
    m = lp.match
    knl = lp.make_kernel("{[i]: 0 <= i < 8}", ["y[i] = x[i] {id=a, tags=u}", "z[i] = w[i] {id=b}"])
    for expression, ids in [
        (m.And((m.Iname("i"), m.Not(m.Id("a")))), ["b"]), (m.Or((m.Writes("y"), m.Reads("w"))), ["a", "b"]),
        (m.Tagged("u"), ["a"]), (m.parse_match(m.All()), ["a", "b"]),
    ]:  # fmt: skip
        assert [insn.id for insn in lp.find_instructions(knl, expression)] == ids


class Sinc(lp.ScalarCallable):
    """sin(x)/x, of float32 and float64."""

    def with_types(self, arg_id_to_dtype: Any, callables_table: Any) -> tuple[Any, Any]:
        if set(arg_id_to_dtype) - {0, -1}:
            raise TypeError("sinc has one argument")
        dtype = arg_id_to_dtype[0]
        if dtype.kind != "f":
            raise TypeError(dtype)
        letter = "f" if dtype.numpy_dtype == np.float32 else ""
        return self.copy(name_in_target=f"sinc{letter}", arg_id_to_dtype={0: dtype, -1: dtype}), callables_table

    def generate_preambles(self, target: object) -> Iterator[tuple[str, str]]:
        del target
        space, kind = ("f", "float") if self.name_in_target == "sincf" else ("", "double")
        body = f"return x == 0 ? 1 : sin{space}(x)/x;"
        yield f"10_{self.name_in_target}", f"static inline {kind} {self.name_in_target}({kind} x) {{ {body} }}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_callable_is_asked_for_each_type(dtype: Any) -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = sinc(x[i])", target=lp.CTarget())
    knl = lp.register_callable(knl, "sinc", Sinc("sinc"))
    knl = lp.split_iname(knl, "i", 4)
    _, (y,) = knl(x=X.astype(dtype))
    assert y.dtype == dtype
    np.testing.assert_allclose(y, (np.sin(X) / X).astype(dtype), rtol=1e-6)
    assert "sincf(" in str(lp.generate_code_v2(lp.add_dtypes(knl, {"x": np.float32})))


def test_a_callable_that_accepts_nothing_is_refused() -> None:
    class Never(lp.ScalarCallable):
        def with_types(self, arg_id_to_dtype: Any, callables_table: Any) -> tuple[Any, Any]:
            raise TypeError("not today")

    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = f(x[i])")
    with pytest.raises(lp.LoopyError, match=r"accepts no numbers as arguments \[bad-function\]\n.*not today"):
        lp.register_callable(knl, "f", Never("f"))


def test_symbols_are_found_by_manglers() -> None:
    def constants(kernel: object, name: str) -> tuple[Any, str] | None:
        del kernel
        return (lp.NumpyType(F), "0.25 + 0.5") if name == "QUARTERS" else None

    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = QUARTERS*x[i]", [lp.GlobalArg("x", F, "n"), ...],
                         symbol_manglers=[constants])  # fmt: skip
    check_c = knl.copy(target=lp.CTarget())
    np.testing.assert_array_equal(check_c(x=X)[1][0], 0.75 * X)
    assert "y[i] = symbol_QUARTERS(0) * x[i]" in str(lp.generate_code_v2(knl))


def test_preambles_are_generated() -> None:
    seen: list[Any] = []

    def twice(info: lp.PreambleInfo) -> Iterator[tuple[str, str]]:
        seen.append((info.kernel.name, info.seen_dtypes, {entry.name for entry in info.seen_functions}))
        yield "05_twice", "#define TWICE(x) (2*(x))"

    text = lp.CInstruction("i", "y[i] = TWICE(x[i]);", read_variables=frozenset({"x"}), assignees=("y[i]",))
    data = [lp.GlobalArg("x, y", F, shape="n"), "..."]
    knl = lp.make_kernel("{[i]: 0 <= i < n}", [text, "z[i] = exp(x[i])"], data, preamble_generators=[twice])
    np.testing.assert_array_equal(knl.copy(target=lp.CTarget())(x=X)[1][0], 2 * X)
    assert seen == [("loopy_kernel", frozenset({lp.NumpyType(F)}) | seen[0][1], {"exp"})]
    later = lp.register_preamble_generators(scaled(), [twice])
    assert "#define TWICE" in str(lp.generate_code_v2(later))


def test_assignments_are_traced(capsys: pytest.CaptureFixture[str]) -> None:
    knl = lp.set_options(scaled(), trace_assignment_values=True)
    knl(x=X[:1])
    assert capsys.readouterr().out == "set[i=0, j=0]: y[0, 0] = 2.0\nset[i=0, j=1]: y[0, 1] = 2.0\n"
    lp.set_options(scaled(), trace_assignments=True)(x=X[:1])
    assert capsys.readouterr().out == "set[i=0, j=0]: y[0, 0]\nset[i=0, j=1]: y[0, 1]\n"


def test_instructions_say_what_they_have_to_do_with() -> None:
    knl = lp.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "y[i] = sum((j, k), a[i, j]*x[k]) {id=set}",
                         [lp.GlobalArg("a, x", np.float64), ...])  # fmt: skip
    (insn,) = knl.default_entrypoint.instructions
    assert insn.within_inames == {"i"} == knl.default_entrypoint.insn_inames(insn)
    assert insn.reduction_inames() == {"j", "k"}
    assert insn.assignee_var_names() == ("y",)
    assert insn.write_dependency_names() == {"y", "i"}
    assert insn.dependency_names() >= {"a", "x", "y", "i", "j", "k"}
    assert knl.default_entrypoint.id_to_insn["set"].depends_on == frozenset()
