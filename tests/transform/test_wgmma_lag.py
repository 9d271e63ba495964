"""Matrix products that run on into later iterations (``wgmma`` with a lag)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from examples import matmul_wgmma
from polyloop.dataflow import value_flow
from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.last_writes import seen_by_definition
from polyloop.errors import VerificationError
from polyloop.optimize.over_execution import at_edges
from polyloop.program.expand_lanes import with_lanes
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda, resources
from polyloop.sync.async_product import under_way
from polyloop.transform.loops.auto_local import assign_auto
from tests.generated import bare
from tests.transform.test_wgmma import TARGET, check, inames, product, tiled

Golden = Callable[[str, str], None]
BF16 = ml_dtypes.bfloat16


@pytest.mark.few(1)
@pytest.mark.parametrize(("lag", "stages"), [(1, 3), (1, 4), (2, 4), (3, 5)])
def test_numbers_with_copies_ahead(lag: int, stages: int) -> None:
    knl = tiled(product(lag=lag), stages)
    text = check(knl, 128, 64, 320)
    assert f"products_wait_{lag}();" in text
    check(knl, 64, 64, 64)  # a loop that is shorter than the lag


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(96, 56, 64), (64, 64, 72), (8, 8, 8), (130, 72, 136)])
def test_numbers_at_the_edges_of_tiles(shape: tuple[int, int, int]) -> None:
    knl = product(64, lag=1, assume="m >= 1 and n >= 1 and p >= 1 and p mod 8 = 0 and n mod 8 = 0")
    check(tiled(knl, 3), *shape)


def test_a_group_without_rows_has_no_products() -> None:
    sizes = "m >= 1 and n >= 1 and p >= 1 and m mod 64 = 0 and n mod 64 = 0 and p mod 64 = 0"
    check(tiled(product(64, groups=2, lag=1, assume=sizes), 3), 192, 64, 256)


def test_the_text(golden: Golden) -> None:
    text = pl.generate_code(tiled(product(64, groups=2, lag=1), 4), target=TARGET).device_code
    golden("golden/wgmma_lag.cu", text)


def test_an_iteration_has_one_barrier_and_the_wait_is_behind_the_issue() -> None:
    text = pl.generate_code(tiled(product(64, groups=2, lag=1), 4), target=TARGET).device_code
    body = text[text.index('extern "C"') :]
    loop = body[body.index("for (int ko = 0") : body.index("for (int ko = max")]
    order = ["cp_async_wait<1>", "__syncthreads", "cp_async_16", "cp_async_commit", "wgmma_", "products_commit",
             "products_wait_1"]  # fmt: skip
    assert [loop.index(word) for word in order] == sorted(loop.index(word) for word in order)
    assert body.count("__syncthreads") == 2  # of full tiles, and of the last ones
    assert "(ko + 2) % 4" in loop


def altered(text: str) -> dict[str, str]:
    """Return emitted text with one mistake each."""
    text = bare(text)
    slot = "[(ko + 1) % 3]"
    assert text.count(slot) == 2
    return {
        "no wait": text.replace("        products_wait_1();\n", ""),
        "no wait behind": text.replace("    products_done_32(&acc[0][0][0]);", ""),
        "no end of groups": text.replace("        products_commit();\n", ""),
        "no barrier": text.replace("        __syncthreads();\n", ""),
        "a slot too few": text.replace(slot, "[(ko + 2) % 3]"),
    }


@pytest.mark.few(2)
@pytest.mark.parametrize("mistake", ["no wait", "no wait behind", "no end of groups", "no barrier", "a slot too few"])
def test_fibres_see_mistakes(mistake: str) -> None:
    knl = product(64, groups=2, lag=1)
    program = pl.generate_code(tiled(knl, 3), target=TARGET)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (128, 384)), rng.integers(-3, 4, (64, 384))
    given = {"a": a.astype(BF16), "b": b.astype(BF16), "c": np.zeros((128, 64), np.float32)}

    def wrong(text: str) -> bool:
        outputs = run_on_fibres(replace(program, device_code=text), given)
        return any(not np.array_equal(found["c"], (a @ b.T).astype(np.float32)) for found in outputs.values())

    text = altered(program.device_code)[mistake]
    assert text != program.device_code
    assert wrong(text)
    assert not wrong(program.device_code)


def of_several(lag: int, *, terms: int = 320, tag: str = "for") -> pl.LoopKernel:
    """Return three products, one after the other in a loop; *tag* is that of the loop over tiles of their terms."""
    knl = pl.make_kernel(
        f"{{[t, i, j, k]: 0 <= t < 3 and 0 <= i < 64 and 0 <= j < 64 and 0 <= k < {terms}}}",
        "c[t, i, j] = sum(k, a[t, i, k]*b[t, j, k])",
        [pl.GlobalArg("a, b", BF16), pl.GlobalArg("c", np.float32)], name="several",
    )  # fmt: skip
    knl = pl.split_iname(knl, "k", 64, outer_iname="ko", inner_iname="k_block", outer_tag=tag)
    knl = pl.split_iname(knl, "k_block", 16, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "t, ko, kk")
    return pl.tensorize(knl, "writes:c", "wgmma_m64n64k16_bf16", inames={"i": "i", "j": "j"}, lag=lag)


def test_products_are_complete_before_the_next_sum_begins() -> None:
    knl = of_several(1)
    knl = pl.add_prefetch(knl, "a", f"{inames(knl, 'i')}, kk, ki", temporary_name="a_tile", vec=8)
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'j')}, kk, ki", temporary_name="b_tile", vec=8)
    for name in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, name, bits=3, base=3, shift=3)
    program = pl.generate_code(pl.pipeline(knl, "ko", stages=3, via="cp.async"), target=TARGET)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (3, 64, 320)), rng.integers(-3, 4, (3, 64, 320))
    given = {"a": a.astype(BF16), "b": b.astype(BF16), "c": np.zeros((3, 64, 64), np.float32)}
    for order, found in run_on_fibres(program, given).items():
        np.testing.assert_array_equal(found["c"], np.einsum("tik,tjk->tij", a, b).astype(np.float32), err_msg=order)
    assert disagreement(run_on_fibres(program, given)) is None


def test_a_sum_that_is_read_while_products_add_to_it(golden: Golden) -> None:
    with pytest.raises(pl.TransformError) as error:
        of_several(1, terms=128, tag="unr")  # all loops of the sum are unrolled: the next iteration is that of 't'
    assert error.value.codes == ("product-under-way",)
    golden("messages/wgmma_sum_under_way.txt", str(error.value))


def test_a_tile_that_is_filled_again_too_early(golden: Golden) -> None:
    with pytest.raises(VerificationError) as error:
        pl.generate_code(tiled(product(64, lag=1)), target=TARGET)
    assert error.value.codes == ("product-under-way",)
    golden("messages/wgmma_tile_under_way.txt", str(error.value))


@pytest.mark.parametrize("stages", [1, 3])
def test_the_last_writes_of_tiles_are_those_of_the_definition(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def judged() -> object:
        knl = tiled.__wrapped__(product.__wrapped__(64, lag=1), stages)  # made anew
        try:
            return pl.generate_code(knl, target=TARGET).device_code
        except VerificationError as error:
            return str(error), [finding.witness for finding in error.found]

    found = judged()
    monkeypatch.setattr(value_flow, "seen", seen_by_definition)
    assert judged() == found


def test_a_waiver_is_not_about_products_under_way() -> None:
    """What the user vouches for is what the kernel computes, not that an instruction has what it reads."""
    knl = pl.unchecked(tiled(product(64, lag=1)), "tried here")
    with pytest.raises(VerificationError) as error:
        pl.generate_code(knl, target=TARGET)
    assert error.value.codes == ("product-under-way",)


@pytest.mark.few(1)
@pytest.mark.parametrize("stages", [3, 4])
def test_a_stage_too_few(stages: int) -> None:
    """A pipeline that was made for one iteration of lag less."""
    knl = tiled(product(64, lag=1), stages)
    pl.generate_code(knl, target=TARGET)

    def later(instruction: Any) -> Any:
        matrix = instruction.matrix
        return instruction if matrix is None else replace(instruction, matrix=replace(matrix, lag=2))

    knl = replace(knl, instructions=tuple(map(later, knl.instructions)))
    with pytest.raises(VerificationError) as error:
        pl.generate_code(knl, target=TARGET)
    assert error.value.codes == ("product-under-way",)
    assert error.value.found[0].notes[0].startswith("instance (i=0, j=0, k=")


def test_one_place_is_read_while_products_run_on() -> None:
    with pytest.raises(pl.TransformError, match="more while products run on") as error:
        pl.pipeline(tiled(product(64, lag=1)), "ko", 1, via="cp.async")
    assert error.value.codes == ("bad-stages",)


def test_stages_that_leave_none_to_be_filled(golden: Golden) -> None:
    with pytest.raises(pl.TransformError) as error:
        tiled(product(64, lag=1), 2)
    assert error.value.codes == ("bad-stages",)
    golden("messages/wgmma_lag_stages.txt", str(error.value))


@pytest.mark.parametrize(("intrinsic", "lag"), [("mma_m16n8k16_bf16", 1), ("wgmma_m64n64k16_bf16", -1)])
def test_a_lag_of_no_product_that_runs_on(intrinsic: str, lag: int, golden: Golden) -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < 64 and 0 <= j < 64 and 0 <= k < 16}", "c[i, j] = sum(k, a[i, k]*b[j, k])",
        [pl.GlobalArg("a, b", BF16), pl.GlobalArg("c", np.float32)],
    )  # fmt: skip
    with pytest.raises(pl.TransformError) as error:
        pl.tensorize(knl, "writes:c", intrinsic, lag=lag)
    assert error.value.codes == ("bad-tensorize",)
    golden(f"messages/wgmma_lag_of_{intrinsic.split('_', maxsplit=1)[0]}.txt", str(error.value))


def test_completions_are_the_issues_some_iterations_later() -> None:
    knl = with_lanes(assign_auto(tiled(product(64, lag=2), 4)))
    found = under_way(at_edges(place(knl)).placement)
    later, last = sorted(found.completions.values(), key=lambda entry: entry.pending is None)
    assert later.pending == 2
    together = later.link.range().union(last.link.range())
    assert together.is_equal(later.issue.domain)
    assert later.link.range().intersect(last.link.range()).is_empty()
    assert found.placement.completions == found.completions.keys()


def test_proofs_are_listed() -> None:
    subjects = [proof.subject for proof in pl.verify(tiled(product(64, lag=1), 3), target=TARGET).proofs]
    assert subjects.count("sums of 'insn'") == subjects.count("operands of 'insn'") == 1


def test_a_lag_changes_no_count_of_operations_or_blocks() -> None:
    sizes = {"m": 256, "n": 256, "p": 256}
    late, prompt = (tiled(product(64, groups=2, lag=lag), 4) for lag in (1, 0))
    assert pl.get_op_map(late) == pl.get_op_map(prompt)
    launches = pl.Sync("kernel_launch")
    assert pl.get_synchronization_map(late)[launches] == pl.get_synchronization_map(prompt)[launches]
    found, other = (pl.explain(knl, sizes, "H200") for knl in (late, prompt))
    assert (found.flops, found.footprints) == (other.flops, other.footprints)
    assert [replace(x, barriers=0) for x in found.launches] == [replace(x, barriers=0) for x in other.launches]


@pytest.mark.slow
def test_other_targets_add_up_as_the_kernel_says() -> None:
    knl = tiled(product(64, lag=1), 3)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (64, 128)).astype(BF16), rng.integers(-3, 4, (64, 128)).astype(BF16)
    found = pl.compile(knl, target=pl.CTarget())(a=a, b=b)["c"]
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.few(1)
@pytest.mark.nvrtc
@pytest.mark.parametrize("name", ["products_commit", "products_wait_1", "products_done_32"])
def test_an_array_may_have_the_name_of_a_helper(name: str) -> None:
    knl = tiled(pl.rename_argument(product(64, lag=1), "c", name), 3)
    assert compile_cuda(pl.generate_code(knl, target=TARGET).device_code, "sm_90a").cubin


@pytest.mark.few(1)
@pytest.mark.nvrtc
@pytest.mark.parametrize("lag", [1, 2])
def test_blocks_of_128_by_256_spill_nothing_and_keep_products_apart(lag: int) -> None:
    knl = matmul_wgmma.on_groups_of_warps(
        matmul_wgmma.program(), "wgmma_m64n256k16_bf16", 128, 256, stages=4, group=16, lag=lag
    )
    compiled = compile_cuda(pl.generate_code(knl, target=TARGET).device_code, "sm_90a")
    assert "serialized" not in compiled.log, compiled.log
    assert all(used.local_bytes == 0 for used in resources(compiled.cubin).values())


def given(m: int, n: int, p: int, turned: bool) -> tuple[Mapping[str, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, p)), rng.integers(-3, 4, (p, n))
    stored = np.ascontiguousarray(b if turned else b.T)
    return {"a": a.astype(BF16), "b": stored.astype(BF16)}, (a @ b).astype(np.float32)


@pytest.mark.gpu
@pytest.mark.parametrize(("lag", "stages"), [(1, 3), (1, 4), (2, 4)])
@pytest.mark.parametrize("case", ["nt", "nn", "edges"])
def test_the_gpu_agrees(case: str, lag: int, stages: int) -> None:
    match case:
        case "nn":
            knl = product(256, groups=2, lag=lag, text="c[i, j] = sum(k, a[i, k]*b[k, j])", b_shape="p, n")
            sizes = 256, 512, 1600
            if stages == 4:
                sizes = 128, 256, 64
        case "edges":
            any_size = "m >= 1 and n >= 1 and p >= 1 and p mod 8 = 0 and n mod 8 = 0"
            knl, sizes = product(64, groups=2, lag=lag, assume=any_size), (200, 72, 1608)
        case _:
            knl, sizes = product(128, groups=2, lag=lag), (1024, 1024, 2048)
    arrays, wanted = given(*sizes, turned=case == "nn")
    found = pl.compile(tiled(knl, stages, panels=case == "nn"), target=TARGET)(**arrays)["c"]
    np.testing.assert_array_equal(np.asarray(found), wanted)
