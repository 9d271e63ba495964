"""Records, vector types, and functions with several results."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
PARTICLE = pl.record("particle", [("pos", pl.vec.float3), ("charge", F), ("kind", np.int32)])
PACKED = np.dtype([("flag", np.int8), ("value", F), ("count", np.int16)])


def _particles(n: int, rng: np.random.Generator) -> np.ndarray:
    found = np.zeros(n, PARTICLE)
    for axis in "xyz":
        found["pos"][axis] = rng.random(n, dtype=F)
    found["charge"] = rng.random(n, dtype=F)
    found["kind"] = rng.integers(0, 3, n)
    return found


def _push_case(n: int, rng: np.random.Generator) -> Case:
    particles = _particles(n, rng)
    expected = particles.copy()
    expected["pos"]["x"] += F(0.5) * particles["charge"]
    expected["kind"] = np.where(particles["charge"] > F(0.5), particles["kind"] + 1, particles["kind"])
    return {"particles": particles}, {"particles": expected}


@example(_push_case, sizes=(1, 31, 32, 33))
def push_particles() -> pl.LoopKernel:
    """Fields of an array of records, read and written in place."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        particles[i].pos.x += 0.5*particles[i].charge {id=move}
        particles[i].kind = if(particles[i].charge > 0.5, particles[i].kind + 1, particles[i].kind) {dep=move}
        """,
        [pl.GlobalArg("particles", PARTICLE, shape="n"), ...],
        name="push_particles",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _forces_case(n: int, rng: np.random.Generator) -> Case:
    particles = _particles(n, rng)
    at = np.stack([particles["pos"][axis] for axis in "xyz"], axis=1).astype(np.float64)
    apart = at[None] - at[:, None]
    near = 1 / np.sqrt((apart**2).sum(-1) + 0.25) ** 3
    total = (particles["charge"].astype(np.float64)[None, :, None] * near[..., None] * apart).sum(1)
    expected = np.zeros(n, pl.vec.float3)
    for number, axis in enumerate("xyz"):
        expected[axis] = total[:, number]
    return {"particles": particles}, {"force": expected}


@example(_forces_case, sizes=(1, 15, 33), rtol=1e-3)
def forces() -> pl.LoopKernel:
    """All-pairs forces: vectors in temporaries, records in a tile that the block shares."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        source(k) := particles[k]
        for i
            <float3> total = 0 {id=begin}
            for j
                <> apart = source(j).pos - particles[i].pos
                <> near = rsqrt(apart.x*apart.x + apart.y*apart.y + apart.z*apart.z + 0.25)
                total = total + source(j).charge*near**3*apart {id=add, dep=begin}
            end
            force[i] = total {dep=add}
        end
        """,
        [pl.GlobalArg("particles", PARTICLE, shape="n"), pl.GlobalArg("force", pl.vec.float3, shape="n"), ...],
        name="forces",
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 16)
    return pl.precompute(knl, "source", ["j_inner"])


def _tile_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n, 4), dtype=F).view(pl.vec.float4)[..., 0]
    expected = np.zeros((n, n), pl.vec.float4)
    for axis in "xyzw":
        expected[axis] = a.T[axis] * F(2)
    return {"a": a}, {"b": expected}


@example(_tile_case, sizes=(1, 16, 17))
def transpose_of_vectors() -> pl.LoopKernel:
    """float4 through a tile in shared memory."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i, j] = 2*a[j, i]",
        [pl.GlobalArg("a, b", pl.vec.float4, shape="n, n"), ...],
        name="transpose_of_vectors",
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "a", ["j_inner", "i_inner"])


def _blend_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.random((2, n, 4), dtype=F).view(pl.vec.float4)[..., 0]
    expected, low = np.zeros(n, pl.vec.float4), np.zeros(n, pl.vec.float4)
    for axis in "xyzw":
        expected[axis] = np.maximum(a[axis] * F(0.25) - b[axis] / F(3), 0) + np.sqrt(np.abs(a[axis] - b[axis]))
        low[axis] = min(b[axis].min(), a[axis].min())
    expected["w"] = 1
    return {"a": a, "b": b}, {"c": expected, "low": low[:1]}


@example(_blend_case)
def blend_colours() -> pl.LoopKernel:
    """Arithmetic on vectors with vectors and scalars, functions of each component, a component set."""
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        c[i] = max(-a[i]*(-0.25) - b[i]/3, 0) + sqrt(abs(a[i] - b[i])) {id=all}
        c[i].w = 1 {dep=all}
        low[0] = min(j, min(a[j], b[j]))
        """,
        [pl.GlobalArg("a, b, c", pl.vec.float4, shape="n"), pl.GlobalArg("low", pl.vec.float4, shape="1"), ...],
        name="blend_colours",
    )


def _packed_case(n: int, rng: np.random.Generator) -> Case:
    a = np.zeros(n, PACKED)
    a["flag"], a["value"], a["count"] = rng.integers(0, 2, n), rng.random(n, dtype=F), rng.integers(0, 9, n)
    expected = a.copy()
    expected["value"] = a["value"] * a["flag"]
    return {"a": a}, {"b": expected}


@example(_packed_case, sizes=(1, 7, 64))
def packed_records() -> pl.LoopKernel:
    """A record without gaps, as NumPy makes them by default; a record held in a temporary."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> t = a[i] {id=load}
        t.value = t.value*t.flag {id=change, dep=load}
        b[i] = t {dep=change}
        """,
        [pl.GlobalArg("a, b", PACKED, shape="n"), ...],
        name="packed_records",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _rotate_case(n: int, rng: np.random.Generator) -> Case:
    angle, x, y = rng.random((3, n), dtype=F)
    sine, cosine = np.sin(angle), np.cos(angle)
    return {"angle": angle, "x": x, "y": y}, {"u": cosine * x - sine * y, "v": sine * x + cosine * y}


@example(_rotate_case)
def rotate() -> pl.LoopKernel:
    """A function with two results."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> sine, cosine = sincos(angle[i])
        u[i] = cosine*x[i] - sine*y[i]
        v[i] = sine*x[i] + cosine*y[i]
        """,
        [pl.GlobalArg("angle, x, y", F, shape="n"), ...],
        name="rotate",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
