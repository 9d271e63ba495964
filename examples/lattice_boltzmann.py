"""A step of the lattice Boltzmann method (D2Q9): nine populations are pulled from the neighbours and collide."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"m": 1, "n": 1}, {"m": 3, "n": 127}, {"m": 2, "n": 128}, {"m": 4, "n": 129}]
VELOCITIES = [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1)]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4


def program() -> pl.LoopKernel:
    """Build the text: an instruction for each population to load, and one to store it."""
    lines = ["pull(c) := 3*c + 4.5*c*c", "for y, x"]
    for q, (vy, vx) in enumerate(VELOCITIES):
        lines.append(f"<> f{q} = f[{q}, y + {1 - vy}, x + {1 - vx}]")
    lines.append("<> rho = " + " + ".join(f"f{q}" for q in range(9)))
    lines.append("<> ux = (f1 - f3 + f5 - f6 - f7 + f8)/rho")
    lines.append("<> uy = (f2 - f4 + f5 + f6 - f7 - f8)/rho")
    lines.append("<> still = 1 - 1.5*(ux*ux + uy*uy)")
    for q, (vy, vx) in enumerate(VELOCITIES):
        along = {-1: "-{}", 0: "", 1: "{}"}
        c = " + ".join(filter(None, (along[vx].format("ux"), along[vy].format("uy"))))
        equilibrium = f"{WEIGHTS[q]!r}*rho*(still{f' + pull({c})' if c else ''})"
        lines.append(f"g[{q}, y + 1, x + 1] = f{q} - omega*(f{q} - {equilibrium})")
    lines.append("end")
    return pl.make_kernel(
        "{[y, x]: 0 <= y < m and 0 <= x < n}",
        "\n".join(lines),
        [pl.GlobalArg("f, g", np.float32, shape="9, m + 2, n + 2"), pl.ValueArg("omega", np.float32), ...],
        name="lattice_boltzmann",
        assumptions="m >= 1 and n >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "x", 128, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "y:g.1")


def inputs(rng: np.random.Generator, m: int, n: int) -> dict[str, Any]:
    f = 1 + rng.random((9, m + 2, n + 2), np.float32)
    return {"f": f, "g": f.copy(), "omega": np.float32(0.7)}


def expected(f: Any, g: Any, omega: Any) -> dict[str, Any]:
    m, n = f.shape[1] - 2, f.shape[2] - 2
    pulled = np.stack([f[q, 1 - vy : 1 - vy + m, 1 - vx : 1 - vx + n] for q, (vy, vx) in enumerate(VELOCITIES)])
    rho = pulled.sum(0)
    uy, ux = (np.tensordot([v[axis] for v in VELOCITIES], pulled, 1) / rho for axis in (0, 1))
    g = g.copy()
    for q, (vy, vx) in enumerate(VELOCITIES):
        cu = vx * ux + vy * uy
        equilibrium = WEIGHTS[q] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (ux**2 + uy**2))
        g[q, 1:-1, 1:-1] = pulled[q] - omega * (pulled[q] - equilibrium)
    return {"g": g}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), m=100, n=300)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.g, wanted["g"], rtol=1e-4, atol=1e-5)
    print("lattice_boltzmann: 100 x 300 cells agree with NumPy")
