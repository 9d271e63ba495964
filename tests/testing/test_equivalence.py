"""``check_equivalence``: what it accepts, what it catches and how it says so, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from polyloop.testing.modular import with_integers
from polyloop.testing.report import Mode
from tests.gallery import GALLERY

F = np.float32
C = pl.CTarget()


def matmul(name: str = "matmul", dtype: Any = F) -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b, c", dtype, shape="n, n"), ...]
    return pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name=name)


def tiled(knl: pl.LoopKernel) -> pl.LoopKernel:
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def row_sums(term: str, name: str, dtype: Any = F) -> pl.LoopKernel:
    data = [pl.GlobalArg("a", dtype, shape="n, 4000"), ...]
    return pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 4000}", f"s[i] = sum(k, {term})", data, name=name)


# {{{ agreement


def test_a_tiled_matmul_agrees_at_the_edges_of_its_tiles_in_both_modes() -> None:
    report = pl.check_equivalence(matmul(), tiled(matmul("tiled")), target=C)
    assert [sizes["n"] for sizes in report.sizes] == [0, 1, 7, 8, 9, 16, 17]
    assert report.modes() == (Mode.FLOATS, Mode.INTEGERS)
    assert not report.skipped
    assert all(entry.errors == {"c": 0.0} for entry in report.comparisons if entry.mode is Mode.INTEGERS)
    assert re.sub(r"\d+\.\d\d ms", "T ms", str(report)) == (
        "'tiled' agrees with 'matmul'\n"
        "  sizes: n = 0; n = 1; n = 7; n = 8; n = 9; n = 16; n = 17\n"
        "  floats: every bit agrees\n"
        "    knl_a on c T ms, knl_b on c T ms\n"
        "  integers: every bit agrees\n"
        "    knl_a on c T ms, knl_b on c T ms\n"
        "  seed: 0"
    )


def test_the_interpreter_and_fibres_are_legs_of_their_own() -> None:
    knl = matmul()
    report = pl.check_equivalence(knl, tiled(knl), sizes={"n": 9}, target=C, interpret=True, fibres=True)
    legs = ["knl_a on c", "knl_b on c", *(f"knl_b on fibres ({order})" for order in ("forward", "reverse", "random"))]
    assert [entry.ran for entry in report.comparisons] == 2 * legs
    assert {entry.against for entry in report.comparisons} == {"knl_a interpreted"}


def test_a_sum_in_another_order_agrees_bit_for_bit_only_with_integers() -> None:
    there = row_sums("a[i, k]", "there")
    back = row_sums("a[i, 3999 - k]", "back")
    report = pl.check_equivalence(there, back, sizes={"n": 3}, target=C)
    assert [entry.errors["s"] for entry in report.comparisons if entry.mode is Mode.INTEGERS] == [0.0]
    with pytest.raises(pl.VerificationError) as caught:
        pl.check_equivalence(there, back, sizes={"n": 3}, target=C, rtol=0.0)
    assert caught.value.codes == ("not-equivalent",)


def test_kernels_written_otherwise_agree_where_sums_and_products_make_them_equal() -> None:
    data = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    first = pl.make_kernel("{[i]: 0 <= i < n}", "c[i] = (a[i] + b[i])*(a[i] - b[i]) - 2*b[i]", data, name="first")
    second = pl.make_kernel("{[i]: 0 <= i < n}", "c[i] = a[i]**2 - b[i]*b[i] - b[i] - b[i]", data, name="second")
    assert pl.check_equivalence(first, second, target=C).modes() == (Mode.FLOATS, Mode.INTEGERS)


@pytest.mark.parametrize("dtype", [np.float16, "bfloat16", np.float64, np.complex64])
def test_other_types_agree(dtype: Any) -> None:
    knl = matmul(dtype=dtype)
    report = pl.check_equivalence(knl, pl.split_iname(knl, "k", 4), target=C, interpret=True)
    assert report.modes() == (Mode.FLOATS, Mode.INTEGERS)


def test_records_and_vectors_agree_field_by_field() -> None:
    particle = pl.record("particle", [("pos", pl.vec.float3), ("mass", np.float64), ("id", np.int32)])
    data = [pl.GlobalArg("p, q", particle, shape="n"), pl.GlobalArg("v", pl.vec.float4, shape="n"), ...]
    text = """
        q[i].pos.x = p[i].pos.x*p[i].mass
        q[i].pos.y = 0
        q[i].pos.z = p[i].pos.z if p[i].mass > 0.5 else p[i].pos.y
        q[i].mass = sqrt(p[i].mass)
        q[i].id = p[i].id + 1
        w[i] = 2*v[i] + v[n - 1 - i]
        """
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="moved")
    on_threads = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert pl.check_equivalence(knl, on_threads, target=C, interpret=True).modes() == (Mode.FLOATS, Mode.INTEGERS)


GALLERY_SAMPLE = ("binary_search", "csr_product", "every_update", "logsumexp", "pivots", "push_particles", "two_phases")
WITHOUT_INTEGERS = {
    "binary_search": "'insn' is C text, which computes with floating-point numbers as it likes",
    "blend_colours": "b[i]/3 is a vector, of which only sums and products are known",
    "halvings": "'halve' is C text, which computes with floating-point numbers as it likes",
    "logsumexp": "'log_sum_exp' combines with exp(a.top - max(a.top, b.top)), which is no sum or product",
    "over_nothing": "'euclid' combines with hypot(a, b), which is no sum or product",
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in GALLERY_SAMPLE else pytest.mark.slow) for n in sorted(GALLERY)]
)
def test_a_gallery_kernel_agrees_with_itself_before_its_transforms(name: str) -> None:
    entry = GALLERY[name]
    knl = entry.build()
    assert knl.reference is not None
    before = replace(knl.reference.kernel, reference=knl.reference)
    try:
        pl.generate_code(before, C)
    except (pl.CodegenError, pl.VerificationError):
        before = knl  # as its author wrote it, it needs its transforms: then the interpreter alone is another way
    if "c" in entry.refused:
        pytest.skip(f"C refuses it: {entry.refused['c']}")
    arguments, _ = entry.case(entry.sizes[1], np.random.default_rng(7))
    report = pl.check_equivalence(before, knl, inputs=arguments, target=C, interpret="interpreter" not in entry.refused)
    reason = report.skipped.get(Mode.INTEGERS, "")
    if name in WITHOUT_INTEGERS:
        assert reason == WITHOUT_INTEGERS[name]
    else:
        known = (
            "have no floating-point numbers", "is C text", "combines with", "come from floating-point numbers",
            "cannot be carried out by mma",
        )  # fmt: skip
        assert not reason or any(words in reason for words in known), reason


def test_the_code_with_integers_is_the_code_that_is_tried() -> None:
    knl = tiled(matmul())
    texts = [pl.generate_code(kernel, pl.CudaTarget()).device_code for kernel in (knl, with_integers(knl))]
    assert texts[0].replace("float", "unsigned int").replace("0.0f", "0u") == texts[1]
    assert texts[1].count("__syncthreads();") >= 4


# }}}
# {{{ what is wrong is caught


def test_a_few_large_numbers_excuse_nothing() -> None:
    data = [pl.GlobalArg("x", np.float64, shape="n"), ...]
    right = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", data, name="right")
    wrong = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i] + 1e-9", data, name="wrong")
    x = np.array([1e9, *np.linspace(1, 2, 9)])
    with pytest.raises(pl.VerificationError, match=r"y\[1\] is"):
        pl.check_equivalence(right, wrong, inputs={"x": x}, mode="floats", target=C)


def test_a_wrong_element_is_named_with_both_values_the_size_and_the_seed() -> None:
    right = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x", np.int32, shape="n"), ...])
    text = "y[i] = 2*x[i] + (1 if i == 3 else 0)"
    wrong = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x", np.int32, shape="n"), ...], name="wrong")
    with pytest.raises(pl.VerificationError) as caught:
        pl.check_equivalence(right, wrong, sizes={"n": [2, 5]}, target=C, seed=4)
    assert str(caught.value) == (
        "check_equivalence on kernel 'wrong': 'y' is not what 'loop_kernel' computes [not-equivalent]\n"
        "  Note: y[3] is 1, and must be 0, for n = 5\n"
        "  Note: knl_b on c, compared with knl_a on c; 1 of 5 elements differ\n"
        "  Hint: again: sizes={'n': 5}, seed=4, mode='floats'"
    )


def test_a_lost_update_hides_in_a_tolerance_and_not_in_integers() -> None:
    right, lossy = row_sums("a[i, k]", "right"), row_sums("a[i, k] if k != 1234 else 0", "lossy")

    def positive(sizes: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
        return {"a": rng.random((sizes["n"], 4000), dtype=F)}

    pl.check_equivalence(right, lossy, sizes={"n": 3}, inputs=positive, mode="floats", rtol=1e-3, target=C)
    with pytest.raises(pl.VerificationError) as caught:
        pl.check_equivalence(right, lossy, sizes={"n": 3}, inputs=positive, rtol=1e-3, target=C)
    assert caught.value.found[0].notes[2:] == (
        "floating-point numbers were replaced by integers modulo 2^32, so that no rounding is involved",
        "with the floating-point numbers themselves, the kernels agree within the tolerance",
    )


def test_a_field_of_a_record_is_named() -> None:
    pair = pl.record("pair", [("left", np.int32), ("right", F)])
    data = [pl.GlobalArg("p, q", pair, shape="n"), ...]
    right = pl.make_kernel("{[i]: 0 <= i < n}", "q[i] = p[i]", data)
    wrong = pl.make_kernel("{[i]: 0 <= i < n}", ["q[i].left = p[i].left", "q[i].right = -p[i].right"], data)
    with pytest.raises(pl.VerificationError, match=r"q\[0\]\.right is"):
        pl.check_equivalence(right, wrong, sizes={"n": 2}, target=C)


def test_an_element_that_only_one_kernel_writes_is_a_difference() -> None:
    data = [pl.GlobalArg("x, y", np.uint8, shape="n"), ...]
    whole = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 255", data, name="whole")
    shorter = pl.make_kernel("{[i]: 0 <= i < n - 1}", "y[i] = 255", data, name="shorter")
    with pytest.raises(pl.VerificationError, match=r"y\[39\] is"):
        pl.check_equivalence(whole, shorter, sizes={"n": 40}, target=C)


def test_a_term_lost_in_the_generated_code_hides_in_a_tolerance_and_not_in_integers() -> None:
    knl = pl.split_iname(row_sums("a[i, k]", "sums"), "k", 16)
    a = np.random.default_rng(0).random((2, 4000), dtype=F)
    words = np.random.default_rng(0).integers(0, 2**32, (2, 4000), np.uint32)
    for kernel, values in ((knl, a), (with_integers(knl), words)):
        program = pl.generate_code(kernel, pl.CudaTarget())
        text = program.device_code.replace("acc +=", "if (k_outer != 77 || k_inner) acc +=")
        assert text != program.device_code
        planted = replace(program, device_code=text)
        right, wrong = (run_on_fibres(p, {"a": values}, orders=("forward",))["forward"].s for p in (program, planted))
        if values is a:
            np.testing.assert_allclose(wrong, right, rtol=1e-3)
        else:
            assert (right == values.sum(1, dtype=np.uint32)).all()
            assert (wrong != right).all()


# }}}
# {{{ what is refused


def _refusal(*args: Any, **options: Any) -> str:
    with pytest.raises(pl.PolyloopError) as caught:
        pl.check_equivalence(*args, target=C, **options)
    return str(caught.value)


def test_kernels_with_other_outputs_or_types_are_refused() -> None:
    data = [pl.GlobalArg("a", F, shape="n"), ...]
    one = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", data, name="one")
    two = pl.make_kernel("{[i]: 0 <= i < n}", "d[i] = a[i]", data, name="two")
    assert _refusal(one, two) == (
        "check_equivalence on kernel 'two': it does not write what 'one' writes [different-arguments]\n"
        "  Note: 'one' writes b\n"
        "  Note: 'two' writes d\n"
        "  Hint: rename the outputs of one, or leave out the others"
    )
    nothing = pl.make_kernel("{[i]: 0 <= i < n}", "<> t = a[i]", data, silenced_warnings="*")
    assert "neither kernel writes an array [different-arguments]" in _refusal(nothing, nothing)
    assert "'a' has another type [different-arguments]" in _refusal(
        one, pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", [pl.GlobalArg("a, b", np.float64, shape="n"), ...])
    )
    assert "'a' has another number of axes" in _refusal(
        one, pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i, 0]", [pl.GlobalArg("a", F, shape="n, 2"), ...])
    )


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"m": 3}, "no parameter 'm' [unknown-parameter]"),
        ({"n": "three"}, "'n' cannot be 'three' [bad-sizes]"),
        ({"n": [1.5]}, "'n' cannot be [1.5] [bad-sizes]"),
        ([], "there are no sizes to try [bad-sizes]"),
        (17, "sizes cannot be 17 [bad-sizes]"),
        ([17], "sizes cannot be 17 [bad-sizes]"),
        ({}, "the size 'n' is not given [bad-sizes]"),
        ({"n": -1}, "the kernels are not made for n = -1 [assumption-violated]"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: Any, said: str) -> None:
    assert said in _refusal(matmul(), matmul(), sizes=sizes)


def test_sizes_may_be_ranges_lists_and_mappings() -> None:
    report = pl.check_equivalence(matmul(), matmul(), sizes=[{"n": range(2)}, {"n": [1, 5]}], mode="floats", target=C)
    assert [sizes["n"] for sizes in report.sizes] == [0, 1, 5]


def test_default_sizes_keep_to_the_assumptions() -> None:
    knl = pl.assume(matmul(), "n >= 16 and n mod 8 = 0")
    report = pl.check_equivalence(matmul(), tiled(knl), mode="floats", target=C)
    assert [sizes["n"] for sizes in report.sizes] == [16]
    fixed = pl.fix_parameters(matmul("fixed"), n=5)
    assert [dict(sizes) for sizes in pl.check_equivalence(matmul(), fixed, target=C).sizes] == [{"n": 5}]
    assert "n = 6 is another size [assumption-violated]" in _refusal(matmul(), fixed, sizes={"n": 6})
    far = pl.assume(matmul(), "n >= 1000 and n <= 1001")
    assert 1000 <= pl.check_equivalence(far, far, mode="floats", target=C, sizes=None).sizes[0]["n"] <= 1001


def _gather() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape="m"), pl.GlobalArg("idx", np.int32, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[idx[i]]", data, name="gather")


def test_random_subscripts_stay_inside_the_array() -> None:
    on_threads = pl.split_iname(_gather(), "i", 32, outer_tag="g.0", inner_tag="l.0")
    report = pl.check_equivalence(_gather(), on_threads, sizes={"n": 40, "m": [1, 3]}, target=C, interpret=True)
    assert report.modes() == (Mode.FLOATS, Mode.INTEGERS)


def test_data_that_decide_a_loop_bound_must_be_given() -> None:
    data = [pl.GlobalArg("start", np.int32, shape="n + 1"), pl.GlobalArg("v", F, shape="nnz"), ...]
    text = """
        <> first = start[i]
        <> last = start[i + 1]
        y[i] = sum(k, v[k])
        """
    domains = ["{[i]: 0 <= i < n}", "[first, last] -> {[k]: first <= k < last}"]
    knl = pl.make_kernel(domains, text, data, name="csr", assumptions="nnz >= 0")
    assert _refusal(knl, knl, sizes={"n": 3, "nnz": 9}) == (
        "check_equivalence on kernel 'csr': 'start' cannot be random [input-needed]\n"
        "  Note: it decides a loop of 'insn_2'\n"
        '  Hint: pass inputs={"start": ..}, or a function of sizes and a random generator that returns such a mapping'
    )
    start = np.array([0, 2, 2, 9], np.int32)
    report = pl.check_equivalence(knl, knl, sizes={"nnz": 9}, inputs={"start": start}, target=C, interpret=True)
    assert [dict(sizes) for sizes in report.sizes] == [{"n": 3, "nnz": 9}]
    assert "'start' has shape (4,), expected (6,) [wrong-shape]" in _refusal(
        knl, knl, sizes={"n": 5, "nnz": 9}, inputs={"start": start}
    )
    assert "'start' has dtype int64" in _refusal(
        knl, knl, sizes={"n": 3, "nnz": 9}, inputs={"start": start.astype(np.int64)}
    )


def test_an_input_that_no_kernel_has_and_an_unknown_mode_are_refused() -> None:
    assert "no argument 'd' [unknown-argument]" in _refusal(matmul(), matmul(), inputs={"d": 1}, sizes={"n": 1})
    assert "no mode 'exact' [bad-value]" in _refusal(matmul(), matmul(), mode="exact")
    assert "no target 'cuda' [bad-value]" in _refusal(matmul(), matmul(), targets=["cuda"])
    assert "inputs cannot be [1] [wrong-type]" in _refusal(matmul(), matmul(), inputs=[1])
    assert "'matmul' is no kernel [not-a-kernel]" in _refusal("matmul", matmul())


def test_scalars_and_types_that_do_not_fit_are_refused() -> None:
    data = [pl.GlobalArg("x", F, shape="n"), pl.ValueArg("alpha", np.float16), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = alpha*x[i]", data, name="scaled")
    assert "'alpha' must be a real number, not str 'half' [wrong-type]" in _refusal(knl, knl, inputs={"alpha": "half"})
    listed = _refusal(knl, knl, inputs={"x": [1, 2]}, sizes={"n": 2})
    assert "'x' has dtype int64, expected float32 [wrong-dtype]" in listed
    pl.check_equivalence(knl, knl, inputs={"alpha": 0.1}, sizes={"n": 2}, target=C, interpret=True)
    untyped = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", name="untyped")
    assert "check_equivalence on kernel 'untyped': the type of 'y', 'x' is not known" in _refusal(untyped, knl)


def test_integers_alone_are_refused_where_they_cannot_be() -> None:
    data = [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("count", np.int32, shape=8), ...]
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "count[cast(int32, 8*abs(x[i]))] += 1 {atomic}", data, name="hist", assumptions="n >= 1"
    )
    inputs = {"count": np.zeros(8, np.int32), "x": np.linspace(0, 0.9, 5, dtype=F)}
    said = _refusal(knl, knl, sizes={"n": 5}, inputs=inputs, mode="integers")
    assert "[no-integer-mode]" in said
    report = pl.check_equivalence(knl, knl, inputs=inputs, target=C)
    assert "subscript" in report.skipped[Mode.INTEGERS]
    assert "integers: not tried: the subscript in" in str(report)


# }}}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F, np.float16, np.float64])
def test_on_a_gpu_a_tiled_matmul_agrees_with_the_plain_one_and_with_c(dtype: Any) -> None:
    knl = matmul(dtype=dtype)
    targets = [C, pl.CudaTarget()]
    report = pl.check_equivalence(knl, tiled(knl), targets=targets, interpret=True, sizes={"n": [1, 9, 33]})
    assert report.modes() == (Mode.FLOATS, Mode.INTEGERS)
    pl.check_equivalence(knl, tiled(knl), sizes={"n": 257})
    times = pl.auto_test_vs_ref(knl, None, tiled(knl), parameters={"n": 200}, target=pl.CudaTarget(), quiet=True)
    assert 0 < times["elapsed_wall"] < 0.1


def test_a_sum_that_begins_with_a_negative_multiple_has_integers() -> None:
    data = [pl.GlobalArg("a, z", np.float32), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "z[i, j] = -2*a[i + 1, j + 1] + a[i, j]", data, name="first")
    tiled = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    report = pl.check_equivalence(knl, tiled, target=C, sizes={"n": 5})
    assert report.skipped == {}
