"""Barriers that the user writes: the loops that they close, what crosses them, where they stand in generated code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.fibres import run_on_fibres

pytestmark = pytest.mark.filterwarnings("ignore:(unused|idle-barrier)")

F = np.float32
DATA = [pl.GlobalArg("a, b, c", F, shape="n"), ...]


def make(text: str, domain: str = "{[s, i]: 0 <= i < n and 0 <= s < 3}", **options: Any) -> LoopKernel:
    return pl.make_kernel(domain, text, DATA, **options)


def blocked(kernel: LoopKernel) -> LoopKernel:
    return pl.split_iname(kernel, "i", 16, outer_tag="g.0", inner_tag="l.0")


def code(kernel: LoopKernel) -> str:
    return pl.generate_code(kernel, target=pl.CudaTarget()).device_code


def reference(kernel: LoopKernel) -> list[str]:
    return [line.strip().split("  ")[0] for line in str(kernel.reference).splitlines()]


def agree(kernel: LoopKernel, **arguments: Any) -> None:
    """Run *kernel* on fibres and in C, and compare with the interpreter."""
    expected = pl.interpret(kernel, **arguments)
    for found in run_on_fibres(pl.generate_code(kernel, target=pl.CudaTarget()), arguments).values():
        for name, wanted in expected.items():
            np.testing.assert_array_equal(found[name], wanted)
    copies: dict[str, Any] = {name: np.array(value) for name, value in arguments.items()}
    results = pl.compile(kernel, target=pl.CTarget())(**copies)
    for name, wanted in expected.items():
        np.testing.assert_array_equal(getattr(results, name), wanted)


CROSSING = "for i\n  <> t = a[i]\n  ... lbarrier {id=meet}\n  b[i] = t\nend"


def test_a_barrier_closes_the_innermost_loop_and_scalars_get_an_element_for_each_iteration() -> None:
    kernel = make(CROSSING)
    assert reference(kernel) == ["for i", "t[i] = a[i]", "... lbarrier", "for i", "b[i] = t[i]"]
    assert kernel.temporaries["t"].shape is not None
    np.testing.assert_array_equal(pl.interpret(kernel, a=np.arange(4, dtype=F)).b, np.arange(4))


@pytest.mark.parametrize("n", [1, 15, 16, 17, 40])
def test_what_crosses_is_a_scalar_where_the_loop_runs_on_threads(n: int) -> None:
    kernel = blocked(make(CROSSING))
    text = code(kernel)
    assert text.count("__syncthreads();") == 1
    assert "float t;" in text
    agree(kernel, a=np.arange(n, dtype=F))


def test_what_crosses_in_a_loop_of_constant_extent_is_an_array() -> None:
    kernel = pl.fix_parameters(make(CROSSING), n=8)
    assert "t[8]" in pl.generate_code(kernel, target=pl.CTarget()).device_code
    agree(kernel, a=np.arange(8, dtype=F))


def test_a_barrier_outside_of_for_divides_loops_too() -> None:
    kernel = make("<> t = a[i]\n... lbarrier\nb[i] = t")
    assert reference(kernel) == ["for i", "t[i] = a[i]", "... lbarrier", "for i", "b[i] = t[i]"]


def test_a_time_loop_around_other_loops_stays_closed() -> None:
    for text in (
        "for s\n  b[i] = a[i]\n  ... lbarrier\n  a[i] = b[n - 1 - i]\nend",
        "for s\n  for i\n  b[i] = a[i]\n  end\n  ... lbarrier\n  for i\n  a[i] = b[n - 1 - i]\n  end\nend",
        "for s\n  for i\n  <> v = a[n - 1 - i]\n  ... lbarrier\n  a[i] = v\n  end\nend",
    ):
        kernel = make(text, assumptions="n = 16")
        lines = reference(kernel)
        assert [lines[0], lines[1], lines[3], lines[4]] == ["for s", "for i", "... lbarrier", "for i"]
        kernel = pl.tag_inames(pl.fix_parameters(kernel, n=16), "i:l.0")
        a = np.arange(16, dtype=F)
        assert pl.interpret(kernel, a=a).a[0] == 15
        agree(kernel, a=a)


def test_an_explicit_barrier_serves_where_one_is_needed() -> None:
    text = "<> t[i] = a[i] {id=fill}\n... lbarrier\nb[i] = t[n - 1 - i]"
    kernel = pl.tag_inames(pl.fix_parameters(make(text), n=32), "i:l.0")
    assert code(kernel).count("__syncthreads();") == 1
    agree(kernel, a=np.arange(32, dtype=F))


def test_derived_barriers_are_added_to_it() -> None:
    text = "for s\n  for i\n  <> v = a[n - 1 - i] + s\n  ... lbarrier\n  a[i] = v\n  end\nend"
    kernel = pl.tag_inames(pl.fix_parameters(make(text), n=32), "i:l.0")
    assert re.findall(r"__sync\w+", code(kernel)) == ["__syncthreads", "__syncwarp"]
    agree(kernel, a=np.arange(32, dtype=F))


def test_a_global_barrier_divides_the_launch() -> None:
    kernel = blocked(make("b[i] = a[i]\n... gbarrier {id=all}\nc[i] = b[i]"))
    program = pl.generate_code(kernel, target=pl.CudaTarget())
    assert len(program.launches) == 2
    agree(kernel, a=np.arange(40, dtype=F))


def test_barriers_at_the_ends_divide_nothing() -> None:
    kernel = blocked(make("... gbarrier\nb[i] = a[i]\n... gbarrier\n... gbarrier\nc[i] = a[i]\n... gbarrier"))
    assert len(pl.generate_code(kernel, target=pl.CudaTarget()).launches) == 2
    agree(kernel, a=np.arange(33, dtype=F))


def test_one_thread_needs_no_barrier() -> None:
    kernel = make("b[i] = a[i]\n... lbarrier\n... gbarrier\nc[i] = b[i]")
    program = pl.generate_code(kernel, target=pl.CudaTarget())
    assert (len(program.launches), program.device_code.count("__syncthreads")) == (1, 0)
    agree(kernel, a=np.arange(5, dtype=F))


def test_dep_may_name_a_barrier() -> None:
    kernel = make("b[i] = a[i] {id=x}\n... lbarrier {id=meet}\nc[i] = a[i] {id=y, dep=meet}")
    assert [i.id for i in kernel.instructions] == ["x", "y"]
    with pytest.raises(pl.KernelError) as error:
        make("b[i] = a[i] {id=x, dep=meet}\n... lbarrier {id=meet}\nc[i] = a[i]")
    assert error.value.codes == ("dependency-cycle",)


def test_a_barrier_stays_in_its_split_loop() -> None:
    text = "for s\n  b[i] = a[i] + s\n  ... lbarrier\n  a[i] = b[n - 1 - i]\nend"
    kernel = pl.tag_inames(pl.fix_parameters(make(text), n=16), "i:l.0")
    kernel = pl.split_iname(kernel, "s", 2)
    agree(kernel, a=np.arange(16, dtype=F))
    assert "s_outer" in code(kernel)
    assert code(kernel).count("__syncthreads") % 2 == 0


def refused(make_it: Any) -> pl.PolyloopError:
    with pytest.raises(pl.PolyloopError) as error:
        make_it()
    return error.value


IN_A_LOOP = "for s\n  b[i] = a[i] + s\n  ... gbarrier {id=all}\n  c[i] = b[i]\nend"


def test_a_global_barrier_in_a_sequential_loop_divides_launches_of_the_host() -> None:
    kernel = blocked(make(IN_A_LOOP))
    program = pl.generate_code(kernel)
    assert [[loop.iname for loop in launch.around] for launch in program.launches] == [["s"], ["s"]]
    agree(kernel, a=np.arange(40, dtype=F))


def test_a_global_barrier_in_a_loop_that_the_host_cannot_run_is_refused() -> None:
    text = f"<> m = count[0]\n{IN_A_LOOP}"
    data = [*DATA[:1], pl.GlobalArg("count", np.int32, shape="1"), ...]
    kernel = pl.make_kernel("{[s, i]: 0 <= i < n and 0 <= s < m}", text, data)
    error = refused(lambda: code(blocked(kernel)))
    assert error.codes == ("grid-barrier",)
    assert "the global barrier 'all' stands in the sequential loop 's'" in str(error)
    assert "the host cannot run the loop 's': its bounds are read from memory ('m')" in str(error)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("for i\n  <> t = a[i]\n  ... lbarrier\n  b[i] = t\nend\nc[i] = t", "is used outside of that loop too"),
    ],
)
def test_what_cannot_have_an_element_for_each_iteration_is_refused(text: str, why: str) -> None:
    text = text.replace("u", "u[0]")
    error = refused(
        lambda: pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.TemporaryVariable("u", F, shape="2"), *DATA])
    )
    assert error.codes == ("crosses-barrier",)
    assert why in str(error)


def test_a_barrier_that_no_longer_fits_is_refused() -> None:
    text = "for s\n  for i\n  b[i] = a[i]\n  end\n  ... lbarrier\n  for i\n  c[i] = b[i]\n  end\nend"
    error = refused(lambda: pl.prioritize_loops(make(text), "i, s"))
    assert error.codes == ("barrier-outside",)


def test_a_barrier_in_an_empty_loop_is_refused() -> None:
    error = refused(lambda: make("for s\nfor i\n... lbarrier\nend\nend\na[i] = 1"))
    assert error.codes == ("barrier-outside",)


def test_barriers_of_fused_kernels_stay_between_what_they_divided() -> None:
    one = make("b[i] = a[i]\n... lbarrier\nc[i] = b[i]", "{[i]: 0 <= i < n}", name="one")
    data = [pl.GlobalArg("b, c, d", F, shape="n"), ...]
    two = pl.make_kernel("{[i]: 0 <= i < n}", "d[i] = c[i]\n... lbarrier\nd[i] = d[i] + b[i]", data, name="two")
    fused = pl.fuse_kernels([one, two])
    assert [barrier.id for barrier in fused.barriers] == ["barrier", "barrier_1"]
    assert [line for line in reference(fused) if line != "for i" and "for" not in line] == [
        "b[i] = a[i]", "... lbarrier", "c[i] = b[i]", "d[i] = c[i]", "... lbarrier", "d[i] = d[i] + b[i]",
    ]  # fmt: skip
    agree(pl.tag_inames(pl.fix_parameters(fused, n=16), "i:l.0"), a=np.arange(16, dtype=F))
