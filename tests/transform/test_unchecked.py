"""``unchecked``: a refused step is taken, and the reason stands in the trace, the certificate and the source."""

from __future__ import annotations

import json

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.fibres import run_on_fibres
from tests.schedule.test_verify import F, product, scan, sweep


def forced(reason: str = "a[i] is zero where it matters") -> LoopKernel:
    return pl.split_iname(pl.unchecked(scan(), reason), "i", 16, outer_tag="g.0", inner_tag="l.0")


def test_a_refused_step_is_taken_where_the_user_says_why() -> None:
    with pytest.raises(pl.TransformError):
        pl.split_iname(scan(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = forced()
    certificate = pl.verify(knl)
    assert not certificate.is_proven
    assert [finding.code for finding in certificate.open] == ["illegal-order", "race"]
    assert certificate.unchecked == ("a[i] is zero where it matters",)
    assert "not proven: two threads access 'x' at the same time [race]" in str(certificate)
    assert json.loads(certificate.to_json())["proven"] is False
    assert "2 findings let pass by pl.unchecked" in repr(certificate)


@pytest.mark.parametrize("target", [pl.CudaTarget(), pl.CTarget()])
def test_the_source_begins_with_the_reason_and_what_is_not_proven(target: pl.Target) -> None:
    lines = pl.generate_code(forced(), target=target).device_code.splitlines()
    assert lines[:3] == [
        "// unchecked: a[i] is zero where it matters",
        "// not proven: 'x' would be read before it is written",
        "// not proven: two threads access 'x' at the same time",
    ]


@pytest.mark.parametrize("reason", ["*/ x\n#error\n", "ends with \\", "a\rb\x0cc", "w" * 300])
def test_a_reason_stays_a_comment(reason: str) -> None:
    code = pl.generate_code(pl.unchecked(sweep(), reason), target=pl.CTarget()).device_code
    head = code.split("#include")[0].strip().split("\n")
    assert all(line.startswith("// ") and not line.endswith("\\") and len(line) <= 110 for line in head)
    run = pl.compile(pl.unchecked(sweep(), reason), target=pl.CTarget())
    assert run(x=np.ones((4, 4), F)).y[1, 1] == 4


def test_the_trace_holds_the_reason_and_replays() -> None:
    knl = forced()
    assert str(knl.trace).splitlines()[0] == "knl = pl.unchecked(knl, reason='a[i] is zero where it matters')"
    again = pl.replay(pl.trace_from_json(knl.trace.to_json()), scan())
    assert again.waivers == knl.waivers
    assert "unchecked:\n    a[i] is zero" in str(knl)


def test_a_needless_unchecked_changes_nothing_but_the_comment() -> None:
    plain = pl.generate_code(product(), target=pl.CudaTarget()).device_code
    knl = product().unchecked("habit")
    assert pl.verify(knl).is_proven
    assert pl.generate_code(knl, target=pl.CudaTarget()).device_code == f"// unchecked: habit\n{plain}"


def test_races_of_a_buffer_are_let_pass_too() -> None:
    data = [pl.GlobalArg("s", F, shape=1), pl.GlobalArg("m", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "s[0] = s[0] + m[i]", data, name="total")
    knl = pl.split_iname(pl.unchecked(knl, "one thread runs"), "i", 32, inner_tag="l.0")
    assert not pl.verify(pl.buffer_array(knl, "s", [])).is_proven


def test_what_isl_gave_up_on_is_let_pass_where_it_is_about_values() -> None:
    knl = pl.unchecked(sweep(), "shown on paper")
    certificate = pl.verify(knl, max_operations=600)
    assert [finding.code for finding in certificate.open] == ["not-proven"]
    assert pl.generate_code(knl).device_code.startswith(
        "// unchecked: shown on paper\n// not proven: each read of 'x' sees the write"
    )
    assert pl.verify(knl).is_proven


def test_barriers_are_placed_all_the_same() -> None:
    knl = pl.unchecked(product(), "habit")
    a = np.arange(289, dtype=F).reshape(17, 17)
    for result in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"a": a, "b": a, "n": 17}).values():
        np.testing.assert_allclose(result["c"], a @ a, rtol=1e-5)


def test_what_a_device_cannot_do_stays_an_error() -> None:
    knl = pl.split_iname(pl.unchecked(sweep(), "big"), "j", 2048, inner_tag="l.0")
    with pytest.raises(pl.VerificationError) as error:
        pl.verify(knl)
    assert error.value.codes == ("block-too-large",)


def test_without_a_reason_nothing_is_let_pass() -> None:
    for reason in ("", " \n"):
        with pytest.raises(pl.TransformError) as error:
            pl.unchecked(scan(), reason)
        assert str(error.value) == (
            "unchecked on kernel 'scan': a kernel can go without proofs only for a reason [no-reason]\n"
            '  Hint: say why it is right all the same: pl.unchecked(knl, "rows never share an element")'
        )



# {{{ what a waiver is not about


def floyd() -> LoopKernel:
    data = [pl.GlobalArg("d", np.int32, shape="n, n"), ...]
    text = "d[i, j] = min(d[i, j], d[i, k] + d[k, j])"
    knl = pl.make_kernel("{[k, i, j]: 0 <= k, i, j < n}", text, data, name="floyd", assumptions="n >= 1")
    return pl.prioritize_loops(pl.unchecked(knl, "row and column k do not change in step k"), "k, i, j")


def shortest(d: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    for k in range(len(d)):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1])
    return d


@pytest.fixture
def without_host_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host run no loop around launches."""
    monkeypatch.setattr("polyloop.sync.host_loops.obstacle", lambda *_: "the host runs none")


def test_a_wait_between_blocks_is_the_end_of_a_launch() -> None:
    knl = pl.split_iname(floyd(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    d = np.random.default_rng(1).integers(1, 50, (35, 35), np.int32)
    np.fill_diagonal(d, 0)
    program = pl.generate_code(knl)
    assert [loop.iname for launch in program.launches for loop in launch.around] == ["k"]
    for found in run_on_fibres(program, {"d": d}).values():
        np.testing.assert_array_equal(found.d, shortest(d))


@pytest.mark.usefixtures("without_host_loops")
def test_a_wait_between_blocks_is_no_barrier_inside_of_one() -> None:
    with pytest.raises(pl.TransformError) as error:
        pl.split_iname(floyd(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert str(error.value).splitlines() == [
        "split_iname on kernel 'floyd': "
        "blocks would have to wait for each other in the loop 'k', and cannot [blocks-wait]",
        "  d[i, j] = min(d[i, j], d[i, k] + d[k, j])            (line 1, instruction 'insn')",
        "  Note: "
        "instance (k=0, i=1, j=0) writes d[1, 0]; instance (k=1, i=16, j=0) reads it later, on another block",
        "  Note: 'pl.unchecked' denies races on 'd', not that the program has an order",
        "  Hint: call the kernel once for each value of 'k', or let one block do it all: tag inames 'l.N' only",
    ]


@pytest.mark.usefixtures("without_host_loops")
def test_no_hint_is_tried_without_a_proof() -> None:
    """All steps of 'a' before all steps of 'b' would be another program, and seemed to be legal."""
    text = "for t\n  for i\n    x[i] = y[i-1] {id=a}\n  end\n  for j\n    y[j] = x[n-j] {id=b}\n  end\nend"
    domain = "{[t, i, j]: 0 <= t < m and 1 <= i, j < n}"
    knl = pl.unchecked(pl.make_kernel(domain, text, [pl.GlobalArg("x, y", F, shape="n + 1"), ...]), "steps are few")
    with pytest.raises(pl.TransformError) as error:
        pl.tag_inames(knl, "i:g.0")
    assert {*error.value.codes} == {"blocks-wait"}
    assert "distribute_loops" not in str(error.value)


@pytest.mark.parametrize("read", ["if(f[i] > 0, y[i-1], 0) {id=a}", "y[i-1] {id=a, if=f[i] > 0}"])
def test_an_order_that_data_decides_can_be_denied(read: str) -> None:
    """A condition counts alike inside of an expression and beside it."""
    text = f"for t\n  for i\n    x[i] = {read}\n  end\n  for j\n    y[j] = 1 {{id=b}}\n  end\nend"
    data = [pl.GlobalArg("x, y, f", F, shape="n + 1"), ...]
    knl = pl.make_kernel("{[t, i, j]: 0 <= t < m and 1 <= i, j < n}", text, data)
    pl.verify(pl.tag_inames(pl.unchecked(knl, "f is zero"), "i:g.0, j:g.0"))


def in_two_launches(space: str = "auto") -> pl.LoopKernel:
    """Each block copies its tile before any block writes: a tile would have to live from one launch to the next."""
    data = [pl.GlobalArg("a", F, shape="n, n + 1")]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "a[i, j] = a[i, j + 1]", [*data, ...], name="left")
    knl = pl.split_iname(pl.unchecked(knl, "a is zero"), "i", 2, outer_tag="g.0")
    knl = pl.split_iname(knl, "j", 2, outer_tag="g.1")
    knl = pl.add_prefetch(knl, "a", ["i_inner", "j_inner"])
    return pl.set_temporary_address_space(knl, "a_fetch", space)


def test_a_waiver_is_not_about_what_is_chosen_for_the_user() -> None:
    """Seed 33301922: the tile became one in global memory for all blocks, though that was proven wrong."""
    with pytest.raises(pl.VerificationError) as error:
        pl.verify(in_two_launches())
    assert error.value.codes == ("private-across-launches",)
    certificate = pl.verify(in_two_launches("global"))  # as the user says
    assert "race" in [finding.code for finding in certificate.open]


def test_what_is_chosen_and_proven_is_chosen_under_a_waiver_too() -> None:
    """A scalar of all blocks lives from one launch to the next in global memory."""
    text = "<> s = 3*a[0] {id=s}\nb[i] = s*a[i] {id=v, dep=s}\nc[j] = b[63 - j] + s {dep=v}"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 64}", text, [pl.GlobalArg("a, b", F, shape="64"), ...])
    knl = pl.unchecked(knl, "as it is")
    for iname in ("i", "j"):
        knl = pl.split_iname(knl, iname, 8, outer_tag="g.0", inner_tag="l.0")
    assert len(pl.generate_code(knl, target=pl.CudaTarget()).launches) == 3
    assert not pl.verify(knl).open


def test_in_one_block_the_wait_is_a_barrier() -> None:
    knl = pl.fix_parameters(floyd(), n=20)
    knl = pl.tag_inames(knl, "i:l.1, j:l.0")
    d = np.random.default_rng(1).integers(1, 100, (20, 20)).astype(np.int32)
    np.fill_diagonal(d, 0)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert program.device_code.count("__syncthreads();") == 1
    for result in run_on_fibres(program, {"d": d.copy()}).values():
        np.testing.assert_array_equal(result["d"], shortest(d))


def test_a_waiver_is_about_what_it_names() -> None:
    knl = pl.unchecked(scan(), "x is zero", claims="order", arrays="x")
    with pytest.raises(pl.TransformError):
        pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    other = pl.unchecked(scan(), "a is zero", arrays=["a"])
    with pytest.raises(pl.TransformError):
        pl.split_iname(other, "i", 16, outer_tag="g.0", inner_tag="l.0")
    both = pl.unchecked(scan(), "x is zero", "order, races", "x")
    both = pl.split_iname(both, "i", 16, outer_tag="g.0", inner_tag="l.0")
    certificate = pl.verify(both)
    assert certificate.unchecked == ("x is zero (order, races of 'x')",)
    assert [finding.code for finding in certificate.open] == ["illegal-order", "race"]
    assert str(both.trace).startswith(
        "knl = pl.unchecked(knl, reason='x is zero', claims=['order', 'races'], arrays=['x'])"
    )
    again = pl.replay(pl.trace_from_json(both.trace.to_json()), scan())
    assert again.waivers == both.waivers


def test_bounds_storage_barriers_and_the_device_are_never_waived() -> None:
    for claim in ("bounds", "storage", "barriers", "device", "everything"):
        with pytest.raises(pl.TransformError) as error:
            pl.unchecked(scan(), "a reason", claims=claim)
        assert error.value.codes == ("not-waivable",)
    assert str(error.value) == (
        "unchecked on kernel 'scan': 'everything' is nothing that goes without a proof [not-waivable]\n"
        "  Hint: what can be: coverage, values, reduction, order, terms, races"
    )
    with pytest.raises(pl.TransformError) as error:
        pl.unchecked(scan(), "a reason", arrays="nothing")
    assert error.value.codes == ("unknown-array",)


# }}}
