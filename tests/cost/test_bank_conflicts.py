"""Turns of shared memory, counted by hand and by brute force."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.cost.bank_conflicts import BankConflicts
from polyloop.kernel.swizzle import Swizzle
from tests.transform.kernels import F


def through_a_tile(rows: int, columns: int, dtype: type = F, block: tuple[int, int] = (32, 8)) -> pl.LoopKernel:
    """Return a transposition through a tile; ``block`` are the threads along x and y."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "b[i, j] = a[j, i]", [pl.GlobalArg("a, b", dtype, shape="n, n"), ...],
        name="transpose", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", columns, outer_tag="g.1")
    knl = pl.split_iname(knl, "j", rows, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", block[0], inner_tag="l.0")
    knl = pl.split_iname(knl, "i_inner", block[1], inner_tag="l.1")
    return pl.add_prefetch(knl, "a", "i_inner_outer, i_inner_inner, j_inner_outer, j_inner_inner")


def read(knl: pl.LoopKernel, array: str = "a_fetch") -> BankConflicts:
    (found,) = (entry for entry in pl.get_bank_conflicts(knl, array) if not entry.is_write)
    return found


def test_a_column_is_in_one_bank() -> None:
    entry = read(through_a_tile(32, 32))
    assert (entry.turns, entry.worst, entry.nbytes) == (32, 32, 4)
    assert str(entry) == (
        "insn reads a_fetch[j_inner_inner + 32*j_inner_outer, i_inner_inner + 8*i_inner_outer], 4 bytes a thread: "
        "32 times as long as without conflicts (at worst 32 words of one bank)"
    )


@pytest.mark.parametrize(("pad", "turns"), [(33, 1), (34, 2), (36, 4), (40, 8)])
def test_padding_spreads_columns(pad: int, turns: int) -> None:
    knl = pl.add_padding(through_a_tile(32, 32), "a_fetch", 0, 4 * pad)
    assert read(knl).turns == turns


def test_elements_of_8_bytes_are_served_by_half_warps() -> None:
    entry = read(through_a_tile(32, 32, np.float64))
    assert (entry.turns, entry.worst, entry.nbytes) == (16, 16, 8)
    assert read(pl.add_padding(through_a_tile(32, 32, np.float64), "a_fetch", 0, 8 * 33)).turns == 1


def test_elements_of_2_bytes_share_words() -> None:
    """32 halves of one row are 16 words; 32 rows of 32 halves are two rows of banks apart."""
    entry = read(through_a_tile(32, 32, np.float16))
    assert (entry.turns, entry.nbytes) == (16, 2)


def test_half_a_warp_of_threads() -> None:
    assert read(through_a_tile(16, 16, block=(16, 4))).turns == 8


def test_one_word_for_all_is_given_once() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 16}", "y[i] = sum(k, w[k]*x[i + k])",
        [pl.GlobalArg("w", F, shape="16"), pl.GlobalArg("x", F, shape="n + 16"), ...],
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(knl, "w", "k", temporary_address_space="local")
    assert read(knl, "w_fetch").conflicts == 0


def test_a_loop_that_decides_which_threads_run_is_run_through() -> None:
    """The halo of a tile is fetched by two threads."""
    knl = pl.make_kernel("{[i]: 1 <= i < n - 1}", "y[i] = x[i-1] + x[i+1]", [pl.GlobalArg("x, y", F, shape="n"), ...])
    knl = pl.add_prefetch(pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"), "x", "i_inner")
    write = next(entry for entry in pl.get_bank_conflicts(knl) if entry.is_write)
    assert (write.requests, write.wavefronts, write.least) == (2, 2, 2)


def test_what_data_decides_is_not_known() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < 32}", "t[i] = x[i]\ny[j] = t[p[j]] {dep=*}",
        [pl.GlobalArg("x, y", F, shape="32"), pl.GlobalArg("p", np.int32, shape="32"),
         pl.TemporaryVariable("t", F, shape="32", address_space="local"), ...],
    )  # fmt: skip
    knl = pl.tag_inames(knl, "i:l.0, j:l.0")
    entry = read(knl, "t")
    assert entry.unknown == "data decides about a subscript"
    assert str(entry) == "insn_1 reads t[?], 4 bytes a thread: not known, data decides about a subscript"


def by_brute_force(addresses: np.ndarray, nbytes: int) -> int:
    """Return the turns for the addresses [bytes] of a warp."""
    together = 32 if nbytes <= 4 else 128 // nbytes
    turns = 0
    for first in range(0, len(addresses), together):
        words = {a // 4 + k for a in addresses[first : first + together] for k in range(max(1, nbytes // 4))}
        turns += max(np.bincount([w % 32 for w in words]))
    return turns


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("layout", [(1, 0), (2, 0), (3, 0), (2, 1), (3, 2)])
def test_swizzles_are_counted_as_they_are_addressed(width: int, layout: tuple[int, int]) -> None:
    bits, base = layout
    knl = through_a_tile(64, width, block=(32, 2))
    if bits + base > width.bit_length() - 1:
        with pytest.raises(pl.TransformError, match="would change"):
            pl.swizzle(knl, "a_fetch", bits, base)
        return
    knl = pl.swizzle(knl, "a_fetch", bits, base)
    swizzle = knl.temporaries["a_fetch"].swizzle
    assert swizzle == Swizzle(bits, base, width.bit_length() - 1 - base)
    columns = [[swizzle.moved(width * row + x) * 4 for row in range(32)] for x in range(width)]
    expected = np.mean([by_brute_force(np.array(column), 4) for column in columns])
    assert read(knl).turns == expected
