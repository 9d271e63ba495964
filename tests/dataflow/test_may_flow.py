"""Temporaries whose accesses data decides about: each thread may have its own where values do not cross."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl

F = np.float32
DATA = [pl.GlobalArg("x, y", F, shape="n"), ...]
OWN = """
for i
    <> t = 0 {id=first}
    t = x[i] {id=second, dep=first, if=x[i] > 0}
    y[i] = 2*t {dep=second}
end
"""
KEPT = """
<> t = 0 {id=first}
for i
    t = x[i] {id=second, dep=first, if=x[i] > 0}
    y[i] = 2*t {dep=second}
end
"""


def on_threads(text: str) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, DATA)
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def test_a_scalar_that_each_iteration_sets_first() -> None:
    text = pl.generate_code(on_threads(OWN)).device_code
    assert "        if (x[i] > 0.0f)\n            t = x[i];  // second" in text


def test_a_scalar_that_keeps_its_value_is_refused() -> None:
    with pytest.raises(pl.TransformError) as refused:
        on_threads(KEPT)
    assert str(refused.value) == (
        "split_iname on kernel 'loop_kernel': cannot run 'i_outer' as 'g.0', 'i_inner' as 'l.0': 't' would be read "
        "before it is written, or after it is overwritten [illegal-parallel]\n"
        "  t = x[i] {id=second, dep=first, if=x[i] > 0}         (line 4, instruction 'second')\n"
        "  y[i] = 2*t {dep=second}                              (line 5, instruction 'insn')\n"
        "  Note: instance (i=1) reads t, which instance (i=0) may write\n"
        "  Hint: keep the loop sequential, or run another loop of the nest in parallel"
    )


def test_a_loop_may_not_run_between_the_two_writes() -> None:
    """Interchange: the conditional writes of all j would come after the last plain one."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < 4 and 0 <= j < 4}",
        """
        for i
            <> t = 0 {id=first}
            for j
                t = x[j] {id=second, dep=first, if=x[j] > i}
            end
            y[i] = t {dep=second}
        end
        """,
        [pl.GlobalArg("x, y", F, shape="4"), ...],
    )
    for tagged in (pl.tag_inames(knl, "i:l.0"), pl.tag_inames(knl, "i:g.0")):
        x = np.array([0.5, 2.5, 1.5, -1], F)
        expected = pl.interpret(knl, x=x)
        np.testing.assert_array_equal(pl.compile(tagged, target=pl.CTarget())(x=x)["y"], expected["y"])
    with pytest.raises(pl.TransformError) as refused:
        pl.tag_inames(knl, "j:l.0")
    assert refused.value.codes == ("illegal-parallel",)


def test_a_written_for_block_is_one_loop() -> None:
    """Although the read through ``idx`` may meet what a later iteration writes."""
    text = "for i\nx[idx[i]] = i {id=write}\ny[i] = x[i] {dep=write}\nend"
    data = [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("idx", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data)
    assert str(knl.reference) == "for i\n    x[idx[i]] = i    {id=write}\n    y[i] = x[i]    {id=insn}"


@pytest.mark.parametrize("n", [1, 31, 33])
def test_arrays_of_a_thread_that_are_read_through_data(n: int) -> None:
    knl = pl.make_kernel(
        "{[i, k, m]: 0 <= i < n and 0 <= k, m < 4}",
        """
        for i
            own[k] = 0 {id=clear}
            own[c[i, m]] = own[c[i, m]] + x[i] {id=add, dep=clear}
            y[i] = own[1] + 2*own[3] {dep=add}
        end
        """,
        [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("c", np.int32, shape="n, 4"),
         pl.TemporaryVariable("own", F, shape="4"), ...],
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    rng = np.random.default_rng(n)
    x, c = rng.integers(0, 9, n).astype(F), rng.integers(0, 4, (n, 4)).astype(np.int32)
    expected = x * ((c == 1).sum(1) + 2 * (c == 3).sum(1))
    for result in (pl.interpret(knl, x=x, c=c), pl.compile(knl, target=pl.CTarget())(x=x, c=c)):
        np.testing.assert_array_equal(result["y"], expected.astype(F))


def test_an_array_that_is_cleared_first_is_no_input() -> None:
    text = "for i\ncount[i] = 0 {id=clear}\nend\nfor j\ncount[c[j]] = count[c[j]] + 1 {dep=clear}\nend"
    data = [pl.GlobalArg("count", np.int32, shape="n"), pl.GlobalArg("c", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data)
    count = knl.argument("count")
    assert "count: int32[n] (out)" in str(knl), count


def test_threads_that_update_one_element_are_told_of_atomic() -> None:
    data = [pl.GlobalArg("count, c", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "count[c[i]] = count[c[i]] + 1", data)
    with pytest.raises(pl.TransformError) as refused:
        pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert refused.value.codes == ("write-race",)
    assert "Hint: mark the update {atomic}, or keep the loop sequential" in str(refused.value)


def test_an_atomic_exchange_hides_what_was_there() -> None:
    """What others exchanged before is not seen: only the instance's own value, whatever the order of the loop."""
    text = "for i, j\n  t[i] = a[i, j] {atomic, id=put}\n  b[i, j] = t[i] {dep=put}\nend"
    data = [pl.GlobalArg("a, b", F, shape="4, 4"), pl.TemporaryVariable("t", F, shape=(4,)), ...]
    knl = pl.reverse(pl.make_kernel("{[i, j]: 0 <= i, j < 4}", text, data), "j")
    a = np.arange(16, dtype=F).reshape(4, 4)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(a=a)["b"], a)
    text = text.replace("= a", "= t[i] + a").replace("for i, j", "for i\n  t[i] = 0 {id=zero}\nend\nfor i, j")
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 4}", text, data)
    with pytest.raises(pl.TransformError):
        pl.reverse(knl, "j")


def test_the_write_that_a_refusal_names_is_a_wrong_one() -> None:
    """Seed 80400617: of the writes that may reach a read, the one that should was named."""
    text = "t[i] = x[j]\nt[i] = t[i] + x[i] {atomic}"
    data = [pl.GlobalArg("x", F, shape="n"), pl.TemporaryVariable("t", F, "n", pl.AddressSpace.GLOBAL), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, silenced_warnings="*")
    knl = pl.unchecked(knl, "the order is looked at", claims="races")
    with pytest.raises(pl.TransformError) as refused:
        pl.split_iname(knl, "j", 4, inner_tag="l.0")
    (finding,) = refused.value.found
    one, other = (note[note.index("(i=0, j=") :] for note in finding.notes)
    assert one != other
