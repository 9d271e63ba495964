from __future__ import annotations

from collections.abc import Callable

import pytest

import polyloop as pl
from tests.transform.checking import cuda, refused, same_after_replay
from tests.transform.kernels import blur, check_blur, check_matmul, check_rule, matmul, rule, spread

Golden = Callable[[str, str], None]


def test_the_name_is_new_everywhere(golden: Golden) -> None:
    base = pl.split_iname(blur(), "i", 16, slabs=(0, 1))
    knl = pl.rename_iname(pl.rename_iname(base, "i_outer", "tile"), "i_inner", "lane")
    check_blur(knl)
    renamed = cuda(base).replace("i_outer", "tile").replace("i_inner", "lane")
    assert cuda(knl).split() == renamed.split()  # shorter names, other ends of lines
    same_after_replay(blur(), knl)
    assert str(knl.trace).splitlines()[-1] == "knl = pl.rename_iname(knl, old_iname='i_inner', new_iname='lane')"
    golden("golden/renamed.cu", cuda(knl))


def test_tags_stay() -> None:
    knl = pl.rename_iname(pl.rename_iname(spread(blur()), "i_outer", "tile"), "i_inner", "lane")
    assert cuda(knl) == cuda(spread(blur()))


def test_a_reduction_iname_has_a_name_as_well() -> None:
    check_matmul(matmul().rename_iname("k", "term"), (1, 5))


@pytest.mark.parametrize("name", ["x", "insn", "tx", "acc", "min_int32", "blockDim_x"])
def test_names_of_generated_code_give_way(name: str) -> None:
    check_rule(pl.rename_iname(rule(), "i", name), (3, 18))
    check_rule(pl.rename_iname(spread(rule()), "i_inner", name), (3, 18))


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "unknown_iname": (matmul, lambda knl: pl.rename_iname(knl, "kk", "x"), "unknown-iname"),
    "taken": (matmul, lambda knl: pl.rename_iname(knl, "k", "a"), "name-taken"),
    "itself": (matmul, lambda knl: pl.rename_iname(knl, "k", "k"), "name-taken"),
    "keyword": (matmul, lambda knl: pl.rename_iname(knl, "k", "for"), "reserved-name"),
    "not_a_name": (matmul, lambda knl: pl.rename_iname(knl, "k", "2k"), "bad-identifier"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/rename_iname_{case}.txt", refused(make(), call, code))
