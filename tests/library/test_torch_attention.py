"""Attention of tensors of PyTorch: shapes, padding and gradients, with schedules in float64 in place of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.library import torch_attention
from polyloop.library.scores import Scores
from tests.library.exact_attention import exact

torch = pytest.importorskip("torch")


def standing_in(
    dtype: str, head: int, *, group: int, scores: Scores, lse: bool = True
) -> Callable[..., dict[str, Any]]:  # fmt: skip
    """Return what computes in float64 what kernels do, and asks for whole tiles as these do."""
    del lse

    def run(**given: Any) -> dict[str, Any]:
        tensors = [x for x in given.values() if isinstance(x, torch.Tensor)]
        assert all(x.is_contiguous() and not x.requires_grad for x in tensors)
        arrays = {name: x.float().numpy() if isinstance(x, torch.Tensor) else x for name, x in given.items()}
        assert arrays["q"].shape[1::2] == (group, head)
        assert arrays["q"].shape[2] % 64 == arrays["k"].shape[1] % 64 == 0
        arrays["k"] = arrays["k"] * given["scale"] * np.log(2) * np.sqrt(head)
        found = exact(arrays, scores, arrays.get("d_o"), cap=given.get("cap", 1.0))
        if "dk" in found:
            found["dk"] *= given["scale"] * np.log(2) * np.sqrt(head)
        return {name: torch.from_numpy(x).to(getattr(torch, dtype) if name != "lse" else torch.float32)
                for name, x in found.items()}

    return run


@pytest.fixture(autouse=True)
def schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_attention, "forward_of", standing_in)
    monkeypatch.setattr(torch_attention, "backward_of", standing_in)


def drawn(n: int, m: int, heads: int, own: int, head: int = 64) -> list[Any]:
    torch.manual_seed(0)
    shapes = [(2, heads, n, head), (2, own, m, head), (2, own, m, head)]
    return [torch.randn(shape).to(torch.bfloat16).requires_grad_() for shape in shapes]


@pytest.mark.parametrize(("n", "m", "causal"), [(100, 100, True), (70, 150, False), (128, 64, False)])
@pytest.mark.parametrize("changed", [False, True])
def test_outputs_and_gradients_are_those_of_pytorch(n: int, m: int, causal: bool, changed: bool) -> None:
    q, k, v = drawn(n, m, 4, 2)
    bias = torch.randn(2, 4, n, m).to(torch.bfloat16) if changed else None
    lengths = torch.tensor([m - 3, m - 40], dtype=torch.int32) if changed else None
    scale = 0.3 if changed else None
    mask = torch.zeros(2, 4, n, m) if bias is None else bias.float().clone()
    if lengths is not None:
        mask.masked_fill_(torch.arange(m)[None, None, None] >= lengths[:, None, None, None], float("-inf"))
    if causal:
        mask.masked_fill_(torch.arange(m)[None] > torch.arange(n)[:, None], float("-inf"))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *wide, attn_mask=mask.double(), scale=scale, enable_gqa=True)
    found = torch_attention.attention(q, k, v, causal=causal, bias=bias, lengths=lengths, scale=scale)
    assert found.shape == wanted.shape
    assert torch.allclose(found.double(), wanted, rtol=2e-2, atol=2e-2)
    gradient = torch.randn(wanted.shape).to(torch.bfloat16)
    found.backward(gradient)
    wanted.backward(gradient.double())
    for one, other in zip((q, k, v), wide, strict=True):
        assert (one.grad.double() - other.grad).abs().max() < 2e-2 * other.grad.abs().max()


def test_a_cap_and_no_gradients() -> None:
    q, k, v = (x.detach() for x in drawn(64, 64, 1, 1))
    found = torch_attention.attention(q, k, v, cap=1.25)
    scores = 1.25 * torch.tanh(q.double() @ k.double().mT / 8 / 1.25)
    assert torch.allclose(found.double(), scores.softmax(-1) @ v.double(), rtol=2e-2, atol=2e-2)
    assert not found.requires_grad


@pytest.mark.parametrize(("change", "code"), [
    (lambda q, k, v: {"q": q[0]}, "wrong-shape"),
    (lambda q, k, v: {"v": v[:, :, :5]}, "wrong-shape"),
    (lambda q, k, v: {"q": q[:, :1]}, "wrong-shape"),
    (lambda q, k, v: {"q": q[:, :, :5], "causal": True}, "bad-value"),
    (lambda q, k, v: {"k": k.float()}, "wrong-dtype"),
    (lambda q, k, v: {"lengths": torch.tensor([1, 2])}, "wrong-shape"),
    (lambda q, k, v: {"bias": q}, "wrong-shape"),
    (lambda q, k, v: {"bias": torch.zeros(2, 2, 64, 64, dtype=q.dtype).requires_grad_()}, "no-gradient"),
    (lambda q, k, v: {"cap": 0.0}, "bad-value"),
    (lambda q, k, v: {"window": 3}, "bad-value"),
])  # fmt: skip
def test_refusals(change: Any, code: str) -> None:
    q, k, v = drawn(64, 64, 2, 2, 32)
    given = {"q": q, "k": k, "v": v} | change(q, k, v)
    with pytest.raises(pl.ArgumentError) as caught:
        torch_attention.attention(**given)
    assert [one.code for one in caught.value.found] == [code]
