"""Products in a chain with what comes before and after them: their schedules, calls, results, and PyTorch's ways."""
# ruff: noqa: ANN401  # PyTorch's arrays

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import polyloop as pl
from polyloop.library import fused, weights
from polyloop.library import matmul as products_of

__all__ = ["CHAINS", "Chain"]

_PLACE: Final = "cuda"
_ROWS: Final = 256
"""Rows of which results are compared with float64."""
Sizes = Mapping[str, int]
Arrays = Mapping[str, Any]
Call = Callable[[], object]


@dataclass(frozen=True)
class Chain:
    """A chain: schedules for sizes, arguments, the first rows of what is expected, and PyTorch's ways to compute it.

    ``operations`` are the additions and multiplications of the products.  Peers are those of eager calls;
    ``expression`` is what ``torch.compile`` is given, None where it would call the same library.
    """

    name: str
    sizes: tuple[Sizes, ...]
    schedules: Mapping[str, Callable[..., pl.LoopKernel]]
    inputs: Callable[[Any, Sizes], dict[str, Any]]
    expression: Callable[..., Any] | None
    expected: Callable[[Any, Arrays], Any]
    peers: Callable[[Any, Arrays], Mapping[str, Call]]
    operations: Callable[[Sizes], int]


def _rand(torch: Any, *shape: int, dtype: Any = None) -> Any:
    return (torch.rand(shape, device=_PLACE) - 0.5).to(torch.bfloat16 if dtype is None else dtype)


def _two_per_term(sizes: Sizes) -> int:
    return 2 * prod(sizes.values())


def _square(n: int) -> Sizes:
    return {"m": n, "n": n, "p": n}


def _first(arrays: Arrays, name: str = "a") -> Any:
    return arrays[name][:_ROWS].double()


# {{{ epilogues


def _gelu_inputs(torch: Any, sizes: Sizes) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    return {"a": _rand(torch, m, p), "b": _rand(torch, p, n), "bias": _rand(torch, n)}


def _gelu(torch: Any, a: Any, b: Any, bias: Any) -> Any:
    return torch.nn.functional.gelu(torch.addmm(bias, a, b))


def _gated_inputs(torch: Any, sizes: Sizes) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    scale = p**-0.5
    return {"a": _rand(torch, m, p), **{name: _rand(torch, p, n) * scale for name in ("gate", "up")}}


def _gated(torch: Any, a: Any, gate: Any, up: Any) -> Any:
    return torch.nn.functional.silu(a @ gate) * (a @ up)


def _norm_inputs(torch: Any, sizes: Sizes) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    return {"a": _rand(torch, m, p), "b": _rand(torch, p, n), "gamma": _rand(torch, n), "beta": _rand(torch, n)}


def _norm(torch: Any, a: Any, b: Any, gamma: Any, beta: Any) -> Any:
    return torch.nn.functional.layer_norm(a @ b, gamma.shape, gamma, beta, 1e-5)


def _in_double(torch: Any, of: Callable[..., Any], arrays: Arrays) -> Any:
    """Return the first rows of a chain of matrices, in float64."""
    return of(torch, **{name: x[:_ROWS].double() if name == "a" else x.double() for name, x in arrays.items()})


def _eager(of: Callable[..., Any]) -> Callable[[Any, Arrays], Mapping[str, Call]]:
    return lambda torch, arrays: {"eager": partial(of, torch, **arrays)}


def _tiles(program: Callable[[], pl.LoopKernel], **how: Any) -> Callable[..., pl.LoopKernel]:
    return lambda **_: fused.on_tiles(program(), **how)


def _rows(rows: int, columns: int, n: int, **_: int) -> pl.LoopKernel:
    """Return a product with layer norm in clusters of as many blocks as there are tiles in a row, 8 at most."""
    blocks = n // columns
    if blocks > _MOST_BLOCKS:
        raise ValueError(f"{blocks} blocks are too many for a cluster")
    return fused.on_rows(fused.layer_norm(n), rows, columns, blocks=blocks)


def _stored(columns: int, stages: int, n: int, *, roles: bool = False, **_: int) -> pl.LoopKernel:
    """Return a product that is stored, and the layer norm of its rows by warps, as many rows at once as are short."""
    knl = fused.layer_norm_of_stored(n)
    return fused.on_tiles_and_warps(knl, _TILE, columns, stages, together=max(1, 2048 // n), roles=roles)


_MOST_BLOCKS: Final = 8

# }}}
# {{{ weights of few bits


def _bytes_inputs(kind: str, group: int, torch: Any, sizes: Sizes) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    scale = torch.rand((p // group, n) if group else n, device=_PLACE) / 16
    if kind == "int4":
        q = torch.randint(0, 256, (p // 2, n), device=_PLACE, dtype=torch.uint8)
    else:
        q = (4 * torch.rand((p, n), device=_PLACE) - 2).to(torch.float8_e4m3fn)
    return {"a": _rand(torch, m, p), "q": q, "scale": scale}


def _weights(torch: Any, q: Any, dtype: Any) -> Any:
    if q.dtype != torch.uint8:
        return q.to(dtype)
    low, high = ((x.to(torch.int8) ^ 8) - 8 for x in (q & 15, q >> 4))
    return torch.stack([low, high], 1).reshape(2 * q.shape[0], q.shape[1]).to(dtype)


def _scaled(torch: Any, q: Any, scale: Any, dtype: Any) -> Any:
    """Return weights times the scale of their group of rows."""
    weights = _weights(torch, q, dtype)
    return weights * scale.to(dtype).repeat_interleave(weights.shape[0] // scale.shape[0], 0)


def _dequantized(torch: Any, a: Any, q: Any, scale: Any) -> Any:
    if scale.ndim > 1:
        return a @ _scaled(torch, q, scale, torch.float32).to(a.dtype)
    return ((a @ _weights(torch, q, a.dtype)) * scale).to(a.dtype)


def _bytes_expected(torch: Any, arrays: Arrays) -> Any:
    q, scale = arrays["q"], arrays["scale"].double()
    if scale.ndim > 1:
        return _first(arrays) @ _scaled(torch, q, scale, torch.float64)
    return _first(arrays) @ _weights(torch, q, torch.float64) * scale


def _bytes_peers(torch: Any, arrays: Arrays) -> Mapping[str, Call]:
    """Return the product of weights of 16 bits, which a caller has kept: what cuBLAS does with twice to four times."""
    wide = _weights(torch, arrays["q"], torch.bfloat16)
    return {"cuBLAS of bf16 weights": partial(torch.mm, arrays["a"], wide)}


_CONVERTED: Final = {
    f"{rows} x {columns}, {stages} stages": (rows, columns, stages)
    for rows, columns, stages in ((128, 128, 3), (64, 128, 4), (64, 64, 6), (128, 256, 2))
}


def _converted(kind: str, group: int, shape: tuple[int, int, int]) -> Callable[..., pl.LoopKernel]:
    return lambda **_: fused.on_converted_tiles(fused.dequantized(kind, group=group), *shape)


_REGISTERS: Final = {
    f"registers, {rows} x {columns}, {stages} stages{f', {parts} parts' * (parts > 1)}{f', {more}' * bool(more)}":
        (rows, columns, stages, parts, more)
    for rows, columns, stages, parts, more in (
        (16, 64, 6, 1, ""), (16, 64, 8, 1, "roles"), (16, 64, 8, 2, ""), (16, 64, 8, 4, ""), (16, 64, 6, 8, ""),
        (16, 128, 6, 4, ""), (16, 128, 6, 8, ""), (16, 128, 8, 1, "roles"),
        (64, 64, 6, 1, "roles"), (64, 64, 6, 2, ""), (64, 64, 6, 4, ""), (64, 128, 6, 4, ""),
        (128, 64, 6, 1, ""), (128, 64, 6, 1, "roles"), (128, 64, 6, 2, ""), (128, 128, 6, 1, "roles"),
        (128, 128, 6, 2, ""), (128, 128, 4, 4, ""), (128, 128, 5, 1, "boxes"),
        (256, 64, 4, 1, "roles"), (256, 128, 4, 1, "roles"), (256, 128, 4, 1, ""), (256, 128, 4, 1, "roles, boxes"),
    )
}  # fmt: skip
_MOST_BLOCKS_OF_ROWS: Final = 32


def _in_registers(kind: str, group: int, shape: tuple[int, int, int, int, str]) -> Callable[..., pl.LoopKernel]:
    rows, columns, stages, parts, more = shape

    def make(m: int, p: int, **_: int) -> pl.LoopKernel:
        if m % rows or m // rows > _MOST_BLOCKS_OF_ROWS:
            raise ValueError(f"{m} rows are not for blocks of {rows}")
        program = weights.program(kind, group=group, rows=rows, columns=columns, parts=parts, terms=p // parts)
        return weights.in_registers(program, stages, roles="roles" in more, boxes="boxes" in more)

    return make


# }}}
# {{{ products of bytes, of batches, and convolutions


def _fp8_inputs(torch: Any, sizes: Sizes) -> dict[str, Any]:
    m, n, p = (sizes[name] for name in "mnp")
    a, b = ((8 * torch.rand(shape, device=_PLACE) - 4).to(torch.float8_e4m3fn) for shape in ((m, p), (n, p)))
    return {"a": a, "b": b, "scale": 2.0**-6}


def _fp8_peers(torch: Any, arrays: Arrays) -> Mapping[str, Call]:
    scale, one = (torch.full((), value, device=_PLACE) for value in (arrays["scale"], 1.0))
    a, b = arrays["a"], arrays["b"].T
    product = getattr(torch, "_scaled_mm")  # noqa: B009 - PyTorch has no public name for it
    return {f"_scaled_mm{', fast' if fast else ''}": partial(
        product, a, b, scale_a=scale, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)
        for fast in (True, False)}  # fmt: skip


def _fp8_expected(torch: Any, arrays: Arrays) -> Any:
    return _first(arrays) @ arrays["b"].double().T * arrays["scale"]


def _batch_inputs(dtype: str, torch: Any, sizes: Sizes) -> dict[str, Any]:
    batch, m, n, p = (sizes[name] for name in ("batch", "m", "n", "p"))
    kind = getattr(torch, dtype)
    return {"a": _rand(torch, batch, m, p, dtype=kind), "b": _rand(torch, batch, p, n, dtype=kind)}


_TILE: Final = 128
"""Rows of a tile of a group."""


def _groups(columns: int, stages: int, *, persistent: bool, roles: bool = False, **_: int) -> pl.LoopKernel:
    knl = pl.assume(fused.grouped(_TILE), f"n mod {columns} = 0")
    return fused.on_groups(knl, _TILE, columns, stages, persistent=persistent, roles=roles)


def _group_inputs(torch: Any, sizes: Sizes) -> dict[str, Any]:
    tiles, groups, n, p = (sizes[name] for name in ("tiles", "groups", "n", "p"))
    group = torch.randint(0, groups, (tiles,), device=_PLACE, dtype=torch.int32).sort().values
    return {"a": _rand(torch, _TILE * tiles, p), "b": _rand(torch, groups, p, n), "group": group}


def _group_peers(torch: Any, arrays: Arrays) -> Mapping[str, Call]:
    """Return a product for each group, and PyTorch's product of groups where it has one."""
    a, b = arrays["a"], arrays["b"]
    counts = _TILE * torch.bincount(arrays["group"].long(), minlength=len(b))
    parts = torch.split(a, counts.tolist())

    def each() -> object:
        return [torch.mm(part, matrix) for part, matrix in zip(parts, b, strict=True) if len(part)]

    grouped = getattr(torch, "_grouped_mm", None)
    ends = counts.cumsum(0).to(torch.int32)
    return {"a product a group": each} | ({} if grouped is None else {"_grouped_mm": partial(grouped, a, b, offs=ends)})


def _group_expected(_: Any, arrays: Arrays) -> Any:
    return arrays["a"][:_TILE].double() @ arrays["b"][int(arrays["group"][0])].double()


def _image_inputs(torch: Any, sizes: Sizes) -> dict[str, Any]:
    images, h, w, n, channels = (sizes[name] for name in ("images", "h", "w", "n", "channels"))
    return {"a": _rand(torch, images, h + 2, w + 2, channels), "b": _rand(torch, 3, 3, channels, n) / 8}


def _convolved(torch: Any, a: Any, b: Any) -> Any:
    found = torch.nn.functional.conv2d(a.permute(0, 3, 1, 2), b.permute(3, 2, 0, 1))
    return found.permute(0, 2, 3, 1)


def _image_peers(torch: Any, arrays: Arrays) -> Mapping[str, Call]:
    """Return cuDNN's convolution, images and filters with their channels last."""
    x = arrays["a"].permute(0, 3, 1, 2)
    weights = arrays["b"].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = True
    return {"cuDNN": partial(torch.nn.functional.conv2d, x, weights)}


def _pixels(tile: tuple[int, int], columns: int, via: str = "tma", stages: int = 4) -> Callable[..., pl.LoopKernel]:
    def make(h: int, w: int, channels: int, **_: int) -> pl.LoopKernel:
        return fused.on_pixels(fused.convolution(h, w, channels), tile, columns, stages, via)

    return make


def _ready(dtype: str, result: str, **how: Any) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    """Return the schedules of the library's product."""
    made = products_of(dtype, result, **how, target=pl.CudaTarget("sm_90a"), device="H100")
    names = [name for name in made.names if "rows" not in name]

    def schedule(name: str, **sizes: int) -> pl.LoopKernel:
        found = made.valid(**sizes)[name].kernel
        assert isinstance(found, pl.LoopKernel)
        return found

    return {name: partial(schedule, name) for name in names}


# }}}

_LARGE: Final = (_square(8192), {"m": 4096, "n": 16384, "p": 4096}, {"m": 8192, "n": 8192, "p": 1024})

CHAINS: Final[Sequence[Chain]] = (
    Chain(
        "bias + GELU", _LARGE,
        {"128 x 256, persistent": _tiles(fused.gelu), "128 x 256": _tiles(fused.gelu, persistent=False),
         "128 x 256, persistent, bias ahead": _tiles(fused.gelu, columnwise=("bias",)),
         "128 x 192, roles": _tiles(fused.gelu, columns=192, roles=True),
         "128 x 192, roles, bias ahead": _tiles(fused.gelu, columns=192, roles=True, columnwise=("bias",))},
        _gelu_inputs, _gelu, lambda torch, arrays: _in_double(torch, _gelu, arrays), _eager(_gelu), _two_per_term,
    ),
    Chain(
        "gated MLP", ({"m": 4096, "n": 14336, "p": 4096}, {"m": 8192, "n": 8192, "p": 8192}, _square(4096)),
        {f"128 x {columns}{', persistent' if stays else ''}":
         _tiles(fused.gated, columns=columns, operands=("a", "gate", "up"), persistent=stays, stages=stages)
         for columns, stays, stages in ((128, True, 4), (128, False, 4), (64, True, 6))}
        | {"128 x 128, roles": _tiles(fused.gated, columns=128, operands=("a", "gate", "up"), roles=True)},
        _gated_inputs, _gated, lambda torch, arrays: _in_double(torch, _gated, arrays), _eager(_gated),
        lambda sizes: 2*_two_per_term(sizes),
    ),
    Chain(
        "layer norm", tuple({"m": m, "n": n, "p": p} for m, n, p in (
            (65536, 256, 1024), (65536, 256, 256), (16384, 1024, 1024), (16384, 1024, 4096), (8192, 2048, 2048))),
        {f"{rows} x {columns}": partial(_rows, rows, columns)
         for rows, columns in ((128, 256), (64, 256), (128, 128), (64, 128))}
        | {"128 x 128, roles, stored": partial(_stored, 128, 6, roles=True),
           "128 x 256, persistent, stored": partial(_stored, 256, 4)},
        _norm_inputs, _norm, lambda torch, arrays: _in_double(torch, _norm, arrays), _eager(_norm), _two_per_term,
    ),
    *(Chain(
        f"{word} weights", tuple({"m": m, "n": 8192, "p": 8192} for m in (16, 128, 4096)),
        {name: _converted(kind, group, shape) for name, shape in _CONVERTED.items()}
        | {name: _in_registers(kind, group, shape) for name, shape in _REGISTERS.items()},
        partial(_bytes_inputs, kind, group), _dequantized, _bytes_expected, _bytes_peers, _two_per_term,
    ) for word, kind, group in (("fp8", "float8_e4m3fn", 0), ("int4", "int4", 0),
                                ("int4, a scale for 128 rows,", "int4", 128))),
    Chain(
        "fp8 product", (_square(8192), _square(4096), {"m": 4000, "n": 3008, "p": 5008}),
        _ready("float8_e4m3fn", "bfloat16", transposed=True), _fp8_inputs, None, _fp8_expected, _fp8_peers,
        _two_per_term,
    ),
    *(Chain(
        f"{word} batch", sizes, _ready(dtype, dtype, batched=True), partial(_batch_inputs, dtype),
        None, lambda _, arrays: arrays["a"][:1].double() @ arrays["b"][:1].double(),
        lambda torch, arrays: {"bmm": partial(torch.bmm, arrays["a"], arrays["b"])}, _two_per_term,
    ) for word, dtype, sizes in (
        ("bf16", "bfloat16", ({"batch": 64, **_square(1024)}, {"batch": 256, "m": 512, "n": 512, "p": 128},
                              {"batch": 1024, **_square(128)})),
        ("fp32", "float32", ({"batch": 64, **_square(512)}, {"batch": 1024, **_square(128)})),
    )),
    Chain(
        "groups", ({"tiles": 64, "groups": 8, "n": 4096, "p": 4096}, {"tiles": 64, "groups": 32, "n": 2048, "p": 4096}),
        {f"128 x {columns}{', persistent' if stays else ''}":
         partial(_groups, columns, stages, persistent=stays)
         for columns, stages, stays in ((128, 4, True), (128, 4, False), (256, 4, False))}
        | {f"128 x {columns}, roles": partial(_groups, columns, stages, persistent=True, roles=True)
           for columns, stages in ((128, 5), (256, 3))},
        _group_inputs, None, _group_expected, _group_peers, lambda sizes: 2*_TILE*sizes["tiles"]*sizes["n"]*sizes["p"],
    ),
    Chain(
        "convolution", ({"images": 32, "h": 64, "w": 64, "n": 256, "channels": 256},
                        {"images": 64, "h": 32, "w": 32, "n": 512, "channels": 512}),
        {"8 x 16 by 256": _pixels((8, 16), 256), "8 x 16 by 128": _pixels((8, 16), 128),
         "8 x 16 by 128, cp.async": _pixels((8, 16), 128, "cp.async")},
        _image_inputs, None, lambda torch, arrays: _convolved(torch, arrays["a"][:1].double(),
                                                                     arrays["b"].double()),
        _image_peers, lambda sizes: 18 * prod(sizes.values()),
    ),
)  # fmt: skip
"""By the words of their names, what ``python -m benchmarks fused`` measures."""
