"""Threads with roles (``assign_roles``): some start copies, the others compute."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from examples import matmul_wgmma
from polyloop.codegen.device import roles
from polyloop.codegen.device.slot_users import groups_that_free
from polyloop.errors import CodegenError, TransformError, VerificationError
from polyloop.kernel.tree import Run
from polyloop.library.tensor_cores import stored_by_boxes
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.invoke import load
from polyloop.runtime.nvrtc import compile_cuda, resources
from polyloop.schedule.plan import Assign
from tests.generated import bare, flat
from tests.transform.checking import same_after_replay
from tests.transform.test_tma import ANY, boxed, is_wrong, same
from tests.transform.test_wgmma import BF16, TARGET, check, inames, product
from tests.transform.test_wgmma_lag import of_several

Golden = Callable[[str, str], None]
F4 = np.float32
BOTH = {"load": "a_tile, b_tile", "compute": "*"}
BUDGET = {"load": 40, "compute": 232}


@cache
def divided(
    n: int = 64, *, groups: int = 2, lag: int = 1, stages: int = 3, any_size: bool = False, registers: bool = False
) -> pl.LoopKernel:
    """Return a product of which one thread starts the copies."""
    knl = boxed(product(n, groups=groups, lag=lag, assume=ANY if any_size else ""), stages)
    return pl.assign_roles(knl, BOTH, registers=BUDGET if registers else None)


@cache
def stored(*, turns: int = 0, ahead: bool = False) -> pl.LoopKernel:
    """Return a product whose results are stored by boxes, from the place of an operand."""
    knl = matmul_wgmma.stored_by_boxes(boxed(product(64, lag=1, assume=ANY), 4))
    knl = pl.persist_blocks(knl, turns, ahead=ahead) if turns else knl
    return pl.assign_roles(knl, BOTH)


@cache
def staying(lag: int = 1, stages: int = 3, groups: int = 2) -> pl.LoopKernel:
    """Return a product in blocks that stay, whose results have a place of their own: the next tiles come meanwhile."""
    knl = stored_by_boxes(boxed(product(64, groups=groups, lag=lag, assume=ANY), stages), "")
    return pl.assign_roles(pl.persist_blocks(knl, 2, ahead=True), BOTH)


def rows(text: str = "b[k, i] = t[k, i]*t[k, 63 - i]", more: str = "", width: int = 64) -> pl.LoopKernel:
    """Return a kernel of rows that are copied to ``t``, two ahead."""
    text = text.replace("t[", "a[").replace("63", str(width - 1))
    knl = pl.make_kernel(
        f"{{[k, i]: 0 <= k < n and 0 <= i < {width}}}", f"{more}\n{text}",
        [pl.GlobalArg("a, b, c", F4, shape=f"n, {width}"), ...], target=TARGET,
    )  # fmt: skip
    knl = pl.tag_inames(knl, "i:l.0").add_prefetch("a", "i", temporary_name="t")
    return pl.pipeline(knl, "k", 3, via="tma")


# {{{ numbers


@pytest.mark.few(1)
@pytest.mark.parametrize(("lag", "stages"), [(1, 3), (0, 2), (2, 4)])
def test_numbers_of_products(lag: int, stages: int) -> None:
    knl = divided(lag=lag, stages=stages)
    check(knl, 256, 64, 320)
    check(knl, 128, 64, 64)  # a loop that is shorter than the pipeline


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(130, 72, 136), (96, 56, 64), (8, 8, 8)])
def test_numbers_at_the_edges_of_tiles(shape: tuple[int, int, int]) -> None:
    check(divided(any_size=True), *shape)


@pytest.mark.few(1)
@pytest.mark.parametrize(("turns", "ahead"), [(2, True), (2, False), (0, False)])
def test_blocks_that_take_turns(turns: int, ahead: bool) -> None:
    text = check(stored(turns=turns, ahead=ahead), 130, 136, 328)
    assert "ring_free(" in text


@pytest.mark.few(1)
@pytest.mark.parametrize(("lag", "stages"), [(1, 3), (0, 3), (2, 4), (1, 4)])
@pytest.mark.parametrize("terms", [328, 64, 8])
def test_slots_are_freed_for_the_next_turn(lag: int, stages: int, terms: int) -> None:
    text = check(staying(lag, stages), 130, 136, terms)
    before, turns = flat(text.split("// compute", 1)[1]).split("for (int block", 1)
    assert before.count("ring_free_group(&a_tile_free[") == stages, "each slot once in the beginning"
    assert turns.count("ring_free_group(&a_tile_free[") == 1 + (lag > 0), "and behind its use"


def test_a_kernel_without_products_is_the_same_in_c_and_in_the_interpreter() -> None:
    a = np.random.default_rng(0).standard_normal((7, 64)).astype(F4)
    text = same(pl.assign_roles(rows(), {"load": "t", "compute": "*"}), TARGET, a=a, b=np.zeros_like(a), n=7)
    assert "bar.sync" not in text, "no warp needs another one"
    assert text.count("__syncthreads") == 1


@pytest.mark.slow
def test_sums_one_after_the_other_go_on_with_the_ring() -> None:
    knl = of_several(1)
    knl = pl.add_prefetch(knl, "a", f"{inames(knl, 'i')}, kk, ki", temporary_name="a_tile")
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'j')}, kk, ki", temporary_name="b_tile")
    for name in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, name, bits=3, base=3, shift=3)
    program = pl.generate_code(pl.assign_roles(pl.pipeline(knl, "ko", stages=3, via="tma"), BOTH), target=TARGET)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (3, 64, 320)), rng.integers(-3, 4, (3, 64, 320))
    arrays = {"a": a.astype(BF16), "b": b.astype(BF16), "c": np.zeros((3, 64, 64), F4)}
    for order, found in run_on_fibres(program, arrays).items():
        np.testing.assert_array_equal(found["c"], np.einsum("tik,tjk->tij", a, b).astype(F4), err_msg=order)


def test_several_roles_that_copy() -> None:
    knl = boxed(product(64, lag=1), 3)
    text = check(pl.assign_roles(knl, {"compute": "*", "a": "a_tile", "b": "fetch_b"}), 64, 64, 256)
    body = flat(bare(text))
    assert "if (threadIdx.x == 128) {" in body
    assert "if (threadIdx.x == 160) {" in body
    assert "__launch_bounds__(192)" in body


def test_warps_that_hand_on_values_meet_those_of_their_role() -> None:
    more = "<float32> u[i] = c[k, i]   {id=u}"
    knl = pl.assign_roles(rows("b[k, i] = t[k, 63 - i] + u[63 - i]   {dep=u}", more), {"load": "t", "compute": "*"})
    a, c = np.random.default_rng(0).standard_normal((2, 5, 64)).astype(F4)
    text = same(knl, TARGET, a=a, c=c, b=np.zeros_like(a), n=5)
    assert text.count('asm volatile("bar.sync 1, 64;" ::: "memory");') == 2


# }}}
# {{{ text


def test_the_text(golden: Golden) -> None:
    golden("golden/roles.cu", pl.generate_code(divided(registers=True), target=TARGET).device_code)


@pytest.mark.nvrtc
def test_registers_of_products() -> None:
    plain, copies = (pl.generate_code(divided(registers=registers), target=TARGET) for registers in (False, True))
    found = [next(iter(resources(compile_cuda(one.device_code, "sm_90a").cubin).values())) for one in (plain, copies)]
    assert found[0].registers < 128
    assert found[1].registers == 168, "as many as 384 threads are launched with"
    assert not found[0].local_bytes
    assert not found[1].local_bytes


@pytest.mark.nvrtc
def test_the_text_compiles_for_blocks_that_take_turns() -> None:
    compiled = compile_cuda(pl.generate_code(stored(turns=2, ahead=True), target=TARGET).device_code, "sm_90a")
    assert not compiled.log


def altered(text: str) -> dict[str, str]:
    """Return emitted text with one mistake each."""
    text = bare(text)
    slot = "ring_free_group(&b_tile_free[(ko + 2) % 3]);"
    assert text.count(slot) == 1
    free = r"ring_wait\(&[ab]_tile_free\[0\], \(ko \+ 1\) % 3, &[ab]_tile_free_phases\);\n"
    assert len(re.findall(free, text)) == 2
    return {
        "no wait for a free slot": re.sub(free, "", text),
        "no wait for a copy": text.replace("ring_wait(&b_tile_ring[0], ko % 3, &b_tile_phases);\n", ""),
        "a slot is not freed": text.replace(slot, ""),
        "another slot is freed": text.replace("_tile_free[(ko + 2) % 3]", "_tile_free[(ko + 3) % 3]"),
        "freed too early": text.replace("products_commit();\n", "", 1).replace(
            slot, f"products_commit(); {slot}").replace("products_wait_1();\n", "", 1).replace(
            f"products_commit(); {slot}", f"products_commit(); {slot} products_wait_1();"),
        "freed by two groups": text.replace("_tile_free[0], 3, 1)", "_tile_free[0], 3, 2)"),
    }  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("mistake", [
    "no wait for a free slot", "a slot is not freed", "freed too early", "no wait for a copy", "another slot is freed",
    "freed by two groups",
])  # fmt: skip
def test_fibres_see_mistakes(mistake: str) -> None:
    program = pl.generate_code(divided(groups=1), target=TARGET)
    text = altered(program.device_code)[mistake]
    assert text != bare(program.device_code)
    assert is_wrong(program, text, 512)
    assert not is_wrong_as_it_is()


@cache
def is_wrong_as_it_is() -> bool:
    program = pl.generate_code(divided(groups=1), target=TARGET)
    return is_wrong(program, program.device_code, 512)


ORDERING = re.compile(
    r'^[ \t]*(?:asm volatile\("bar\.sync[^;]*;" ::: "memory"\);|'
    r'(?:__syncthreads|ring_\w+|products_(?:begin|commit|wait|done)\w*|boxes_\w+|publish_stores)\([^;]*\);)',
    re.MULTILINE,
)
"""Barriers of threads and of slots, fences, ends of groups and waits for them."""


@pytest.mark.slow
def test_every_line_that_orders_threads_and_engines_is_needed() -> None:
    """Blocks that stay, results stored by the copy engine: without one of these lines fibres see another result."""
    program = pl.generate_code(staying(), target=TARGET)
    text = bare(program.device_code)
    begin = text.index('extern "C" __global__')
    sites = [found for found in ORDERING.finditer(text) if found.start() > begin]
    assert len(sites) > 20
    seen = [is_wrong(program, text[: at.start()] + ";" + text[at.end() :], 328, rows=640) for at in sites]
    assert [at[0] for at, is_seen in zip(sites, seen, strict=True) if not is_seen] == []
    assert not is_wrong(program, text, 328, rows=640)


@pytest.mark.few(1)
def test_fibres_see_a_group_that_is_not_waited_for() -> None:
    program = pl.generate_code(divided(), target=TARGET)
    text = bare(program.device_code)
    assert text.count("_tile_free[0], 3, 2)") == 2, "two groups free each slot"
    assert is_wrong(program, text.replace("_tile_free[0], 3, 2)", "_tile_free[0], 3, 1)"), 512, rows=128)


@pytest.mark.few(1)
def test_threads_that_read_a_tile_free_it_warp_by_warp() -> None:
    knl = pl.assign_roles(rows(width=128), {"load": "t", "compute": "*"})
    program = pl.generate_code(knl, target=TARGET)
    text = bare(program.device_code)
    assert "ring_open_free(&t_free[0], 3, 4);" in text
    by_group = re.sub(r"__syncwarp\(\);\s*if \(threadIdx.x % 32 == 0\)", "if (threadIdx.x % 128 == 0)", text)
    by_group = by_group.replace("ring_open_free(&t_free[0], 3, 4);", "ring_open_free(&t_free[0], 3, 1);")
    a = np.random.default_rng(0).standard_normal((9, 128)).astype(F4)
    arrays = {"a": a, "b": np.zeros_like(a)}
    assert all(np.array_equal(one["b"], a * a[:, ::-1]) for one in run_on_fibres(program, arrays).values())
    with pytest.raises(VerificationError, match="threads wait at a barrier that others never reach"):  # for a phase
        run_on_fibres(replace(program, device_code=by_group), arrays)


def test_who_frees_the_slots_of_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """One warp for four, if each group has products of each copy, and nothing else uses the tile."""
    asked = list[Any]()

    def listen(*given: Any) -> frozenset[str]:
        asked.append(given)
        return groups_that_free(*given)

    monkeypatch.setattr(roles, "groups_that_free", listen)
    pl.generate_code(divided(stages=4), target=TARGET)
    ((launch, threads, statements, mates),) = asked
    assert groups_that_free(launch, threads, statements, mates) == {"a_tile", "b_tile"}
    assert not groups_that_free(launch, threads + 32, statements, mates), "no whole groups"
    assert groups_that_free(launch, threads, statements, {**mates, "a_tile": frozenset({"a_tile", "c"})}) == {"b_tile"}
    name, issue = next((name, x) for name, x in statements.items() if name == "insn_update")
    number = next(n for n, dim in enumerate(issue.dims) if dim.startswith("l."))
    for domain in (issue.domain.upper_bound_val(isl.dim_type.set, number, 0),
                   issue.domain.lower_bound_val(isl.dim_type.set, number + 1, 1)):  # fmt: skip
        left = {**statements, name: replace(issue, domain=domain)}
        assert not groups_that_free(launch, threads, left, mates), "a group without products of a copy"
    left = {**statements, name: replace(issue, predicates=(p.Comparison(p.Variable("n"), ">", 3),))}
    assert not groups_that_free(launch, threads, left, mates), "products under a condition"
    left = {**statements, "x": replace(issue, name="x", action=Assign())}
    launch = replace(launch, tree=(*launch.tree, Run("x")))
    assert not groups_that_free(launch, threads, left, mates), "a thread reads the tiles"


@pytest.mark.few(1)
@pytest.mark.parametrize(("mistake", "right", "wrong"), [
    ("not behind the last use", "ring_free_group(&b_tile_free[ko % 3]);", ";"),
    ("an iteration too early", "_tile_free[(ko + 2) % 3]", "_tile_free[(ko + 3) % 3]"),
    ("one slot is not free in the beginning", "ring_free_group(&a_tile_free[1]);", ""),
    ("no wait for a free slot", "ring_wait(&b_tile_free[0], (ko + 1) % 3, &b_tile_free_phases);", ""),
])  # fmt: skip
def test_fibres_see_mistakes_between_turns(mistake: str, right: str, wrong: str) -> None:
    program = pl.generate_code(staying(groups=1), target=TARGET)
    text = bare(program.device_code)
    assert right in text, mistake
    assert is_wrong(program, text.replace(right, wrong), 328, rows=256)


# }}}
# {{{ what is said of it


def test_waits_name_the_slots() -> None:
    waits = [str(wait) for wait in pl.verify(divided(), target=TARGET).waits]
    assert "'a_tile': 'product' before 'fetch_a'" not in waits
    assert any(wait.endswith("the slots of 'a_tile', which 'load' fills") for wait in waits)
    assert not any("barrier before" in wait for wait in waits), "nothing is left to a barrier"


def test_explain_has_the_roles() -> None:
    text = str(pl.explain(divided(registers=True), {"m": 1024, "n": 1024, "p": 1024}))
    assert "128 threads have the role load: starts the copies of a_tile, b_tile, with 40 registers a thread" in text
    assert "256 threads have the role compute: executes everything else, with 232 registers a thread" in text
    assert "of 384 threads" in text


def test_the_kernel_shows_its_roles_and_its_steps() -> None:
    knl = divided()
    assert "roles:\n    load: starts the copies of a_tile, b_tile\n    compute: executes everything else" in str(knl)
    base = pl.make_kernel(
        "{[k, i]: 0 <= k < n and 0 <= i < 128}", "b[k, i] = a[k, i]*a[k, 127 - i]",
        [pl.GlobalArg("a, b", F4, shape="n, 128"), ...], target=TARGET,
    )  # fmt: skip
    knl = pl.tag_inames(base, "i:l.0").add_prefetch("a", "i", temporary_name="t").pipeline("k", 3, via="tma")
    knl = pl.assign_roles(knl, {"load": "t", "compute": "*"})
    same_after_replay(base, knl)
    assert pl.loads(pl.dumps(knl)).roles == knl.roles


# }}}
# {{{ refusals


def refused(roles: dict[str, str], knl: pl.LoopKernel | None = None, **options: Any) -> str:
    with pytest.raises(TransformError) as caught:
        pl.assign_roles(rows() if knl is None else knl, roles, **options)
    return str(caught.value)


@pytest.mark.parametrize("roles", [
    {"load": "t"}, {"compute": "*"}, {"one": "*", "other": "*"}, {"load": "t", "again": "fetch_a", "compute": "*"},
])  # fmt: skip
def test_roles_that_are_no_partition(roles: dict[str, str]) -> None:
    assert "[bad-roles]" in refused(roles)


def test_copies_that_no_role_has() -> None:
    knl = boxed(product(64, lag=1), 3)
    assert "'fetch_b' starts copies, and no role that copies has them [bad-roles]" in refused(
        {"load": "a_tile", "compute": "*"}, knl)


def test_instructions_that_are_no_copies() -> None:
    assert "no producer 'b' [unknown-producer]" in refused({"load": "b", "compute": "*"})
    knl = pl.make_kernel("{[k, i]: 0 <= k < 8 and 0 <= i < 64}", "b[k, i] = a[k, i]*a[k, 63 - i]",
                         [pl.GlobalArg("a, b", F4, shape="8, 64"), ...], target=TARGET)  # fmt: skip
    knl = pl.tag_inames(knl, "i:l.0").add_prefetch("a", "i", temporary_name="t").pipeline("k", 3, via="cp.async")
    assert "'load' can start no copies to 't' [role-instruction]" in refused({"load": "t", "compute": "*"}, knl)


def test_roles_that_wait_for_each_other() -> None:
    knl = pl.make_kernel("{[k, i]: 0 <= k < n and 0 <= i < 64}", "x[k + 3, i] = x[k, i]*x[k, 63 - i]   {id=step}",
                         [pl.GlobalArg("x", F4, shape="n + 3, 64"), ...], target=TARGET)  # fmt: skip
    knl = pl.tag_inames(knl, "i:l.0").add_prefetch("x", "i", temporary_name="t").pipeline("k", 3, via="tma")
    text = refused({"load": "t", "compute": "*"}, knl)
    assert "'load' and 'compute' would wait for each other [role-circle]" in text
    assert "'fetch_x' of 'load' needs 'x', which 'step' of 'compute' sets" in text


def of_tables(text: str) -> pl.LoopKernel:
    """Return rows of a table that *text* decides on, for each block, two of them ahead."""
    knl = pl.make_kernel(
        "{[t, k, i]: 0 <= t < tiles and 0 <= k < 8 and 0 <= i < 64}",
        f"w(row, column) := a[g, row, column]\nfor t\n{text}\nb[t, k, i] = w(k, i)*w(k, 63 - i)   {{id=use}}\nend",
        [pl.GlobalArg("a", F4, shape="tables, 8, 64"), pl.GlobalArg("b", F4, shape="tiles, 8, 64"),
         pl.GlobalArg("of, last", np.int32, shape="tiles"), ...],
        target=TARGET, assumptions="tiles >= 1 and tables >= 1", silenced_warnings=["unused-variable"],
    )  # fmt: skip
    knl = pl.tag_inames(knl, "t:g.0, i:l.0")
    knl = pl.precompute(knl, "w", "i", precompute_outer_inames="t, k", temporary_name="tile",
                        temporary_address_space="local", default_tag="l.auto")  # fmt: skip
    return pl.assign_roles(pl.pipeline(knl, "k", 3, via="tma"), {"load": "tile", "compute": "*"})


@pytest.mark.parametrize(("text", "copies", "rest"), [
    ("<> g = of[t]", ["int g = of[bx];"], []),
    ("<> first = of[t]\n<> g = first + last[t]",
     ["int first = of[bx];", "int g = (unsigned int)first + last[bx];"], []),
    ("<> g = of[t]   {id=g}\nlast[t] = g   {id=last}", ["int g = of[bx];"], ["int g = of[bx];", "last[bx] = g;"]),
])  # fmt: skip
def test_each_role_computes_the_scalars_that_it_needs(text: str, copies: list[str], rest: list[str]) -> None:
    made = pl.generate_code(of_tables(text))
    of_copies, of_rest = bare(made.device_code).split("if (threadIdx.x >= 64)")[1].split("} else {")
    for part, wanted in ((of_copies, copies), (of_rest, rest)):
        assert [x.strip() for x in part.splitlines() if "of[" in x or "last[" in x] == wanted
    assert not compile_cuda(made.device_code, "sm_90a").log
    a = np.random.default_rng(0).integers(-9, 9, (5, 8, 64)).astype(F4)
    of, last = np.array([3, 0, 4, 1], np.int32), np.array([1, 2, 0, 0], np.int32)
    wanted_of = a[of + last if "first" in text else of]
    given = {"a": a, "of": of, "last": last, "b": np.zeros((4, 8, 64), F4)}
    for order, found in run_on_fibres(made, given).items():
        np.testing.assert_array_equal(found["b"], wanted_of * wanted_of[:, :, ::-1], err_msg=order)


@pytest.mark.parametrize("text", [
    "last[t] = of[t]   {id=last}\n<> g = last[t]", "last[t] = of[t]   {id=last}\n<> first = last[t]\n<> g = first + 1",
])  # fmt: skip
def test_scalars_that_one_role_alone_can_compute(text: str) -> None:
    with pytest.raises(TransformError) as caught:
        of_tables(text)
    assert "needs 'g', which" in str(caught.value)
    assert caught.value.codes == ("role-circle",)


def test_uses_without_a_wait() -> None:
    """Storage of two temporaries is shared by hand: the transform refuses it before."""
    knl = rows("b[k, i] = t[k, 63 - i] + u[63 - i]   {dep=u}", "<float32> u[i] = c[k, i]   {id=u}")
    shared = {name: replace(knl.temporaries[name], base_storage="pool") for name in ("t", "u")}
    text = refused({"load": "t", "compute": "*"}, replace(knl, temporaries={**knl.temporaries, **shared}))
    assert "'u' may use 'u' while 'load' copies to it [role-dependence]" in text
    assert "instance (k=0, i=0) writes u[0] before that copy is waited for" in text


def test_registers_that_do_not_fit() -> None:
    knl = boxed(product(64, groups=2, lag=1), 3)
    text = refused(BOTH, knl, registers={"load": 32, "compute": 240})
    assert text == (
        "assign_roles on kernel 'product': the roles of 'product' ask for more registers than there are "
        "[role-registers]\n"
        "  Note: 128 threads with 32, and 256 with 240, are 65536\n"
        "  Note: blocks of 384 threads are launched with 168 a thread, which are 64512\n"
        "  Hint: 168 to 240 for 'compute', 24 to 168 for each role that copies"
    )
    for budget in ({"load": 40, "compute": 233}, {"load": 16, "compute": 232}, {"load": 40, "compute": 160},
                   {"load": 176, "compute": 168}):  # fmt: skip
        assert "[role-registers]" in refused(BOTH, knl, registers=budget)
    assert "[bad-roles]" in refused(BOTH, knl, registers={"load": 40})


def test_threads_that_are_no_warps() -> None:
    assert "multiple of 128 threads" in refused({"load": "t", "compute": "*"}, registers={"load": 40, "compute": 232})
    knl = pl.make_kernel("{[k, i, j]: 0 <= k < n and 0 <= i < 64 and 0 <= j < 2}", "b[k, j, i] = a[k, j, 63 - i]",
                         [pl.GlobalArg("a, b", F4, shape="n, 2, 64"), ...], target=TARGET)  # fmt: skip
    knl = pl.tag_inames(knl, "i:l.0, j:l.1").add_prefetch("a", "i, j", temporary_name="t").pipeline("k", 3, via="tma")
    assert "blocks of 64 x 2 threads cannot have roles [role-threads]" in refused({"load": "t", "compute": "*"}, knl)


def test_sums_in_which_all_threads_would_meet() -> None:
    knl = pl.make_kernel("{[k, i]: 0 <= k < n and 0 <= i < 64}", "b[k] = sum(i, a[k, i]*a[k, 63 - i])   {id=total}",
                         [pl.GlobalArg("a", F4, shape="n, 64"), pl.GlobalArg("b", F4, shape="n"), ...],
                         target=TARGET)  # fmt: skip
    knl = pl.tag_inames(knl, "i:l.0").add_prefetch("a", "i", temporary_name="t").pipeline("k", 3, via="tma")
    knl = pl.assign_roles(knl, {"load": "t", "compute": "*"})
    with pytest.raises(VerificationError, match="all threads of the block would meet in 'total'") as caught:
        pl.generate_code(knl)
    assert "[role-meeting]" in str(caught.value)


def test_devices_without_roles() -> None:
    with pytest.raises(CodegenError, match="has no registers that threads exchange"):
        pl.generate_code(_rows_with_registers(), target=pl.CudaTarget("sm_90"))
    knl = pl.assign_roles(rows(), {"load": "t", "compute": "*"})
    assert "ring_free(" in pl.generate_code(knl, target=pl.CudaTarget("sm_90")).device_code
    with pytest.raises(CodegenError, match="copies of boxes"):
        pl.generate_code(knl, target=pl.CudaTarget("sm_80"))


def _rows_with_registers() -> pl.LoopKernel:
    knl = pl.make_kernel("{[k, i]: 0 <= k < n and 0 <= i < 256}", "b[k, i] = a[k, i]*a[k, 255 - i]",
                         [pl.GlobalArg("a, b", F4, shape="n, 256"), ...], target=TARGET)  # fmt: skip
    knl = pl.tag_inames(knl, "i:l.0").add_prefetch("a", "i", temporary_name="t").pipeline("k", 3, via="tma")
    return pl.assign_roles(knl, {"load": "t", "compute": "*"}, registers=BUDGET)


# }}}


@pytest.mark.gpu
@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize("shape", [(128, 64, 64), (512, 192, 1024), (130, 72, 136)])
def test_products_on_a_gpu(shape: tuple[int, int, int], registers: bool) -> None:
    m, n, p = shape
    rng = np.random.default_rng(m)
    a, b = rng.integers(-3, 4, (m, p)), rng.integers(-3, 4, (n, p))
    run = pl.compile(divided(any_size=True, registers=registers, stages=4), target=TARGET)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(run(a=a.astype(BF16), b=b.astype(BF16))["c"]), (a @ b.T).astype(F4))


@pytest.mark.gpu
@pytest.mark.parametrize("late", [1, 2, 3])
def test_a_slot_is_not_freed_ahead_of_a_late_warp_on_a_gpu(late: int) -> None:
    """The axiom of ADR 42: what one warp knows to be complete, four warps have issued."""
    rng = np.random.default_rng(late)
    a, b = rng.integers(-3, 4, (512, 1024)), rng.integers(-3, 4, (192, 1024))
    program = pl.generate_code(divided(), target=TARGET)
    text, sleep = bare(program.device_code), f"if (threadIdx.x / 32 % 4 == {late}) __nanosleep(2000);\n__syncwarp();\n"
    assert text.count("products_begin();\n") == 1
    held = replace(program, device_code=text.replace("products_begin();\n", f"{sleep}products_begin();\n"))
    run = load(held, None, "sm_90a")
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(run(a=a.astype(BF16), b=b.astype(BF16))["c"]), (a @ b.T).astype(F4))


@pytest.mark.gpu
@pytest.mark.parametrize(("turns", "ahead"), [(0, False), (3, False), (3, True)])
def test_blocks_that_take_turns_on_a_gpu(turns: int, ahead: bool) -> None:
    rng = np.random.default_rng(turns)
    a, b = rng.integers(-3, 4, (330, 520)), rng.integers(-3, 4, (328, 520))
    run = pl.compile(stored(turns=turns, ahead=ahead), target=TARGET)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(run(a=a.astype(BF16), b=b.astype(BF16))["c"]), (a @ b.T).astype(F4))


@pytest.mark.gpu
@pytest.mark.parametrize(("lag", "stages"), [(1, 3), (0, 3), (1, 4)])
@pytest.mark.parametrize("terms", [520, 64, 8])
def test_slots_are_freed_for_the_next_turn_on_a_gpu(lag: int, stages: int, terms: int) -> None:
    rng = np.random.default_rng(lag)
    a, b = rng.integers(-3, 4, (1330, terms)), rng.integers(-3, 4, (728, terms))
    run = pl.compile(staying(lag, stages), target=TARGET)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(run(a=a.astype(BF16), b=b.astype(BF16))["c"]), (a @ b.T).astype(F4))


def drawn(rng: random.Random, threads: int) -> pl.LoopKernel:
    """Return rows of two arrays, used by others than the threads that they are near to."""
    back, is_table = f"{threads - 1} - i", rng.random() < 0.3  # data decides on the rows of a
    first, second = (f"w(k, {x})" if is_table else f"a[k, {x}]" for x in (back, "i"))
    uses = [first, second, f"c[k, {back}]", "c[k + 1, i]", "u[i]", f"u[{back}]"]
    texts = [f"<float32> u[i] = {rng.choice(('k', second, 'd[k, i]'))}   {{id=u}}",
             f"b[g, k, i] = {' + '.join(rng.sample(uses, rng.choice((2, 3, 4))))}   {{id=use, dep=u}}"]  # fmt: skip
    if rng.random() < 0.5:
        texts.append(f"e[g, i] = e[g, i] + c[k, {back}]   {{id=more, dep=use}}")
    knl = pl.make_kernel(
        f"{{[g, k, i]: 0 <= g < 3 and 0 <= k < n and 0 <= i < {threads}}}",
        "\n".join([*["w(row, x) := a[s, row, x]"] * is_table, "for g", *["<> s = of[g] % 2"] * is_table, "for k",
                   *texts, "end", "end"]),
        [pl.GlobalArg("a", F4, shape=f"{'2, ' * is_table}n, {threads}"), pl.GlobalArg("d", F4, shape=f"n, {threads}"),
         pl.GlobalArg("of", np.int32, shape="3"), pl.GlobalArg("c", F4, shape=f"n + 1, {threads}"),
         pl.GlobalArg("b", F4, shape=f"3, n, {threads}"), pl.GlobalArg("e", F4, shape=f"3, {threads}"), ...],
        target=TARGET, silenced_warnings="*",
    )  # fmt: skip
    return pl.tag_inames(pl.prioritize_loops(knl, "g, k"), {"i": "l.0", "g": rng.choice(("g.0", "g.0", "ord"))})


def fetched(knl: pl.LoopKernel) -> list[str]:
    """Return the tiles of the arrays that drawn rows may be fetched of."""
    return [f"t{array}" for array in "ac" if any(array in i.reads or (array == "a" and "w(" in str(i.expression))
                                                 for i in knl.instructions)]


def piped(rng: random.Random, knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return a drawn kernel with tiles that are fetched ahead, loops taken apart, blocks that take turns, and roles."""
    tiles = fetched(knl)
    for tile in tiles:
        if tile == "ta" and "s" in knl.temporaries:
            knl = pl.precompute(knl, "w", "i", precompute_outer_inames="g, k", temporary_name=tile,
                                temporary_address_space="local", default_tag="l.auto")  # fmt: skip
        else:
            knl = pl.add_prefetch(knl, tile[1:], "i", temporary_name=tile, temporary_address_space="local")
    knl = pl.pipeline(knl, "k", rng.choice((2, 3, 4)), via="tma")
    if rng.random() < 0.4:
        knl = pl.peel(knl, "k", front=rng.choice((1, 2)), back=rng.choice((0, 1)))
    if str(knl.tag("g")) == "g.0" and rng.random() < 0.6:
        knl = pl.persist_blocks(knl, rng.choice((1, 2)), ahead=rng.random() < 0.5)
    if len(tiles) > 1 and rng.random() < 0.4:
        return pl.assign_roles(knl, {"one": tiles[0], "other": tiles[1], "compute": "*"})
    return pl.assign_roles(knl, {"load": ", ".join(tiles), "compute": "*"})


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(24))
def test_drawn_kernels(seed: int) -> None:
    rng = random.Random(seed)
    threads, n = rng.choice((32, 64, 128)), rng.choice((1, 2, 5, 9))
    knl = drawn(rng, threads)
    if not fetched(knl):
        return  # there is nothing to fetch
    numbers = np.random.default_rng(seed)
    arrays = {name: numbers.integers(-4, 5, (n + (name == "c"), threads)).astype(F4) for name in "acd"}
    if "s" in knl.temporaries:
        arrays |= {"a": np.stack([arrays["a"], arrays["a"][::-1] + 1]), "of": np.array([1, 0, 3], np.int32)}
    knl = piped(rng, knl)
    arrays |= {"b": np.zeros((3, n, threads), F4), "e": np.zeros((3, threads), F4)}
    given = {a.name: arrays[a.name] for a in knl.arguments if a.name in arrays}
    wanted = pl.interpret(knl, **{name: value.copy() for name, value in given.items()})
    try:
        program = pl.generate_code(knl)
    except VerificationError as error:
        if error.codes != ("not-ahead",):
            raise
        return
    for order, outputs in run_on_fibres(program, given).items():
        for name in outputs.keys():  # noqa: SIM118 - iterating over a result gives its values
            np.testing.assert_array_equal(outputs[name], wanted[name], err_msg=order)
