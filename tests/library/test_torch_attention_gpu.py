"""Attention of tensors of PyTorch on a GPU, beside PyTorch's own in float32."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch has no CUDA")
    found.manual_seed(0)
    return found


@pytest.mark.parametrize(("n", "head", "causal", "own", "ragged"), [
    (512, 128, True, 8, False), (512, 64, False, 2, False), (300, 128, True, 2, False), (300, 64, False, 8, True),
    (256, 256, True, 4, False),
])  # fmt: skip
def test_outputs_and_gradients(torch: Any, n: int, head: int, causal: bool, own: int, ragged: bool) -> None:
    from polyloop.torch import attention  # noqa: PLC0415 - without a GPU nothing is imported

    shapes = [(2, 8, n, head), (2, own, n, head), (2, own, n, head)]
    parts = [torch.randn(shape, device="cuda").bfloat16().requires_grad_() for shape in shapes]
    wide = [x.detach().float().requires_grad_() for x in parts]
    lengths = torch.tensor([n, n - 77], dtype=torch.int32, device="cuda") if ragged else None
    mask = None
    if lengths is not None:
        mask = torch.arange(n, device="cuda")[None, None, None] < lengths[:, None, None, None]
    found = attention(*parts, causal=causal, lengths=lengths)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *wide, attn_mask=mask, is_causal=causal, enable_gqa=True)
    assert (found.float() - wanted).abs().max() < 2e-2
    gradient = torch.randn(wanted.shape, device="cuda").bfloat16()
    found.backward(gradient)
    wanted.backward(gradient.float())
    for one, other in zip(parts, wide, strict=True):
        assert (one.grad.float() - other.grad).abs().max() < 2e-2 * other.grad.abs().max()
