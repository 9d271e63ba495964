"""A module of PyTorch that is trained with two kernels: ``python module.py`` compares it with PyTorch alone."""

from __future__ import annotations

import torch
from kernels import backward, forward

import polyloop.torch

gate = polyloop.torch.custom_op(forward(), "polyloop_examples::gate", backward=backward())


class FeedForward(torch.nn.Module):  # type: ignore[misc]  # without the types of PyTorch
    """``down(silu(gate(x))*up(x))``."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(width, hidden, bias=False)
        self.up = torch.nn.Linear(width, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        return self.down(gate(self.gate(x), self.up(x)))

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        """Return the same by PyTorch's own operators."""
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def main() -> None:
    """Train for a few steps, compiled without graph breaks, and compare each gradient."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = FeedForward(64, 96).to(device)
    x, wanted = torch.rand(2, 32, 64, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    losses = []
    for _ in range(10):
        own = torch.autograd.grad(((compiled(x) - wanted) ** 2).mean(), [*model.parameters()])
        loss = ((model.plain(x) - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter, gradient in zip(model.parameters(), own, strict=True):
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-6)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], "training lowers the loss"
    print(f"10 steps on {device}: gradients agree, loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
