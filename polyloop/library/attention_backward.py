"""The backward pass of attention: gradients of q, k and v by three programs, whose products run on tensor cores.

Scores and weights are computed anew from q, k and ``lse``.  One program has blocks of queries and a loop over tiles of
keys, and adds up dq; another has blocks of keys and a loop over tiles of queries, and adds up dk and dv.  Nothing is
added atomically: the gradients of two calls are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype
from polyloop.library.fragments import check_heads, in_fragments, in_panels, short_name
from polyloop.library.records import ready
from polyloop.library.scores import LOG2_E, Scores
from polyloop.transform.together import as_one

__all__ = [
    "VARIANTS", "Gradients", "Variant", "by_groups", "by_warps", "delta_program", "delta_scheduled", "gradients",
    "in_roles", "program", "scheduled",
]

_LN_2: Final = "0.6931471805599453f"


def delta_program(dtype: Any = "bfloat16", head: int = 128, group: int = 1) -> pl.LoopKernel:
    """Return the sums of outputs times their gradients: ``delta[h, g, i] = sum(d, d_o[h, g, i, d]*o[h, g, i, d])``."""
    element = to_dtype(dtype)
    shape = f"heads, {group}, n"
    return pl.make_kernel(
        f"{{[h, g, i, d]: 0 <= h < heads and 0 <= g < {group} and 0 <= i < n and 0 <= d < {head}}}",
        "delta[h, g, i] = sum(d, cast(float32, d_o[h, g, i, d])*cast(float32, o[h, g, i, d]))  {id=delta}",
        [pl.GlobalArg("o, d_o", element, shape=f"{shape}, {head}"),
         pl.GlobalArg("delta", np.float32, shape=shape), ...],
        name="attention_delta",
        assumptions="heads >= 1 and n >= 1",
    )


def delta_scheduled(dtype: Any = "bfloat16", head: int = 128, group: int = 1) -> pl.LoopKernel:
    """Return :func:`delta_program` with a group of lanes a query, which load 16 bytes each."""
    lanes = min(head // 8, 32)
    knl = delta_program(dtype, head, group)
    knl = pl.split_iname(knl, "i", 256 // lanes, outer_iname="ib", inner_iname="ii", outer_tag="g.0", inner_tag="l.1")
    knl = pl.split_iname(knl, "d", 8, outer_iname="part", inner_iname="lane", inner_tag="vec")
    return pl.tag_inames(knl, "g:g.1, h:g.2, part:l.0")


def program(
    of: Iterable[str] = ("dk", "dv"), dtype: Any = "bfloat16", head: int = 128, *, group: int = 1, rows: int = 128,
    columns: int = 64, target: pl.Target | None = None, scores: Scores | None = None,
) -> pl.LoopKernel:  # fmt: skip
    """Return gradients of attention as they are written: sums over tiles, for blocks of rows.

    ::

        for h, g, b, i:                                          # dq: query of a block
            for t:                                               # tile of keys
                w[j] = exp2(scale*sum(c, q[i, c]*k[j, c]) - log2(e)*lse[i])
                ds[j] = w[j]*(sum(e, d_o[i, e]*v[j, e]) - delta[i])
                dq_sum[d] = dq_sum[d] + sum(j, ds[j]*k[j, d])
            dq[i, d] = ln(2)*scale*dq_sum[d]
        for h, b, i:                                             # dk, dv: key of a block
            for g, t:                                            # tile of queries
                w[j] = exp2(scale*sum(c, k[i, c]*q[j, c]) - log2(e)*lse[j])
                dv_sum[d] = dv_sum[d] + sum(j, w[j]*d_o[j, d])
                ds[j] = w[j]*(sum(e, v[i, e]*d_o[j, e]) - delta[j])
                dk_sum[d] = dk_sum[d] + sum(j, ds[j]*q[j, d])
            dv[i, d] = dv_sum[d];  dk[i, d] = ln(2)*scale*dk_sum[d]

    Parameters
    ----------
    of
        The gradients: ``"dq"`` alone, or ``"dk"``, ``"dv"`` or both.
    dtype, head, group, scores
        As for :func:`polyloop.library.attention.program`.
    rows, columns
        Of a block, and of a tile: queries and keys of dq, keys and queries of dk and dv.

    Returns
    -------
    LoopKernel
        Arguments are those of the forward pass, ``d_o``, the gradient of o, and ``delta`` by ``delta_program``.
    """
    element, scores, wanted = to_dtype(dtype), scores or Scores(), tuple(of)
    _check(wanted)
    is_dq = wanted == ("dq",)
    word, causal = dtype_name(element), scores.causal
    own, others = ("n", "n" if causal else "m") if is_dq else ("n" if causal else "m", "n")
    first = f"n - {rows} - {rows}*b" if is_dq and causal else f"{rows}*b"  # long rows first
    begin = f"{rows}*b + " if causal and not is_dq else ""
    row = f"{first} + i"
    column, beside, term, last = (f"{begin}{columns}*t + {iname}" for iname in ("j", "l", "jk", "lk"))
    query, key = (row, column) if is_dq else (column, row)
    tiles = f"t >= 0 and {begin}{columns}*t < {others}"
    if causal and is_dq:
        tiles = f"t >= 0 and {columns}*t < {first} + {rows}"
        tiles += f" and {columns}*t + {columns} > {first} - {scores.window} + 1" if scores.window else ""
    elif scores.window:
        tiles += f" and {columns}*t < {rows + scores.window - 1}"
    held, moved = ("q", "d_o"), ("k", "v")
    (left, right), (left_grad, right_grad) = zip(held, moved, strict=True) if is_dq else zip(moved, held, strict=True)

    def at(array: str, index: str, along: str) -> str:
        return f"{array}[h, {'g, ' if array in held else ''}{index}, {along}]"

    has_ds = is_dq or "dk" in wanted
    low = "low[i]" if is_dq else f"{LOG2_E}*lse[h, g, {column}]"
    away = "away[i]" if is_dq else f"delta[h, g, {beside}]"
    bent = "*(1 - bend[i, l]*bend[i, l])" if scores.cap else ""
    lines = [
        f"<float32> s[i, j] = sum(c, {at(left, row, 'c')}*{at(right, column, 'c')})   {{id=s}}",
        f"<float32> dp[i, l] = sum(e, {at(left_grad, row, 'e')}*{at(right_grad, beside, 'e')})   {{id=dp}}" * has_ds,
        scores.statements("i, j", query, key),
        scores.masks("i, j", query, key),
        f"<float32> w[i, j] = exp2({scores.factor}s[i, j] - {low})        {{id=w, precision=fast}}",
    ]
    if "dv" in wanted:
        lines += [f"<{word}> p[i, j] = w[i, j]          {{id=p}}",
                  f"dv_sum[i, d] = dv_sum[i, d] + sum(jk, p[i, jk]*{at('d_o', term, 'd')})      {{id=dv_sum}}"]
    if has_ds:
        name = wanted[0] if is_dq else "dk"
        lines += [f"<{word}> ds[i, l] = w[i, l]*(dp[i, l] - {away}){bent}          {{id=ds}}",
                  f"{name}_sum[i, f] = {name}_sum[i, f] + sum(lk, ds[i, lk]*{at(right, last, 'f')})"
                  f"      {{id={name}_sum}}"]
    terms = {"dv": "d", "dk": "f", "dq": "f"}
    across, along = ["j", *["l", "lk"] * has_ds], ["c", *["e", "f"] * has_ds]
    if "dv" in wanted:
        across, along = [*across, "jk"], [*along, "d"]
    starts = [f"<float32> {name}_sum[i, {terms[name]}] = 0     {{id={name}_0}}" for name in wanted]
    if is_dq:
        starts += [f"<float32> low[i] = {LOG2_E}*lse[h, g, {row}]    {{id=low}}",
                   f"<float32> away[i] = delta[h, g, {row}]          {{id=away}}"]
    ends = [f"{name}[h, {'g, ' * is_dq}{row}, {terms[name]}] = "
            f"{'' if name == 'dv' else f'{_LN_2}*scale*'}{name}_sum[i, {terms[name]}]     {{id={name}}}"
            for name in wanted]  # fmt: skip
    around, inside = ("h, g, b", "t") if is_dq else ("h, b", "g, t")
    shapes = {"n": f"heads, {group}, n", "m": f"heads, {'n' if causal else 'm'}"}
    of_queries = ["q", "d_o"] if has_ds or "dv" in wanted else ["q"]
    of_keys = ["k", "v"] if has_ds else ["k"]
    outputs = {"dq": of_queries, "dk": of_keys, "dv": of_keys}
    for name in wanted:
        outputs[name].append(name)
    sizes = f"n mod {rows if is_dq else columns} = 0" if not causal else f"n mod {max(rows, columns)} = 0"
    return pl.make_kernel(
        [
            f"{{[h, g]: 0 <= h < heads and 0 <= g < {group}}}",
            f"{{[b]: 0 <= b and {rows}*b < {own}}}",
            f"{{[t]: {tiles}}}",
            f"{{[i]: 0 <= i < {rows}}}",
            *(f"{{[{iname}]: 0 <= {iname} < {columns}}}" for iname in across),
            *(f"{{[{iname}]: 0 <= {iname} < {head}}}" for iname in along),
        ],
        "\n".join([f"for {around}", scores.known, *starts, f"for {inside}", *lines, "end", *ends, "end"]),
        [
            pl.GlobalArg(", ".join(of_queries), element, shape=f"{shapes['n']}, {head}"),
            pl.GlobalArg(", ".join(of_keys), element, shape=f"{shapes['m']}, {head}"),
            pl.GlobalArg("lse, delta" if has_ds else "lse", np.float32, shape=shapes["n"]),
            pl.ValueArg("scale", np.float32),
            *scores.arguments(element, group, "n" if causal else "m"),
            ...,
        ],
        name=f"attention_{'_'.join(wanted)}",
        target=target,
        silenced_warnings=["not-vectorized"] if scores.bias and not is_dq else [],  # a bias is read by columns
        assumptions=f"heads >= 1 and n >= 1 and {sizes}"
                    + ("" if causal else f" and m >= 1 and m mod {columns if is_dq else rows} = 0"),
    )  # fmt: skip


def _check(wanted: tuple[str, ...]) -> None:
    """Raise ``bad-value`` unless one program has the gradients *wanted*."""
    if wanted not in (("dq",), ("dk",), ("dv",), ("dk", "dv")):
        raise pl.ArgumentError("attention", None, [pl.Diagnostic(
            "bad-value", f"no program has the gradients {', '.join(wanted) or '(none)'} alone", (),
            ("ask for ('dq',), ('dk', 'dv'), ('dk',) or ('dv',)",))])


@dataclass(frozen=True)
class _Form:
    """Facts of a program that a schedule asks for: sizes of blocks, and its products with their inames.

    ``scores`` and ``sums`` are instruction -> iname of columns, iname of terms.
    """

    rows: int
    columns: int
    head: int
    word: str
    scores: Mapping[str, tuple[str, str]]
    sums: Mapping[str, tuple[str, str]]
    causal: bool

    @property
    def is_dq(self) -> bool:
        """True if blocks are of queries."""
        return "dq_sum" in self.sums

    @property
    def grid(self) -> str:
        """The axes of blocks."""
        return "b:g.0, g:g.1, h:g.2" if self.is_dq else "b:g.0, h:g.1"


_SCORES: Final = {"s": ("j", "c"), "dp": ("l", "e")}
_SUMS: Final = {"dv_sum": ("d", "jk"), "dk_sum": ("f", "lk"), "dq_sum": ("f", "lk")}
_HELD: Final = ("low", "away", "s", "bend", "dp", "w", "p", "ds")
"""Temporaries of a program but for sums, in registers."""


def _form(knl: pl.LoopKernel, causal: bool) -> _Form:
    scores, sums = ({name: own for name, own in these.items() if name in knl.temporaries} for these in (_SCORES, _SUMS))
    (rows, columns), (_, head) = (knl.temporaries[name].shape or () for name in ("s", next(iter(sums))))
    assert isinstance(rows, int) and isinstance(columns, int) and isinstance(head, int), "numbers"  # noqa: PT018
    return _Form(rows, columns, head, short_name(knl, "k"), scores, sums, causal)


@as_one
def by_groups(knl: pl.LoopKernel, stages: int = 2, *, causal: bool = False) -> pl.LoopKernel:
    """Return gradients in blocks of groups of four warps, 64 rows each, by ``wgmma``.

    Weights and gradients of scores, of 16 bits, are the first operands of the second products, from registers.  Tiles
    of the loop are fetched *stages* - 1 ahead, and serve both products.
    """
    form = _form(knl, causal)
    knl = pl.tag_inames(knl, form.grid)
    knl = pl.split_iname(knl, "i", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    for name, (_, term) in form.scores.items():
        knl = pl.split_iname(knl, term, 64, outer_iname=f"{term}_outer", inner_iname=f"{term}_panel", outer_tag="unr")
        knl = pl.split_iname(
            knl, f"{term}_panel", 16, outer_iname=f"{term}_step", inner_iname=f"{term}_in", outer_tag="unr")
        knl = pl.tensorize(knl, f"id:{name}", f"wgmma_m64n{form.columns}k16_{form.word}")
    knl = in_fragments(knl, (8, 2, 4), *_HELD)
    for name, (_, term) in form.sums.items():
        knl = pl.split_iname(knl, term, 16, outer_iname=f"{term}_step", inner_iname=f"{term}_in", outer_tag="unr")
        knl = pl.tensorize(knl, f"id:{name}", f"wgmma_m64n{form.head}k16_{form.word}", from_registers=True)
    knl = in_fragments(knl, (8, 2, 4), *form.sums)
    parts = ("wg, ii_lane_0, ii_reg, ii_lane_2", {"reg_0": 1, "lane": 2, "reg_2": 8}, ("outer", "step", "in"))
    knl = _fetched(knl, form, *parts, partial(in_panels, head=form.head))
    return _peeled(pl.pipeline(knl, "t", stages=stages, via="tma"), form, stages - 1)


def in_roles(knl: pl.LoopKernel, copying: int = 24, computing: int = 240) -> pl.LoopKernel:
    """Return gradients by groups of warps, in which a thread of its own fetches the tiles of the loop.

    As :func:`polyloop.library.attention.in_roles`.
    """
    moved = ("k", "v") if "dq_sum" in knl.temporaries else ("q", "d_o", "lse", "delta")
    tiles = ", ".join(f"{name}_tile" for name in moved if f"{name}_tile" in knl.temporaries)
    return pl.assign_roles(knl, {"load": tiles, "compute": "*"}, registers={"load": copying, "compute": computing})


@as_one
def by_warps(knl: pl.LoopKernel, *, causal: bool = False) -> pl.LoopKernel:
    """Return gradients in blocks of warps, 16 rows each, by ``mma.sync``: for devices before Hopper."""
    form = _form(knl, causal)
    knl = pl.tag_inames(knl, form.grid)
    knl = pl.split_iname(knl, "i", 16, outer_iname="warp", inner_iname="ii", outer_tag="l/32")
    for products, held in ((form.scores, _HELD), (form.sums, tuple(form.sums))):
        for name, (column, term) in products.items():
            knl = pl.split_iname(
                knl, column, 8, outer_iname=f"{column}_outer", inner_iname=f"{column}_in", outer_tag="unr")
            knl = pl.split_iname(knl, term, 16, outer_iname=f"{term}_step", inner_iname=f"{term}_in", outer_tag="unr")
            knl = pl.tensorize(
                knl, f"id:{name}", f"mma_m16n8k16_{form.word}", from_registers=products is form.sums)
        knl = in_fragments(knl, (8, 2), *held)
    parts = ("warp, ii_lane, ii_reg", {"in_reg": 1, "in_lane": 2, "outer": 8}, ("step", "in"))
    knl = _fetched(knl, form, *parts, pl.swizzle)
    return _peeled(pl.pipeline(knl, "t", stages=2, via="cp.async"), form, 1)


def _fetched(
    knl: pl.LoopKernel, form: _Form, rows: str, column: Mapping[str, int], term: Sequence[str],
    laid_out: Callable[[pl.LoopKernel, str], pl.LoopKernel],
) -> pl.LoopKernel:  # fmt: skip
    """Return *knl* with tiles in shared memory, *laid_out* for matrix instructions.

    *rows* are the inames of a row; *column* has the parts of a column with their weights, *term* those of a term.
    """
    held, moved = (("q", "d_o"), ("k", "v")) if form.is_dq else (("k", "v"), ("q", "d_o"))
    for name, (_, own) in zip(held, form.scores.values(), strict=False):
        sweep = ", ".join([rows, *(f"{own}_{part}" for part in term)])
        around = "h, g, b" if form.is_dq else "h, b"
        knl = pl.add_prefetch(knl, name, sweep, fetch_outer_inames=around, temporary_name=f"{name}_tile", vec=8)
        knl = laid_out(knl, f"{name}_tile")
    begin = "" if form.is_dq else "g, " + f"{form.rows}*b + " * form.causal
    across = " + ".join(f"{weight}*j_{part}" for part, weight in column.items())
    for name in moved:
        knl = pl.add_prefetch(
            knl, name, rows, fetch_outer_inames="h, g, b, t", temporary_name=f"{name}_tile", vec=8,
            footprint_subscripts=[f"h, {begin}{form.columns}*t + {across}, :"])  # fmt: skip
        knl = laid_out(knl, f"{name}_tile")
    for name, own in () if form.is_dq else (("lse", "j"), ("delta", "l")):
        if name in knl.arrays():
            sweep = ", ".join(f"{own}_{part}" for part in column)
            knl = pl.add_prefetch(
                knl, name, sweep, fetch_outer_inames="h, g, b, t", temporary_name=f"{name}_tile",
                temporary_address_space="local", vec=4)  # fmt: skip
    return knl


def _peeled(knl: pl.LoopKernel, form: _Form, ahead: int) -> pl.LoopKernel:
    """Return *knl* with tiles on the diagonal set apart, which have a mask; copies begin iterations *ahead*.

    They are the last ones of a block of queries, and the first ones of a block of keys.  More than two stay in the
    loop, which then has the mask: as many copies of its text take registers.
    """
    diagonal = -(-form.rows // form.columns) if form.causal else 0
    diagonal = diagonal if diagonal <= _PEELED else 0
    front, back = (0, diagonal) if form.is_dq else (diagonal, 0)
    return pl.peel(knl, "t", front=ahead + front, back=back)


_PEELED: Final = 2


@dataclass(frozen=True)
class Variant:
    """A schedule: by groups of warps or by warps, rows of a block, columns of a tile, and tiles in shared memory.

    In those with roles, a thread of its own fetches tiles.
    """

    groups: bool
    rows: int
    columns: int
    stages: int = 2
    roles: bool = False


VARIANTS: Final[Mapping[str, Variant]] = {
    "wgmma, 128 x 64": Variant(True, 128, 64),
    "wgmma, 128 x 64, roles": Variant(True, 128, 64, roles=True),
    "wgmma, 128 x 32": Variant(True, 128, 32),
    "wgmma, 64 x 64": Variant(True, 64, 64),
    "mma, 64 x 64": Variant(False, 64, 64),
    "mma, 64 x 32": Variant(False, 64, 32),
}
"""By name."""


def scheduled(
    of: Iterable[str], name: str, dtype: Any = "bfloat16", head: int = 128, *, group: int = 1,
    scores: Scores | None = None,
) -> pl.LoopKernel:  # fmt: skip
    """Return :func:`program` by the schedule called *name* in ``VARIANTS``.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``, ``bad-value``: another type, or a head of other than 64, 128 or 256 elements.
    """
    check_heads("attention", dtype, head, group)
    found, scores = VARIANTS[name], scores or Scores()
    target = pl.CudaTarget("sm_90a") if found.groups else None
    knl = program(of, dtype, head, group=group, rows=found.rows, columns=found.columns, target=target, scores=scores)
    if not found.groups:
        return by_warps(knl, causal=scores.causal)
    return _by_groups(knl, found, causal=scores.causal)


@as_one
def _by_groups(knl: pl.LoopKernel, variant: Variant, *, causal: bool) -> pl.LoopKernel:
    knl = by_groups(knl, variant.stages, causal=causal)
    return in_roles(knl) if variant.roles else knl


@dataclass(frozen=True)
class Gradients:
    """The backward pass of attention: programs that are called one after another.

    Attributes
    ----------
    programs
        ``"delta"``, which computes the sums that the others begin with, and a dispatcher for each program of gradients.
    arguments
        The names of those of each program.
    """

    programs: Mapping[str, pl.Dispatcher]
    arguments: Mapping[str, tuple[str, ...]]

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Return ``dq``, ``dk`` and ``dv`` for the arguments of the forward pass, its ``o`` and ``lse``, and ``d_o``.

        Raises
        ------
        ArgumentError
            ``missing-argument``, and others as the programs, each of which takes some of them.
        """
        known = dict(arguments)
        for program, run in self.programs.items():
            found = run(**{name: known[name] for name in self.arguments[program] if name in known})
            known |= {name: found[name] for name in ("delta", "dq", "dk", "dv") if name in program}
        return {name: known[name] for name in ("dq", "dk", "dv")}


@cache
def gradients(
    dtype: Any = "bfloat16", head: int = 128, *, causal: bool = False, group: int = 1, scores: Scores | None = None,
    target: pl.Target | None = None, device: str | None = None,
) -> Gradients:  # fmt: skip
    """Return the backward pass of :func:`polyloop.library.attention.attention` with these parameters.

    ::

        run = attention("bfloat16", 128, causal=True, lse=True)(q=q, k=k, v=v, scale=scale)
        found = gradients("bfloat16", 128, causal=True)(q=q, k=k, v=v, o=run.o, lse=run.lse, d_o=d_o, scale=scale)
        found["dq"], found["dk"], found["dv"]

    Numbers of queries and keys are multiples of 64.  dk and dv are sums over the heads of queries of a head of keys; a
    bias has no gradient here.  Heads of 256 elements have a program for dk and one for dv: both do not fit registers.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``, ``bad-value``: another type, or a head of other than 64, 128 or 256 elements.

    Notes
    -----
    Source: T. Dao, "FlashAttention-2", 2023, https://arxiv.org/abs/2307.08691; without its atomic additions.
    """
    check_heads("attention", dtype, head, group)
    element, scores = to_dtype(dtype), scores or Scores(causal=causal)
    base = delta_program(dtype, head, group)
    made = {"delta": pl.dispatch(base, {"lanes": delta_scheduled(dtype, head, group)}, target=target, device=device)}
    takes = {"delta": tuple(argument.name for argument in base.arguments)}
    for of in (("dq",), ("dk", "dv")) if head < _WIDE else (("dq",), ("dk",), ("dv",)):
        base, title = program(of, dtype, head, group=group, rows=64, columns=32, scores=scores), ", ".join(of)
        recipes = {
            name: partial(scheduled, of, name, dtype, head, group=group, scores=scores) for name in VARIANTS}
        kernel = f"attention of {head}{', causal' * scores.causal}: {title}"
        made[title] = ready(kernel, element, base, recipes, target, device, vouched=True)
        takes[title] = tuple(argument.name for argument in base.arguments)
    return Gradients(made, takes)


_WIDE: Final = 256
"""Elements of a head of which registers have no room for two sums."""
