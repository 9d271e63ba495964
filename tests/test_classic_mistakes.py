"""The mistakes that people make when they transform loops, and what they are told.

Each is refused at the call that makes it, with two concrete instances wherever instances are what is wrong.  Two are
made by hand in a kernel that a transform returned: no call makes them, and the proof of the finished schedule does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.kernel.instruction import Instruction
from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows

Golden = Callable[[str, str], None]
F = np.float32


def arrays(**shapes: str) -> list[object]:
    """Return float32 arguments of these shapes."""
    return [*(pl.GlobalArg(name, F, shape=shape) for name, shape in shapes.items()), ...]


def wavefront() -> pl.LoopKernel:
    """Return a kernel in which each element needs its neighbours to the left and above."""
    text = "a[i, j] = a[i-1, j] + a[i, j-1]"
    return pl.make_kernel("{[i, j]: 1 <= i, j < n}", text, arrays(a="n, n"), name="wavefront")


def blur() -> pl.LoopKernel:
    """Return a blur in tiles of 16, each prefetched."""
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "o[i] = a[i] + a[i+1]", arrays(a="n + 1", o="n"), name="blur")
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "a", ["i_inner"])


def tampered(knl: pl.LoopKernel, change: Callable[[Instruction], Instruction]) -> pl.LoopKernel:
    """Return *knl* with its copy changed by hand."""
    return replace(knl, instructions=tuple(change(i) if i.id == "fetch_a" else i for i in knl.instructions))


# {{{ the mistakes


def illegal_interchange() -> object:
    text = "a[i, j] = a[i-1, j+1] + 1"
    knl = pl.make_kernel("{[i, j]: 1 <= i < n and 0 <= j < n - 1}", text, arrays(a="n, n"), name="sweep")
    return pl.prioritize_loops(knl, "j, i")


def wavefront_without_skew() -> object:
    return pl.split_iname(wavefront(), "j", 32, inner_tag="l.0")


def parallel_recurrence() -> object:
    knl = pl.make_kernel("{[i]: 1 <= i < 256}", "s[i] = s[i-1] + x[i]", arrays(s="256", x="256"), name="scan")
    return pl.tag_inames(knl, "i:l.0")


def prefetch_one_column_short() -> object:
    def shorten(fetch: Instruction) -> Instruction:
        outer, inner = fetch.inames[1:]
        last = Row(Affine(((outer, -16), (inner, -1)), 15))
        return replace(fetch, domain=add_rows(fetch.domain, fetch.inames, [last]))

    return pl.generate_code(tampered(blur(), shorten))


def prefetch_off_by_one() -> object:
    def shift(fetch: Instruction) -> Instruction:
        (index,) = fetch.expression.index_tuple
        return replace(fetch, expression=p.Subscript(p.Variable("a"), (index + 1,)))

    return pl.generate_code(tampered(blur(), shift))


def buffer_overwritten_early() -> object:
    text = """
        for t
            for i
                b[i] = a[i-1] + a[i+1]
            end
            for j
                a[j] = b[j]
            end
        end
        """
    domain = "{[t, i, j]: 0 <= t < m and 1 <= i, j < 63}"
    knl = pl.make_kernel(domain, text, arrays(a="64", b="64"), name="jacobi")
    return pl.add_prefetch(knl, "a", ["i"], fetch_outer_inames="")


def wrong_fusion() -> object:
    text = "b[i] = 2*a[i]\nc[j] = b[j+1]"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, arrays(a="n", b="n + 1", c="n"), name="two_steps")
    return pl.fuse_loops(knl, "i, j")


def missing_barrier_via_nosync() -> object:
    tile = pl.TemporaryVariable("t", F, shape=(256,), address_space=pl.AddressSpace.LOCAL)
    text = """
        t[i] = x[i]        {id=fill}
        y[j] = t[255 - j]  {id=use, dep=fill, nosync=fill}
        """
    return pl.make_kernel("{[i, j]: 0 <= i, j < 256}", text, [tile, *arrays(x="256", y="256")], name="reverse")


def two_threads_writing_one_element() -> object:
    text = "last[i] = x[i, j]"
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 16}", text, arrays(last="n", x="n, 16"), name="rows")
    return pl.tag_inames(knl, "i:g.0, j:l.0")


def parallel_reduction_iname() -> object:
    text = "y[i] = sum(k, a[i, k]*x[k])"
    knl = pl.make_kernel("{[i, k]: 0 <= i, k < n}", text, arrays(a="n, n", x="n", y="n"), name="matvec")
    return pl.split_iname(knl, "k", 32, inner_tag="g.0")


def temporaries_that_live_together() -> object:
    text = """
        for i
            s[0] = x[i]
            t[0] = 2*x[i]
            y[i] = s[0] + t[0]
        end
        """
    shared = [pl.TemporaryVariable(name, F, shape=(1,), address_space=pl.AddressSpace.LOCAL) for name in ("s", "t")]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [*shared, *arrays(x="n", y="n")], name="pool")
    return pl.alias_temporaries(knl, ["s", "t"])


def out_of_bounds_at_the_last_tile() -> object:
    text = "y[16*b + i] = 2*x[16*b + i]"
    return pl.make_kernel("{[b, i]: 0 <= 16*b < n and 0 <= i < 16}", text, arrays(x="n", y="n"), name="tiles")


# }}}

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "illegal_interchange": (illegal_interchange, "illegal-order"),
    "wavefront_without_skew": (wavefront_without_skew, "illegal-parallel"),
    "parallel_recurrence": (parallel_recurrence, "illegal-parallel"),
    "wrong_fusion": (wrong_fusion, "illegal-order"),
    "missing_barrier_via_nosync": (missing_barrier_via_nosync, "proven-conflict"),
    "prefetch_one_column_short": (prefetch_one_column_short, "copy-incomplete"),
    "prefetch_off_by_one": (prefetch_off_by_one, "copy-wrong-element"),
    "buffer_overwritten_early": (buffer_overwritten_early, "illegal-order"),
    "two_threads_writing_one_element": (two_threads_writing_one_element, "write-race"),
    "parallel_reduction_iname": (parallel_reduction_iname, "parallel-reduction"),
    "temporaries_that_live_together": (temporaries_that_live_together, "storage-in-use"),
    "out_of_bounds_at_the_last_tile": (out_of_bounds_at_the_last_tile, "out-of-bounds"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_classic_mistake_is_refused_with_its_instances(mistake: str, golden: Golden) -> None:
    make, code = MISTAKES[mistake]
    with pytest.raises(pl.PolyloopError) as refusal:
        make()
    assert {diagnostic.code for diagnostic in refusal.value.found} == {code}
    golden(f"messages/mistake_{mistake}.txt", str(refusal.value))


def test_there_are_twelve() -> None:
    assert len(MISTAKES) == 12
