"""Attention of tensors of PyTorch, with gradients."""
# tensors

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import e, log2, sqrt
from typing import Any, Final

from polyloop.errors import ArgumentError
from polyloop.interop.operands import library_of, use_error
from polyloop.library.attention import attention as forward_of
from polyloop.library.attention_backward import gradients as backward_of
from polyloop.library.scores import Scores

__all__ = ["attention"]

_STEP: Final = "torch.attention"
_TILE: Final = 64
"""Queries and keys that schedules ask for multiples of."""


def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None, window: int = 0, lengths: Any = None,
    bias: Any = None, cap: float | None = None,
) -> Any:
    """Return ``softmax(scale*q k^T + bias) v`` of tensors on a GPU, on tensor cores, with gradients of q, k and v.

    ::

        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)    # before
        o = polyloop.torch.attention(q, k, v, causal=True)                                                # after
        o.sum().backward()

    Parameters
    ----------
    q
        Of shape (batches, heads, queries, head), bfloat16 or float16.  A head has 64, 128 or 256 elements.
    k, v
        Of shape (batches, heads of keys, keys, head), of the same type; heads are a multiple of heads of keys.
    causal
        Whether query i sees keys 0 to i alone, of as many as there are queries.
    scale
        Of scores: 1/sqrt(head) by default.
    window
        Keys that a query sees, itself the last of them, if it is causal; 0: as many as there are.
    lengths
        Tensor of int32, the keys of each batch that are seen.  The time is that of all keys.
    bias
        Added to scores, of the type of q and of shape (batches, heads, queries, keys).  It gets no gradient.
    cap
        Scores x become ``cap*tanh(x/cap)``, before the bias is added.

    Returns
    -------
    Tensor
        As q.  A query that sees no key has an output of 0.

    Raises
    ------
    ArgumentError
        ``wrong-shape``, ``wrong-dtype``, ``bad-value``, ``no-gradient``: shapes that do not fit one another, a type or
        a head that no schedule is for, numbers of queries and keys that differ where it is causal, a gradient of the
        bias.
    CompilerError
        ``no-library``: PyTorch is not installed; at the first call, as :func:`polyloop.compile`.

    Notes
    -----
    Rows of q, k and v are padded to whole tiles where they are none, which copies them.  Schedules are chosen by
    :func:`polyloop.dispatch`.
    """
    torch = library_of(_STEP, "torch")
    shape = _shape(q, k, v, causal=causal)
    _check(q, shape.m, lengths, bias, cap)
    scores = Scores(causal, window, lengths is not None or shape.is_ragged(causal), bias is not None, cap is not None)
    more = _more(torch, shape, scores, q, lengths, bias, cap)
    more["scale"] = log2(e) * (1 / sqrt(shape.head) if scale is None else scale)
    parts = (_padded(torch, x, rows).reshape(shape.heads, *group, -1, shape.head)
             for x, rows, group in ((q, shape.rows, (shape.group,)), (k, shape.columns, ()), (v, shape.columns, ())))
    o = _function(torch).apply(*parts, more, scores)
    return o.reshape(*q.shape[:2], -1, shape.head)[:, :, : shape.n]


@dataclass(frozen=True)
class _Shape:
    """Heads of keys of all batches, heads of queries for each, queries, keys, elements of a head; and batches."""

    heads: int
    group: int
    n: int
    m: int
    head: int
    batches: int

    @property
    def rows(self) -> int:
        """Queries, in whole tiles."""
        return -(-self.n // _TILE) * _TILE

    @property
    def columns(self) -> int:
        """Keys, in whole tiles."""
        return -(-self.m // _TILE) * _TILE

    def is_ragged(self, causal: bool) -> bool:
        """Return whether there are keys of padding that queries would see."""
        return not causal and self.columns != self.m


def _refusal(code: str, message: str, hint: str) -> ArgumentError:
    return use_error(_STEP, "attention", code, message, hint=hint)


def _shape(q: Any, k: Any, v: Any, *, causal: bool) -> _Shape:
    """Return the shape of a call, or raise an error."""
    if not q.ndim == k.ndim == v.ndim == len(("batches", "heads", "rows", "head")):
        raise _refusal("wrong-shape", f"q, k and v have {q.ndim}, {k.ndim} and {v.ndim} axes, and not 4 each",
                       "pass (batches, heads, rows, head)")
    batches, heads, n, head = q.shape
    m, own = k.shape[2], k.shape[1]
    if tuple(k.shape) != tuple(v.shape) or (k.shape[0], k.shape[3]) != (batches, head) or not own or heads % own:
        raise _refusal("wrong-shape", f"k {tuple(k.shape)} and v {tuple(v.shape)} do not fit q {tuple(q.shape)}",
                       "k and v have one shape, the batches and the head of q, and heads that divide those of q")
    if not (batches and n and m):
        raise _refusal("wrong-shape", "there are no queries or no keys", "leave out calls of empty tensors")
    if causal and n != m:
        raise _refusal("bad-value", f"causal attention of {n} queries has {m} keys", "pass as many keys as queries")
    if q.dtype != k.dtype or q.dtype != v.dtype:
        raise _refusal("wrong-dtype", f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}", f"convert to {q.dtype}")
    return _Shape(batches * own, heads // own, n, m, head, batches)


def _check(q: Any, keys: int, lengths: Any, bias: Any, cap: Any) -> None:
    """Raise an error unless what changes scores fits queries *q* and *keys*."""
    if lengths is not None and (tuple(lengths.shape) != (q.shape[0],) or str(lengths.dtype) != "torch.int32"):
        raise _refusal("wrong-shape", f"lengths are {lengths.dtype} {tuple(lengths.shape)}",
                       f"pass {q.shape[0]} of torch.int32, one for each batch")
    if bias is not None and (tuple(bias.shape) != (*q.shape[:3], keys) or bias.dtype != q.dtype):
        raise _refusal("wrong-shape", f"the bias is {bias.dtype} {tuple(bias.shape)}",
                       f"expand it to {(*q.shape[:3], keys)}, of {q.dtype}")
    if bias is not None and bias.requires_grad:
        raise _refusal("no-gradient", "the bias requires a gradient, which is not computed", "pass bias.detach()")
    if cap is not None and not cap > 0:
        raise _refusal("bad-value", f"a cap of {cap} is not above 0", "pass None for scores without a cap")


def _padded(torch: Any, x: Any, rows: int) -> Any:
    """Return *x*, contiguous, with zeros up to a number of *rows*."""
    left = rows - x.shape[2]
    return torch.nn.functional.pad(x, (0, 0, 0, left)) if left else x.contiguous()


def _more(torch: Any, shape: _Shape, scores: Scores, q: Any, lengths: Any, bias: Any, cap: Any) -> dict[str, Any]:
    """Return the arguments of a call besides q, k, v and the scale."""
    found: dict[str, Any] = {}
    if scores.lengths:
        all_keys = torch.full((shape.batches,), shape.m, dtype=torch.int32, device=q.device)
        lengths = all_keys if lengths is None else torch.minimum(lengths, all_keys)
        found["lengths"] = lengths.repeat_interleave(shape.heads // shape.batches)
    if scores.bias:
        bias = torch.nn.functional.pad(bias, (0, shape.columns - shape.m, 0, shape.rows - shape.n))
        found["bias"] = bias.reshape(shape.heads, shape.group, shape.rows, shape.columns).contiguous()
    if scores.cap:
        found["cap"] = cap
    return found


@cache
def _function(torch: Any) -> Any:
    """Return the function that autograd knows."""

    class Attention(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any, more: dict[str, Any], scores: Scores) -> Any:
            known = {"q": q.detach(), "k": k.detach(), "v": v.detach()}
            needs = any(ctx.needs_input_grad[:3])
            kind = (str(q.dtype).removeprefix("torch."), q.shape[3])
            run = forward_of(*kind, group=q.shape[1], scores=scores, lse=needs)(**known, **more)
            if needs:
                ctx.save_for_backward(*known.values(), run["o"], run["lse"])
                ctx.more, ctx.made = more, backward_of(*kind, group=q.shape[1], scores=scores)
            return run["o"]

        @staticmethod
        def backward(ctx: Any, d_o: Any) -> tuple[Any, ...]:
            known = dict(zip(("q", "k", "v", "o", "lse"), (x.detach() for x in ctx.saved_tensors), strict=True))
            found = ctx.made(**known, d_o=d_o.contiguous(), **ctx.more)
            return found["dq"], found["dk"], found["dv"], None, None

    return Attention
