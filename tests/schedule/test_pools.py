"""Temporaries that share storage (``base_storage``): when that is refused, and the barriers that it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

F = np.float32
ALL = "g:g.0, i:l.0, j:l.0, k:l.0, l:l.0"


def pooled(text: str, spaces: str = "local") -> pl.LoopKernel:
    temporaries = [
        pl.TemporaryVariable("t", F, shape=16, address_space=spaces, base_storage="pool"),
        pl.TemporaryVariable("u", np.float64, shape=8, address_space=spaces, base_storage="pool"),
    ]
    data: list[Any] = [pl.GlobalArg("a, b", F, shape="n, 16"), *temporaries, ...]
    domain = "{[g, i, j, k, l]: 0 <= g < n and 0 <= i, j < 16 and 0 <= k, l < 8}"
    return pl.make_kernel(domain, f"for g\n{text}\nend", data)


IN_TURN = "t[i] = a[g, i]\nb[g, j] = t[15 - j]\nu[k] = 2*a[g, k]\nc[g, l] = u[7 - l]"
AT_ONCE = "t[i] = a[g, i]\nu[k] = 2*a[g, k]\nb[g, j] = t[15 - j]\nc[g, l] = u[7 - l]"


def refusal(knl: pl.LoopKernel) -> str:
    with pytest.raises(pl.VerificationError) as err:
        pl.generate_code(knl)
    assert err.value.codes == ("storage-in-use",)
    return str(err.value)


def test_tiles_in_turn_share_storage_with_a_barrier_between_them() -> None:
    program = pl.generate_code(pl.tag_inames(pooled(IN_TURN), ALL))
    text = program.device_code
    assert "__shared__ union {\n        float t[16];\n        double u[8];\n    } pool;" in text
    assert text.count("__syncwarp()") == 3
    assert text.index("pool.t[15 - tx]") < text.rindex("__syncwarp", 0, text.index("pool.u[tx] =")) > 0
    assert program.launches[0].shared_bytes == 64


def test_a_loop_around_both_needs_a_barrier_at_its_end() -> None:
    tags = ALL.removeprefix("g:g.0, ")
    assert pl.generate_code(pl.tag_inames(pooled(IN_TURN), tags)).device_code.count("__syncwarp()") == 4


def test_without_threads_nothing_is_synchronized() -> None:
    text = pl.generate_code(pooled(IN_TURN), pl.CTarget()).device_code
    assert text.count("} pool;") == 1


def test_values_that_live_together_are_refused_with_the_pair() -> None:
    text = refusal(pl.tag_inames(pooled(AT_ONCE), ALL))
    assert "'t' and 'u' share the storage 'pool' and are in use at the same time" in text
    assert "writes u[0] before instance (g=0, j=0) reads t[15]" in text
    assert "Hint: read all of 't' before 'u' is written" in text
    refusal(pooled(AT_ONCE))


def test_reading_one_while_writing_the_other_is_refused() -> None:
    copied = "t[i] = a[g, i]\nu[k] = t[k]\nc[g, l] = u[7 - l]"
    tagged = pl.tag_inames(pooled(copied), "g:g.0, i:l.0, k:l.0, l:l.0")
    assert "on thread (g.0=0, l.0=0) writes u[0]" in refusal(tagged)
    assert "writes u[0] before instance (g=0, k=1) reads t[1]" in refusal(pooled(copied))


READ_U = "u[k] = 2*a[g, k]\nc[g, l] = u[7 - l]"


@pytest.mark.parametrize("carried", [True, False])
def test_a_value_carried_around_a_loop_counts(carried: bool) -> None:
    """Before *u* is used, *t* is set for the next iteration; or after that."""
    parts = ["t[i] = a[g, i]", READ_U] if carried else [READ_U, "t[i] = a[g, i]"]
    text = "\n".join(["b[g, j] = t[15 - j]", *parts])
    data: list[Any] = [
        pl.GlobalArg("a, b", F, shape="n, 16"),
        pl.TemporaryVariable("t", F, shape=16, address_space="local", base_storage="pool"),
        pl.TemporaryVariable("u", F, shape=8, address_space="local", base_storage="pool"),
        ...,
    ]
    knl = pl.make_kernel(
        "{[g, i, j, k, l, z]: 0 <= g < n and 0 <= i, j, z < 16 and 0 <= k, l < 8}",
        f"t[z] = 0\nfor g\n{text}\nend", data,
    )  # fmt: skip
    if carried:
        assert "reads t[" in refusal(knl)
    else:
        text = pl.generate_code(pl.tag_inames(knl, "i:l.0, j:l.0, k:l.0, l:l.0, z:l.0")).device_code
        assert text.count("__syncwarp()") == 5


def test_a_conditional_write_counts() -> None:
    text = IN_TURN.replace("b[g, j] = t[15 - j]\nu[k] = 2*a[g, k]", "u[k] = 2*a[g, k] {if=a[g, 0] > 1}\nb[g, j] = t[j]")
    assert "'t' and 'u'" in refusal(pooled(text))


def test_the_interpreter_keeps_them_apart() -> None:
    a = np.random.default_rng(0).random((3, 16), dtype=F)
    result = pl.interpret(pooled(AT_ONCE), a=a)
    np.testing.assert_array_equal(result.b, a[:, ::-1])


def test_only_shared_memory_is_shared() -> None:
    a = np.arange(48, dtype=F).reshape(3, 16)
    for space in ("private", "global", "auto"):
        knl = pooled(IN_TURN, space)
        assert "union" not in pl.generate_code(knl, target=pl.CTarget()).device_code
        np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(a=a).b, pl.interpret(knl, a=a).b)
    assert "union" in pl.generate_code(pooled(IN_TURN)).device_code
    moved = pl.set_temporary_address_space(pooled(IN_TURN), "u", "private")
    assert "union" not in pl.generate_code(moved).device_code


def test_a_pool_may_have_the_name_of_something_else() -> None:
    data: list[Any] = [
        pl.TemporaryVariable("t, u", F, shape=16, address_space="local", base_storage="a"),
        pl.GlobalArg("a", F, shape=16), ...,
    ]  # fmt: skip
    text = "t[i] = a[i]\nb[j] = t[15 - j]\nu[k] = 2*a[k]\nc[l] = u[15 - l]"
    knl = pl.make_kernel("{[i, j, k, l]: 0 <= i, j, k, l < 16}", text, data)
    assert "} a_0;" in pl.generate_code(pl.tag_inames(knl, "i:l.0, j:l.0, k:l.0, l:l.0")).device_code
