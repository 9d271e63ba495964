"""Threads that pass values to each other: within a warp, within a block, through two buffers in turn."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example, on_threads

F = np.float32


def _fields_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 8, 32), dtype=F)
    return {"a": a}, {"b": a.reshape(n, 8, 8, 4).transpose(0, 1, 3, 2).reshape(n, 8, 32)}


@example(_fields_case)
def fields_to_rows_within_a_warp() -> pl.LoopKernel:
    """Each warp has 8 records of 4 fields and stores field after field."""
    knl = pl.make_kernel(
        "{[g, w, lane]: 0 <= g < n and 0 <= w < 8 and 0 <= lane < 32}",
        """
        for g
            for w, lane
                <> t[w, lane] = a[g, w, lane] {id=load}
            end
            for w, lane
                b[g, w, lane] = t[w, 4*(lane % 8) + lane // 8] {id=store}
            end
        end
        """,
        [pl.GlobalArg("a, b", F), ...],
        name="fields_to_rows_within_a_warp",
    )
    return pl.tag_inames(knl, "g:g.0, w:l.1, lane:l.0")


def _tile_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 4, 32), dtype=F)
    return {"a": a}, {"b": np.roll(a[:, ::-1, ::-1], 1, axis=2)}


@example(_tile_case)
def turned_tile_with_barriers_of_both_kinds() -> pl.LoopKernel:
    """Rows are reversed among warps, which takes the block; then lanes within each row, which takes a warp."""
    knl = pl.make_kernel(
        "{[g, w, lane]: 0 <= g < n and 0 <= w < 4 and 0 <= lane < 32}",
        """
        for g
            for w, lane
                <> rows[w, lane] = a[g, w, lane]
            end
            for w, lane
                <> turned[w, lane] = rows[3 - w, lane]
            end
            for w, lane
                b[g, w, lane] = turned[w, (32 - lane) % 32]
            end
        end
        """,
        [pl.GlobalArg("a, b", F), ...],
        name="turned_tile_with_barriers_of_both_kinds",
    )
    return pl.tag_inames(knl, "g:g.0, w:l.1, lane:l.0")


def _half_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 3, 16), dtype=F)
    return {"a": a}, {"b": a[:, :, ::-1] + a}


@example(_half_case)
def rows_of_half_a_warp() -> pl.LoopKernel:
    """A block of 48 threads: two rows share the first warp, and the second warp is half empty."""
    knl = pl.make_kernel(
        "{[g, y, x]: 0 <= g < n and 0 <= y < 3 and 0 <= x < 16}",
        """
        for g
            for y, x
                <> t[y, x] = a[g, y, x]
            end
            for y, x
                b[g, y, x] = t[y, 15 - x] + t[y, x]
            end
        end
        """,
        [pl.GlobalArg("a, b", F), ...],
        name="rows_of_half_a_warp",
    )
    return pl.tag_inames(knl, "g:g.0, y:l.1, x:l.0")


def _steps_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 64), dtype=F)
    left, right = np.roll(a, 1, axis=1), np.roll(a, -1, axis=1)
    return {"a": a}, {"b": left + right}


@example(_steps_case, sizes=(1, 2, 3, 7))
def neighbours_through_two_buffers() -> pl.LoopKernel:
    """Double buffering written by hand: the buffer of the step before is free, so one barrier a step is enough."""
    knl = pl.make_kernel(
        "{[k, x]: 0 <= k < n and 0 <= x < 64}",
        """
        for k
            for x
                <> t[k % 2, x] = a[k, x] {id=put}
            end
            for x
                b[k, x] = t[k % 2, (x + 63) % 64] + t[k % 2, (x + 1) % 64] {id=get}
            end
        end
        """,
        [pl.GlobalArg("a, b", F), ...],
        name="neighbours_through_two_buffers",
    )
    return pl.tag_inames(knl, "x:l.0")


@example(_steps_case, sizes=(1, 2, 3, 7))
def next_step_loaded_ahead() -> pl.LoopKernel:
    """A pipeline of depth 2: the next step is loaded while this one is used, one barrier a step."""
    knl = pl.make_kernel(
        "{[k, x, x0]: 0 <= k < n and 0 <= x, x0 < 64}",
        """
        <> t[0, x0] = a[0, x0] {id=first}
        for k
            for x
                t[(k + 1) % 2, x] = a[k + 1, x] {id=ahead, if=k + 1 < n}
                b[k, x] = t[k % 2, (x + 63) % 64] + t[k % 2, (x + 1) % 64] {id=use}
            end
        end
        """,
        [pl.GlobalArg("a, b", F, shape="n, 64"), ...],
        assumptions="n >= 1",
        name="next_step_loaded_ahead",
    )
    return pl.tag_inames(knl, "x:l.0, x0:l.0")


def _mean_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 8), dtype=F)
    weights = a.sum(1)
    return {"a": a}, {"w": weights, "b": (a[:, 0] + a[:, 7] * 2) * weights[::-1]}


@example(_mean_case)
def corners_kept_across_launches() -> pl.LoopKernel:
    """Two values of each row stay with their thread while all blocks exchange sums of rows."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < 8}",
        """
        ends[i, 0] = a[i, 0] {id=low}
        ends[i, 1] = a[i, 7]*2 {id=high}
        w[i] = sum(j, a[i, j]) {id=sums}
        b[i] = (ends[i, 0] + ends[i, 1])*w[n - 1 - i] {id=use}
        """,
        [
            pl.GlobalArg("a", F, shape="n, 8"),
            pl.GlobalArg("w, b", F, shape="n"),
            pl.TemporaryVariable("ends", F, shape="n, 2", address_space="private"),
            ...,
        ],
        name="corners_kept_across_launches",
    )
    return pl.save_and_reload_temporaries(on_threads(knl))
