"""``diff_kernel``, and tags of axes as objects: scripts as they are written for Loopy, on C and on fibres."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop import loopy as lp
from tests.transform.checking import check


def test_all_derivatives_of_an_output() -> None:
    knl = lp.make_kernel("{ [i,j]: 0<=i,j<n }", "z[i] = sum(j, x[i]**2 * x[j])*y[i]", name="diff")
    dknl, name = lp.diff_kernel(knl["diff"], "z", "x")
    assert name == "z_dx"
    knl = lp.split_iname(knl.with_kernel(dknl), "diff_i0", 2, inner_tag="l.0")
    x, y = np.array([1.0, 2, 4]), np.array([3.0, 5, 6])
    expected = np.diag(2 * x * x.sum() * y) + np.outer(x**2 * y, np.ones(3))
    _, (found,) = knl(x=x, y=y)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    check(knl.default_entrypoint.kernel.specialized(x=x, y=y), {"x": x, "y": y}, {"z_dx": expected}, rtol=1e-14)


def test_derivatives_of_outputs_with_axes() -> None:
    data = [lp.GlobalArg("a", np.float32, shape=(3, 2)), lp.ValueArg("s", np.float32), ...]
    knl = lp.make_kernel("{ [i,j]: 0<=i<2 and 0<=j<3 }", "w[i,j] = a[j,i]**2*s\nv[j,i] = 2*a[j,i]", data)
    dknl, names = lp.diff_kernel(knl, "w, v", "a", copy_outputs={"v"})
    assert names == {"w": "w_da", "v": "v_da"}
    a = np.arange(6, dtype=np.float32).reshape(3, 2)
    dknl = lp.set_options(dknl, return_dict=True)
    _, found = dknl(a=a, s=np.float32(2))
    np.testing.assert_array_equal(found["w_da"], np.einsum("jk,il,ji->ijkl", np.eye(3), np.eye(2), 4 * a))
    np.testing.assert_array_equal(found["v_da"], 2 * np.einsum("jk,il->jikl", np.eye(3), np.eye(2)))
    np.testing.assert_array_equal(found["v"], 2 * a)


@pytest.mark.parametrize("tags", ["N0,vec", [lp.FixedStrideArrayDimTag(8), lp.VectorArrayDimTag()]])
def test_tags_of_axes_are_objects(tags: Any) -> None:
    knl = lp.make_kernel("{ [i,c]: 0<=i<4 and 0<=c<4 }", "out[i,c] = 2*a[i,c]",
                         [lp.GlobalArg("out,a", np.float32, shape=(4, 4))])  # fmt: skip
    knl = lp.tag_inames(lp.tag_array_axes(knl, "out", tags), {"c": "vec"})
    assert str(knl.default_entrypoint.kernel.argument("out").dim_tags[-1]) == "vec"
    assert "float4" in lp.generate_code_v2(knl.copy(target=pl.CudaTarget())).device_code()
