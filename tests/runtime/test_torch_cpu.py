"""Torch tensors in host memory are arguments of kernels of the C target: nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

torch: Any = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def run() -> Any:
    """Return ``z[i] = 2*x[i]``, compiled for strides of any length."""
    data = [pl.GlobalArg("x", np.float32, shape="n", strides=("s",)), pl.GlobalArg("z", np.float32, shape="n"), ...]
    return pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", data, name="twice"), target=pl.CTarget())


def test_outputs_are_tensors(run: Any) -> None:
    x = torch.arange(7, dtype=torch.float32)
    for _ in range(3):  # checked, then repeated
        z = run(x=x).z
        assert isinstance(z, torch.Tensor)
        assert torch.equal(z, 2 * x)


def test_writes_to_the_tensor_passed(run: Any) -> None:
    x, z = torch.arange(7, dtype=torch.float32), torch.zeros(7)
    for _ in range(3):
        z.zero_()
        assert run(x=x, z=z).z is z
        assert torch.equal(z, 2 * x)


def test_numpy_arrays_and_views_of_tensors(run: Any) -> None:
    x, z = torch.arange(14, dtype=torch.float32)[1::2], np.zeros(7, np.float32)
    run(x=x, z=z)
    assert np.array_equal(z, 2 * x.numpy())
    assert isinstance(run(x=x.numpy().copy()).z, np.ndarray)


def test_a_tensor_with_gradients_is_refused_also_in_a_repeated_call(run: Any) -> None:
    x, z = torch.ones(4), torch.zeros(4)
    run(x=x, z=z)
    run(x=x, z=z)
    x.requires_grad_()
    with pytest.raises(pl.ArgumentError, match=r"requires gradients.*\n(.*\n)*.*x\.detach\(\)"):
        run(x=x, z=z)
    run(x=x.detach(), z=z)
    assert torch.equal(z, torch.full((4,), 2.0))


@pytest.mark.parametrize(("make", "code"), [
    (lambda: torch.ones(4, dtype=torch.float64), "wrong-dtype"),
    (lambda: torch.ones(4, device="meta"), "wrong-type"),
    (lambda: torch.ones(4).to_sparse(), "wrong-type"),
    (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]), "it is nested"),
    (lambda: torch._efficientzerotensor(4), "'x' has no memory that holds its elements"),
    (lambda: torch._to_functional_tensor(torch.ones(4)), "'x' has no memory that holds its elements"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_other_tensors_are_refused(run: Any, make: Any, code: str) -> None:
    for _ in range(2):  # by the checks of repeated calls, which know tensors, too
        run(x=torch.ones(4))
        run(x=torch.ones(4))
        with pytest.raises(pl.ArgumentError, match=code):
            run(x=make())


def test_a_tensor_that_stands_for_a_batch_is_refused(run: Any) -> None:
    with pytest.raises(pl.ArgumentError, match="call an operator"):
        torch.vmap(lambda x: run(x=x).z)(torch.ones(2, 4))


def test_tensors_that_overlap_are_refused(run: Any) -> None:
    x = torch.ones(8)
    with pytest.raises(pl.ArgumentError, match="overlapping-arguments"):
        run(x=x[:4], z=x[2:6])
