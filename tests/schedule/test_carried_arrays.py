"""Arrays that iterations of a sequential loop hand on through written barriers, with threads around or inside of it."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres

pytestmark = pytest.mark.filterwarnings("ignore:(unused|idle-barrier)")

F = np.float64
DOMAIN = "{[k, t, g]: 0 <= k < m and 0 <= t < 8 and 0 <= g < n}"


def mirrored(x: np.ndarray) -> np.ndarray:
    """Return what ``s = s[::-1] + x[:, k]`` makes of zeros, one step after the other."""
    s = np.zeros_like(x[:, 0])
    for k in range(x.shape[1]):
        s = s[:, ::-1] + x[:, k]
    return s


def before(x: np.ndarray) -> np.ndarray:
    """Return the step before, mirrored."""
    return np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1, ::-1]], axis=1)


PROGRAMS = {
    "used, then set": ("8", """
        for g, k, t
            y[g, k, t] = s[7 - t] if k > 0 else 0
            ... lbarrier
            s[t] = x[g, k, t]
        end""", before),
    "two loops, under a condition": ("8", """
        for g, k
            for t
                y[g, k, t] = 0
                if k > 0
                    y[g, k, t] = s[7 - t]
                end
            end
            ... lbarrier
            for t
                s[t] = x[g, k, t]
            end
        end""", before),
    "threads around the steps": ("8", """
        for g, t
            s[t] = 0
            for k
                ... lbarrier
                <> old = s[7 - t]
                ... lbarrier
                s[t] = old + x[g, k, t]
            end
            z[g, t] = s[t]
        end""", mirrored),
    "two buffers": ("2, 8", """
        for g, t
            s[0, t] = 0
            for k
                ... lbarrier
                s[(k + 1) % 2, t] = s[k % 2, 7 - t] + x[g, k, t]
            end
            z[g, t] = s[m % 2, t]
        end""", mirrored),
}  # fmt: skip


def made(name: str) -> pl.LoopKernel:
    shape, text, _ = PROGRAMS[name]
    out = "z" if "z[" in text else "y"
    data = [pl.GlobalArg("x", F, shape="n, m, 8"), pl.TemporaryVariable("s", F, shape=shape),
            pl.GlobalArg(out, F, shape="n, 8" if out == "z" else "n, m, 8"), ...]  # fmt: skip
    return pl.make_kernel(DOMAIN, text, data, name="carried", assumptions="n >= 1 and m >= 1")


@pytest.mark.parametrize("name", PROGRAMS)
def test_iterations_hand_on_arrays(name: str) -> None:
    kernel = pl.tag_inames(made(name), "g:g.0, t:l.0")
    program = pl.generate_code(kernel, target=pl.CudaTarget())
    assert "__syncthreads();" in program.device_code
    for m in (1, 4):
        x = np.random.default_rng(m).integers(0, 9, (3, m, 8)).astype(F)
        expected = PROGRAMS[name][2](x)
        (result,) = pl.interpret(kernel, x=x).values()
        np.testing.assert_array_equal(result, expected)
        for (found,) in (found.values() for found in run_on_fibres(program, {"x": x}).values()):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("text", [
    "acc = 0\nfor k\ns[t] = x[g, k, t] + acc\n... lbarrier\nacc = acc + s[7 - t]\nend\nz[g, t] = acc",
    "<> w = x[g, 0, t]\nfor k\ns[t] = x[g, k, t]\n... lbarrier\nz[g, t] = w*s[7 - t]\nend",
])  # fmt: skip
def test_a_scalar_of_each_thread_has_to_have_a_subscript(text: str) -> None:
    data = [pl.GlobalArg("x", F, shape="n, m, 8"), pl.GlobalArg("z", F, shape="n, 8"),
            pl.TemporaryVariable("s", F, shape="8"), pl.TemporaryVariable("acc", F), ...]  # fmt: skip
    with pytest.raises(pl.KernelError) as refused:
        pl.make_kernel(DOMAIN, f"for g, t\n{text}\nend", data, assumptions="n >= 1 and m >= 1")
    assert refused.value.codes == ("crosses-barrier",)
