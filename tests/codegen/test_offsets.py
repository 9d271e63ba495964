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
    assert "g[stride + offset]" in text


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
    text = text_of(build("g[i, j] = 2*f[i, j]"))
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


def of_rows(text: str) -> str:
    """Return the body of a kernel whose rows begin where ``row`` says."""
    data = [
        pl.GlobalArg("row, col", np.int32, shape="entries"), pl.GlobalArg("val, out", np.float32, shape="entries"),
        pl.GlobalArg("x, y", np.float32, shape="m"), pl.ValueArg("width", np.int32), ...,
    ]  # fmt: skip
    knl = pl.make_kernel("{[i, e]: 0 <= i < m and 0 <= e < width}", text, data, assumptions="m >= 1")
    text = text_of(knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0"))
    return text.partition("__global__")[2]


def test_an_offset_that_is_read_has_a_name() -> None:
    assert "const int offset = row[i] + e;" in of_rows("y[i] = sum(e, val[row[i] + e]*x[col[row[i] + e]])")


def test_an_offset_that_is_kept_in_a_scalar_has_a_name() -> None:
    text = of_rows("for i\n<> begin = row[i]\ny[i] = sum(e, val[begin + e]*x[col[begin + e]])\nend")
    assert "const int offset = begin + e;" in text
    assert text.count("begin + e") == 1


def test_an_offset_that_changes_has_no_name() -> None:
    text = of_rows(
        "for i\n<> begin = row[i]\nfor e\ny[i] = y[i] + val[begin + e]*x[col[begin + e]]\n"
        "begin = begin + col[begin + e]\nend\nend"
    )
    assert "offset" not in text
    assert text.count("begin + e") == 3


def test_an_offset_in_an_array_that_the_kernel_writes_has_no_name() -> None:
    data = [pl.GlobalArg("row", np.int32, shape="4"), pl.GlobalArg("x, y", np.float32, shape="entries"), ...]
    text = "for i, e\ny[row[e] + 8*i] = y[row[e] + 8*i] + x[row[e] + 8*i]\nrow[e] = row[e] + 1\nend"
    found = text_of(pl.make_kernel("{[i, e]: 0 <= i < m and 0 <= e < 4}", text, data)).partition("__global__")[2]
    assert found.count("row[e] + 8 * i") >= 2
    assert "offset" not in found


def test_results_with_offsets_from_memory_are_those_of_the_reference() -> None:
    csr = import_module("examples.csr_warps")
    arrays = csr.inputs(np.random.default_rng(2), n=7, m=50)
    program = pl.generate_code(csr.transformed(), target=pl.CudaTarget())
    assert "const long long offset = begin + j;" in program.device_code
    for result in run_on_fibres(program, {**arrays, "y": np.zeros(7, np.float32)}).values():
        np.testing.assert_allclose(result.y, csr.expected(**arrays)["y"], rtol=1e-4)
