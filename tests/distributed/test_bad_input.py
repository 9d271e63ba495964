"""What outsiders pass: each is refused with a code, and nothing ends in a traceback of NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.distributed import programs

CASE = programs.heat_1d_mesh(n=9)
BLOCKS = {"u": "block, *, *", "v": "block, *, *"}
SIZES = {"n": 9, "steps": 1}
HALF: Any = CASE.divided((2,))


def distribute(arrays: Any = BLOCKS, over: Any = "i:mesh.0", mesh: Any = (2,), **options: Any) -> Any:
    return pl.distribute(CASE.kernel, arrays, over, mesh, **options)


@pytest.mark.parametrize(("call", "code"), [
    (lambda: distribute("u"), "bad-distribution"),
    (lambda: distribute({"u": 0}), "bad-distribution"),
    (lambda: distribute(over=["i:mesh.0"]), "wrong-argument-type"),
    (lambda: distribute(over="i:mesh.-1"), "bad-distribution"),
    (lambda: distribute(over=""), "bad-distribution"),
    (lambda: distribute(mesh=(0,)), "mesh-mismatch"),
    (lambda: distribute(mesh=2), "wrong-argument-type"),
    (lambda: distribute({"u": "block, *, *"}), "not-the-owner"),
    (lambda: distribute(hosts="i"), "bad-distribution"),
    (lambda: distribute(deep={"t": 10**6}), "bad-distribution"),
    (lambda: HALF.plan(n=2, steps=1), "assumption-violated"),
    (lambda: HALF.explain(n=9, steps=-1), "assumption-violated"),
    (lambda: HALF.plan(n="9", steps=1), "wrong-type"),
    (lambda: HALF.plan(n=9.0, steps=1), "wrong-type"),
    (lambda: HALF.plan(q=3, **SIZES), "unknown-argument"),
    (lambda: HALF.compile(None), "wrong-argument-type"),
    (lambda: pl.run_ranks(0, lambda _: None), "mesh-mismatch"),
])
def test_before_ranks_run(call: Callable[[], object], code: str) -> None:
    with pytest.raises(pl.PolyloopError) as err:
        call()
    assert err.value.codes == (code,)


def read_only(array: Any) -> Any:
    array.setflags(write=False)
    return array


@pytest.mark.parametrize(("call", "code"), [
    (lambda run, u, v: run.scatter("u", np.zeros((3, 3, 3)), **SIZES), "wrong-part"),
    (lambda run, u, v: run.scatter("u", [1, 2], **SIZES), "wrong-part"),
    (lambda run, u, v: run.scatter("w", u, **SIZES), "unknown-array"),
    (lambda run, u, v: run.gather("u", v, **SIZES), "wrong-part"),
    (lambda run, u, v: run.gather("w", v, **SIZES), "unknown-array"),
    (lambda run, u, v: run.owned("u", v, **SIZES), "wrong-part"),
    (lambda run, u, v: run.redistribute("u", v, run, **SIZES), "wrong-part"),
    (lambda run, u, v: run.dtensor("u", u, None, **SIZES), "mesh-mismatch"),
    (lambda run, u, v: run(u=3.0, v=v, c=0.1, **SIZES), "wrong-part"),
    (lambda run, u, v: run(u=None, v=v, c=0.1, **SIZES), "wrong-part"),
    (lambda run, u, v: run(u=v, v=v, c=0.1, **SIZES), "wrong-part"),
    (lambda run, u, v: run(u=read_only(u), v=v, c=0.1, **SIZES), "read-only-output"),
    (lambda run, u, v: run(u=u.astype(np.float32), v=v, c=0.1, **SIZES), "wrong-dtype"),
    (lambda run, u, v: run(u=np.zeros((2*len(u), 9, 9))[::2], v=v, c=0.1, **SIZES), "wrong-strides"),
    (lambda run, u, v: run(u=u, v=v, c=1j, **SIZES), "wrong-type"),
    (lambda run, u, v: run(u=u, v=v, c=0.1, n=9.5, steps=1), "wrong-type"),
])
def test_on_ranks(call: Callable[..., object], code: str) -> None:
    def program(engine: pl.Engine) -> object:
        run = HALF.compile(engine, pl.CTarget())
        return call(run, run.empty("u", **SIZES), run.empty("v", **SIZES))

    with pytest.raises(pl.PolyloopError) as err:
        pl.run_ranks(2, program, timeout=20)
    assert err.value.codes == (code,)


@pytest.mark.parametrize(("changed", "word"), [
    ({"c": 0.2}, "scalar"), ({"c": np.float64(0.1)}, None), ({"steps": 2}, "size"), ({"overlap": False}, "kernel"),
    ({"deep": {"t": 2}}, "kernel"),
])
def test_ranks_compare_what_they_call(changed: dict[str, Any], word: str | None) -> None:
    def program(engine: pl.Engine) -> None:
        own = changed if engine.rank else {}
        options = {name: value for name, value in own.items() if name in ("overlap", "deep")}
        run = CASE.divided((2,), **options).compile(engine, pl.CTarget())
        sizes = {**SIZES, **{name: value for name, value in own.items() if name in SIZES}}
        arrays = {name: run.empty(name, **sizes) for name in "uv"}
        run(**arrays, **sizes, c=own.get("c", 0.1))
        run(c=float(engine.rank), **dict(reversed(sizes.items())), **arrays)  # later calls are a rank's own affair

    if word is None:
        pl.run_ranks(2, program, timeout=20)
        return
    with pytest.raises(pl.ArgumentError, match=f"have another {word}") as err:
        pl.run_ranks(2, program, timeout=20)
    assert err.value.codes == ("ranks-disagree",)


class Datatype:
    """A type of mpi4py's messages, by what is asked of it."""

    def __init__(self, typestr: str) -> None:
        self.typestr = typestr


@pytest.mark.parametrize(("spelled", "fits"), [
    (memoryview, True), (lambda u: [u, Datatype("f8")], True), (lambda u: (u, u.size, Datatype("f8")), True),
    (lambda u: memoryview(u).cast("B"), True), (lambda u: [memoryview(u).cast("B"), Datatype("f8")], True),
    (lambda u: [u, Datatype("f4")], False), (lambda u: memoryview(u).cast("B")[8:], False), (lambda u: [u], False),
])
def test_memory_and_messages_of_mpi_are_parts(spelled: Callable[[Any], Any], fits: bool) -> None:
    expected = CASE.expected()["u"]

    def program(engine: pl.Engine) -> None:
        run = HALF.compile(engine, pl.CTarget())
        parts = {name: run.scatter(name, value, **CASE.sizes) for name, value in CASE.inputs().items()}
        given = {**parts, "u": spelled(parts["u"])}
        assert run(**given, **CASE.sizes, **CASE.scalars)["u"] is given["u"]
        np.testing.assert_array_equal(run.gather("u", parts["u"], **CASE.sizes), expected)

    if fits:
        pl.run_ranks(2, program, timeout=20)
        return
    with pytest.raises(pl.ArgumentError) as err:
        pl.run_ranks(2, program, timeout=20)
    assert err.value.codes == ("wrong-part",)
