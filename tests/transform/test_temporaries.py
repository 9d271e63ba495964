"""``privatize_temporaries_with_inames``, its inverse, and ``alias_temporaries``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F

Golden = Callable[[str, str], None]
TILES = "a_fetch, c_fetch"


def rotation() -> pl.LoopKernel:
    """Each thread sets a value and leaves it for its neighbour."""
    text = """
        for g
            for i
                t = 2*a[g, i] {id=set}
                b[g, i] = t + 1 {id=one}
                c[g, i] = t - 1 {id=two}
            end
        end
        """
    data = [pl.GlobalArg("a, b, c", F, shape="n, 8"), pl.TemporaryVariable("t", F), ...]
    return pl.make_kernel("{[g, i]: 0 <= g < n and 0 <= i < 8}", text, data, name="rotation")


def check_rotation(knl: pl.LoopKernel) -> None:
    for n in (1, 3):
        a = np.arange(8 * n, dtype=F).reshape(n, 8)
        check(knl, {"a": a}, {"b": 2 * a + 1, "c": 2 * a - 1})


def test_a_value_for_each_iteration(golden: Golden) -> None:
    base = rotation()
    knl = pl.privatize_temporaries_with_inames(base, "i")
    assert knl.temporaries["t"].shape == (8,)
    assert "t[i] = 2*a[g, i]" in str(knl)
    check_rotation(knl)
    check_rotation(pl.tag_inames(knl, "g:g.0, i:l.0"))
    same_after_replay(base, knl)
    both = pl.privatize_temporaries_with_inames(pl.split_iname(base, "i", 4), "i_outer, i_inner", "t")
    assert both.temporaries["t"].shape == (2, 4)
    check_rotation(both)
    shared = pl.set_temporary_address_space(knl, "t", "local")
    check_rotation(pl.tag_inames(shared, "g:g.0, i:l.0"))
    golden("golden/privatized.cu", cuda(pl.tag_inames(shared, "g:g.0, i:l.0")))


def test_and_back() -> None:
    base = rotation()
    knl = pl.unprivatize_temporaries_with_inames(pl.privatize_temporaries_with_inames(base, "i"), "i")
    assert knl.temporaries["t"].shape == ()
    assert cuda(knl) == cuda(base)
    same_after_replay(base, knl)


def test_an_iteration_that_begins_late_is_shifted() -> None:
    text = "for i\n    t = a[i]\n    b[i] = t\nend"
    data = [pl.GlobalArg("a, b", F, shape="8"), pl.TemporaryVariable("t", F), ...]
    knl = pl.make_kernel("{[i]: 3 <= i < 8}", text, data, name="late")
    knl = pl.privatize_temporaries_with_inames(knl, "i")
    assert "t[i - 3]" in str(knl)
    a = np.arange(8, dtype=F)
    check(knl, {"a": a, "b": 0 * a}, {"b": np.where(np.arange(8) < 3, 0, a)})


def carried() -> pl.LoopKernel:
    text = """
        t = 0 {id=zero}
        for i
            t = t + a[i] {id=add}
            b[i] = t {id=put}
        end
        """
    data = [pl.GlobalArg("a, b", F, shape="n"), pl.TemporaryVariable("t", F), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="carried", assumptions="n <= 8")


def test_a_value_that_is_carried_on_is_refused(golden: Golden) -> None:
    text = refused(carried(), lambda k: pl.privatize_temporaries_with_inames(k, "i"), "uses-apart")
    golden("messages/privatize_outside.txt", text)
    text = "for i\n    u[0] = a[i] {id=set, if=i == 0}\n    b[i] = u[0] {id=put}\nend"
    data = [pl.GlobalArg("a, b", F, shape="8"), pl.TemporaryVariable("u", F, shape="1"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", text, data, name="kept")
    golden(
        "messages/privatize_kept.txt",
        refused(knl, lambda k: pl.privatize_temporaries_with_inames(k, "i"), "illegal-order"),
    )


def test_an_element_that_is_needed_again_is_refused(golden: Golden) -> None:
    text = "for i\n    t[i] = a[i]\nend\nfor j\n    b[j] = t[7 - j]\nend"
    data = [pl.GlobalArg("a, b", F, shape="8"), pl.TemporaryVariable("t", F, shape=8), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", text, data, name="needed")
    refused(knl, lambda k: pl.unprivatize_temporaries_with_inames(k, "i"), "not-used")
    text = "for s\n    for i\n        t[i] = a[i] + s {id=set, if=s < 1}\n        b[s, i] = t[i] {id=get}\n    end\nend"
    arrays = [pl.GlobalArg("a", F, shape="8"), pl.GlobalArg("b", F, shape="2, 8")]
    data = [*arrays, pl.TemporaryVariable("t", F, shape=8), ...]
    knl = pl.make_kernel("{[s, i]: 0 <= s < 2 and 0 <= i < 8}", text, data, name="needed")
    golden(
        "messages/unprivatize_needed.txt",
        refused(knl, lambda k: pl.unprivatize_temporaries_with_inames(k, "i"), "illegal-order"),
    )


def two_tiles() -> pl.LoopKernel:
    """Two arrays are needed in shared memory, one after the other."""
    text = """
        for g
            b[g, i] = a[g, 15 - i] {id=first}
            d[g, j] = c[g, 15 - j] + b[g, j] {id=second}
        end
        """
    data = [pl.GlobalArg("a, b, c, d", F, shape="n, 16"), ...]
    knl = pl.make_kernel("{[g, i, j]: 0 <= g < n and 0 <= i, j < 16}", text, data, name="two_tiles")
    knl = pl.tag_inames(knl, "g:g.0, i:l.0, j:l.0")
    knl = pl.add_prefetch(knl, "a", "i", temporary_address_space="local", fetch_outer_inames="g")
    return pl.add_prefetch(knl, "c", "j", temporary_address_space="local", fetch_outer_inames="g")


def test_tiles_share_storage(golden: Golden) -> None:
    base = two_tiles()
    knl = pl.alias_temporaries(base, ["a_fetch", "c_fetch"], base_name_prefix="tile")
    golden("golden/aliased.cu", cuda(knl))
    for n in (1, 3):
        a, c = (np.arange(16 * n, dtype=F).reshape(n, 16) + k for k in range(2))
        check(knl, {"a": a, "c": c}, {"b": a[:, ::-1], "d": c[:, ::-1] + a[:, ::-1]})


def test_tiles_that_live_together_are_refused(golden: Golden) -> None:
    text = "b[g, i] = a[g, 15 - i] + c[g, 15 - i] {id=both}"
    data = [pl.GlobalArg("a, b, c", F, shape="n, 16"), ...]
    knl = pl.make_kernel("{[g, i]: 0 <= g < n and 0 <= i < 16}", text, data, name="together")
    knl = pl.tag_inames(knl, "g:g.0, i:l.0")
    knl = pl.add_prefetch(pl.add_prefetch(knl, "a", "i"), "c", "i")
    text = refused(knl, lambda k: pl.alias_temporaries(k, "a_fetch, c_fetch"), "storage-in-use")
    golden("messages/alias_together.txt", text)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("unknown-temporary", lambda k: pl.alias_temporaries(k, "a_fetch, d_fetch")),
        ("bad-storage", lambda k: pl.alias_temporaries(k, "a_fetch")),
        ("bad-storage", lambda k: pl.alias_temporaries(k, "a_fetch, c_fetch", None, False)),
        ("bad-storage", lambda k: pl.alias_temporaries(pl.alias_temporaries(k, TILES), TILES)),
        ("unknown-iname", lambda k: pl.privatize_temporaries_with_inames(k, "x")),
        ("unknown-temporary", lambda k: pl.privatize_temporaries_with_inames(k, "i", "x")),
        ("unknown-iname", lambda k: pl.unprivatize_temporaries_with_inames(k, "x")),
    ],
)
def test_what_cannot_be(code: str, call: Callable[[pl.LoopKernel], object]) -> None:
    knl = two_tiles()
    with pytest.raises(pl.TransformError) as caught:
        call(knl)
    assert set(caught.value.codes) == {code}


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_compiles_them(arch: str) -> None:
    compile_cuda(cuda(pl.alias_temporaries(two_tiles(), "a_fetch, c_fetch")), arch=arch)


def test_a_fetched_temporary_gets_axes() -> None:
    """The elements of the copy are known by the writes that they come from."""
    text = """
        for g
            for i
                t[i] = 2*a[g, i] {id=set}
            end
            for j
                b[g, j] = t[7 - j] {id=get}
            end
        end
        """
    data = [pl.GlobalArg("a, b", F, shape="n, 8"), pl.TemporaryVariable("t", F, shape=8), ...]
    knl = pl.make_kernel("{[g, i, j]: 0 <= g < n and 0 <= i, j < 8}", text, data, name="fetched", assumptions="n <= 4")
    knl = pl.privatize_temporaries_with_inames(pl.add_prefetch(knl, "t", "j"), "g", "t")
    for n in (1, 3):
        a = np.arange(8 * n, dtype=F).reshape(n, 8)
        check(knl, {"a": a}, {"b": 2 * a[:, ::-1]})


def test_axes_of_what_is_in_a_buffer_stay() -> None:
    text = """
        for g
            for i
                t[i] = a[g, i] {id=set}
                for k
                    t[i] = t[i] + k {id=add}
                end
                b[g, i] = t[i] {id=get}
            end
        end
        """
    data = [pl.GlobalArg("a, b", F, shape="n, 8"), pl.TemporaryVariable("t", F, shape=8), ...]
    domain = "{[g, i, k]: 0 <= g < n and 0 <= i < 8 and 0 <= k < 3}"
    knl = pl.make_kernel(domain, text, data, name="both", assumptions="n <= 4")
    buffered = pl.buffer_array(knl, "t", "k", within="id:add")
    refused(buffered, lambda k: pl.privatize_temporaries_with_inames(k, "g", "t"), "already-staged")
    refused(buffered, lambda k: pl.unprivatize_temporaries_with_inames(k, "i", "t"), "already-staged")
    private = pl.privatize_temporaries_with_inames(knl, "g", "t")
    refused(private, lambda k: pl.buffer_array(k, "t", "k", within="id:add"), "already-staged")
    inner = pl.privatize_temporaries_with_inames(buffered, "i", "t_buf")
    for n in (1, 3):
        a = np.arange(8 * n, dtype=F).reshape(n, 8)
        for knl in (buffered, private, inner):
            check(knl, {"a": a}, {"b": a + 3})
