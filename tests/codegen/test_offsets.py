"""Named offsets: what addresses share is computed once in the text, where it is computed whatever happens."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres

FIELDS = ["r = f[0, i, j] + f[1, i, j] + f[2, i, j]", *(f"g[{c}, i, j] = f[{c}, i, j] - r" for c in range(3))]
PLANES = "\n".join(["<> " + FIELDS[0], *FIELDS[1:]])


def build(text: str, types: object = MappingProxyType({"f": np.float32, "g": np.float32})) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i < m + 2 and 0 <= j < n + 2}", text, assumptions="m >= 1 and n >= 1")
    knl = pl.add_dtypes(knl, types)  # type: ignore[arg-type]
    return knl.split_iname("j", 32, outer_tag="g.0", inner_tag="l.0").tag_inames("i:g.1")


def text_of(knl: pl.LoopKernel, **options: object) -> str:
    return pl.generate_code(knl, target=pl.CudaTarget(**options)).device_code  # type: ignore[arg-type]


def test_what_many_addresses_share_has_a_name() -> None:
    knl = build(PLANES)
    text = text_of(knl)
    assert "const int stride = (n + 2) * (m + 2);" in text
    assert text.count("(n + 2) * (m + 2)") == 1
    assert "g[2 * stride + " in text


def test_results_are_those_of_the_reference() -> None:
    knl = build(PLANES)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    f = np.random.default_rng(1).random((3, 7, 41), np.float32)
    expected = f - f.sum(axis=0, dtype=np.float32)
    for result in run_on_fibres(program, {"f": f, "g": np.zeros_like(f)}).values():
        np.testing.assert_allclose(result.g, expected, rtol=1e-5)


def test_names_begin_anew_in_blocks_beside_each_other() -> None:
    text = text_of(import_module("examples.jacobi_time_skewed").transformed())
    assert text.count("const int u_offset = bx * 2 * n + t_inner % 2 * n + i;") == 3


def test_a_short_address_has_no_name() -> None:
    text = text_of(build("g[i, j] = f[i, j] + f[i, j]"))
    assert "offset" not in text


def test_what_only_a_condition_asks_for_is_not_computed_in_front_of_it() -> None:
    shared = "f[(i - 3)*(n + 2)*(m + 2) + 5*j]"
    knl = build(f"g[i, j] = {shared} + {shared} + {shared} if i >= 3 else 0", {"f": np.float32, "g": np.float32})
    text = text_of(knl)
    line = next(line for line in text.splitlines() if "g[" in line and "=" in line and "//" not in line)
    assert "offset = " not in text.partition(line)[0].partition("__global__")[2]


def test_a_name_of_the_users_is_not_hidden() -> None:
    knl = build(PLANES.replace("r = ", "stride = ").replace("- r", "- stride"))
    text = text_of(knl)
    assert "float stride = " in text
    assert "const int stride_0 = (n + 2) * (m + 2);" in text


@pytest.mark.parametrize("options", [{}, {"full_blocks": False}])
def test_a_name_holds_in_the_blocks_inside(options: dict[str, bool]) -> None:
    text = text_of(build(PLANES), **options)
    assert text.count("const int stride = ") == text.count("float r = ")
