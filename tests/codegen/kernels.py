"""The schedules that the tests of code generation compile and run."""

from __future__ import annotations

from polyloop.kernel.tags import Sequential, Unroll
from polyloop.kernel.tree import Barrier, Loop, Run
from polyloop.schedule.plan import Schedule
from tests.codegen.building import array, local, private, schedule, statement, value

__all__ = [
    "axpy", "axpy_unrolled", "jacobi", "matmul", "matmul_registers", "row_normalise", "strided", "triangular",
    "triangular_plain", "two_bounds",
]  # fmt: skip


def axpy() -> Schedule:
    s = statement("S", "io:g.0, ii:l.0", "n", "0<=ii<256 and 0<=256io+ii<n", "y[256*io+ii]", "a*x[256*io+ii]", "sum")
    arguments = [value("a", "float32"), array("x", "n"), array("y", "n", output=True), value("n")]
    return schedule("axpy", "n", "n>=1", arguments, [s], (Run("S"),), local_size=(256,))


def axpy_unrolled() -> Schedule:
    i = "1024*io + 256*iu + ii"
    domain = "0<=ii<256 and 0<=iu<4 and 0<=1024io+256iu+ii<n"
    s = statement("S", "io:g.0, iu, ii:l.0", "n", domain, f"y[{i}]", f"a*x[{i}] + y[{i}]")
    arguments = [value("a", "float32"), array("x", "n"), array("y", "n", output=True), value("n")]
    tree = (Loop("iu", (Run("S"),)),)
    return schedule("axpy4", "n", "n>=1", arguments, [s], tree, local_size=(256,), tags={"iu": Unroll()})


def matmul(assumptions: str = "n>=1", tile: int = 16) -> Schedule:
    t = tile
    grid = "io:g.1, jo:g.0"
    ij = f"0<=ii<{t} and 0<=ji<{t} and 0<={t}io+ii<n and 0<={t}jo+ji<n"
    block = f"0<=io and {t}io<n and 0<=jo and {t}jo<n and 0<=k_outer and {t}k_outer<n"
    k = f"0<=k_inner<{t} and 0<={t}k_outer+k_inner<n"
    tid = f"0<=ii<{t} and 0<=ji<{t}"
    statements = [
        statement("INIT", f"{grid}, ii:l.1, ji:l.0", "n", ij, "acc", 0.0),
        statement(
            "FETCH_A", f"{grid}, k_outer, ii:l.1, ji:l.0", "n",
            f"{block} and {tid} and {t}io+ii<n and {t}k_outer+ji<n",
            "a_s[ii, ji]", f"a[{t}*io+ii, {t}*k_outer+ji]",
        ),
        statement(
            "FETCH_B", f"{grid}, k_outer, ii:l.1, ji:l.0", "n",
            f"{block} and {tid} and {t}jo+ji<n and {t}k_outer+ii<n",
            "b_s[ii, ji]", f"b[{t}*k_outer+ii, {t}*jo+ji]",
        ),
        statement(
            "UPDATE", f"{grid}, ii:l.1, ji:l.0, k_outer, k_inner", "n", f"{ij} and {k}",
            "acc", "a_s[ii, k_inner]*b_s[k_inner, ji]", "sum",
        ),
        statement("STORE", f"{grid}, ii:l.1, ji:l.0", "n", ij, f"c[{t}*io+ii, {t}*jo+ji]", "acc"),
    ]  # fmt: skip
    body = (Barrier(), Run("FETCH_A"), Run("FETCH_B"), Barrier(), Loop("k_inner", (Run("UPDATE"),)))
    tree = (Run("INIT"), Loop("k_outer", body), Run("STORE"))
    arguments = [array("a", "n, n"), array("b", "n, n"), array("c", "n, n", output=True), value("n")]
    return schedule(
        "matmul", "n", assumptions, arguments, statements, tree, local_size=(t, t),
        temporaries=[local("a_s", t, t, padding=1), local("b_s", t, t), private("acc")],
        tiles=["i_outer", "j_outer", "k_outer"],
    )  # fmt: skip


def matmul_registers(block: int = 32, depth: int = 8, each: int = 4, assumptions: str = "n>=1") -> Schedule:
    """A block of ``block/each`` squared threads, each with ``each`` squared results; ``depth`` deep tiles."""
    side = block // each
    rows = side * side // depth
    count = block // rows
    i, j = f"{block}io+{each}iy+im", f"{block}jo+{each}jx+jn"
    grid, threads = "io:g.1, jo:g.0", f"0<=iy<{side} and 0<=jx<{side}"
    ij = f"{threads} and 0<=im<{each} and 0<=jn<{each} and 0<={i}<n and 0<={j}<n"
    kc = f"0<=ki<{depth} and 0<={depth}ko+ki<n"
    outer = f"0<=ko and {depth}ko<n and 0<=io and {block}io<n and 0<=jo and {block}jo<n and {threads}"
    tid = f"({side}*iy + jx)"
    pi, pj = f"{block}*io+{each}*iy+im", f"{block}*jo+{each}*jx+jn"
    statements = [
        statement("INIT", f"{grid}, iy:l.1, jx:l.0, im, jn", "n", ij, "acc[im, jn]", 0.0),
        statement(
            "FETCH_A", f"{grid}, ko, iy:l.1, jx:l.0, ac", "n",
            f"{outer} and 0<=ac<{count} and {block}io+{rows}ac+floor(({side}iy+jx)/{depth})<n"
            f" and {depth}ko+(({side}iy+jx) mod {depth})<n",
            f"a_s[{tid} % {depth}, {rows}*ac + {tid} // {depth}]",
            f"a[{block}*io+{rows}*ac+{tid} // {depth}, {depth}*ko+{tid} % {depth}]",
        ),
        statement(
            "FETCH_B", f"{grid}, ko, iy:l.1, jx:l.0, bc", "n",
            f"{outer} and 0<=bc<{count} and {block}jo+{rows}bc+floor(({side}iy+jx)/{depth})<n"
            f" and {depth}ko+(({side}iy+jx) mod {depth})<n",
            f"b_s[{tid} % {depth}, {rows}*bc + {tid} // {depth}]",
            f"b[{depth}*ko+{tid} % {depth}, {block}*jo+{rows}*bc+{tid} // {depth}]",
        ),
        statement(
            "UPDATE", f"{grid}, iy:l.1, jx:l.0, ko, ki, im, jn", "n", f"{ij} and {kc}",
            "acc[im, jn]", f"a_s[ki, {each}*iy+im]*b_s[ki, {each}*jx+jn]", "sum",
        ),
        statement("STORE", f"{grid}, iy:l.1, jx:l.0, im, jn", "n", ij, f"c[{pi}, {pj}]", "acc[im, jn]"),
    ]  # fmt: skip

    def both(name: str) -> Loop:
        return Loop("im", (Loop("jn", (Run(name),)),))

    fetch = (Loop("ac", (Run("FETCH_A"),)), Loop("bc", (Run("FETCH_B"),)))
    body = (Barrier(), *fetch, Barrier(), Loop("ki", (both("UPDATE"),)))
    tree = (both("INIT"), Loop("ko", body), both("STORE"))
    arguments = [array("a", "n, n"), array("b", "n, n"), array("c", "n, n", output=True), value("n")]
    return schedule(
        "matmul_reg", "n", assumptions, arguments, statements, tree, local_size=(side, side),
        temporaries=[local("a_s", depth, block), local("b_s", depth, block), private("acc", each, each)],
        tags=dict.fromkeys(("im", "jn", "ac", "bc"), Unroll()), tiles=["ko"],
    )  # fmt: skip


def triangular() -> Schedule:
    domain = "0<=ii<16 and 0<=ji<16 and 0<=16io+ii<n and 0<=16jo+ji<=16io+ii"
    x = "x[16*io+ii, 16*jo+ji]"
    s = statement("S", "io:g.0, jo, ii:l.1, ji:l.0", "n", domain, x, f"{x}*2")
    tree = (Loop("jo", (Run("S"),)),)
    arguments = [array("x", "n, n", output=True), value("n")]
    return schedule("tri", "n", "n>=1", arguments, [s], tree, local_size=(16, 16), tiles=["jo"])


def triangular_plain() -> Schedule:
    s = statement("S", "i, j", "n", "0<=i<n and 0<=j<=i", "x[i, j]", "x[i, j]*2")
    t = statement("T", "i", "n", "0<=i<n", "d[i]", "x[i, i]")
    tree = (Loop("i", (Loop("j", (Run("S"),)), Run("T"))),)
    arguments = [array("x", "n, n", output=True), array("d", "n", output=True), value("n")]
    return schedule("tri_plain", "n", "n>=1", arguments, [s, t], tree)


def jacobi(assumptions: str = "n>=3") -> Schedule:
    halo = (
        "0<=hi<16 and 0<=hj<16 and 0<=hc<2 and 0<=hd<2 and 0<=16hc+hi<18 and 0<=16hd+hj<18 and 0<=16io+16hc+hi<n"
        " and 0<=16jo+16hd+hj<n and 0<=io and 0<=jo and 16io+2<n and 16jo+2<n"
    )
    inner = "0<=ii<16 and 0<=ji<16 and 1<=16io+ii+1<n-1 and 1<=16jo+ji+1<n-1"
    star = "0.25*(u_s[ii, ji+1] + u_s[ii+2, ji+1] + u_s[ii+1, ji] + u_s[ii+1, ji+2])"
    statements = [
        statement(
            "HALO", "io:g.1, jo:g.0, hc, hd, hi:l.1, hj:l.0", "n", halo,
            "u_s[16*hc+hi, 16*hd+hj]", "u[16*io+16*hc+hi, 16*jo+16*hd+hj]",
        ),
        statement("STEP", "io:g.1, jo:g.0, ii:l.1, ji:l.0", "n", inner, "v[16*io+ii+1, 16*jo+ji+1]", star),
    ]  # fmt: skip
    tree = (Loop("hc", (Loop("hd", (Run("HALO"),)),)), Barrier(), Run("STEP"))
    arguments = [array("u", "n, n"), array("v", "n, n", output=True), value("n")]
    return schedule(
        "jacobi", "n", assumptions, arguments, statements, tree, local_size=(16, 16),
        temporaries=[local("u_s", 18, 18)], tags={"hc": Unroll(), "hd": Unroll()},
    )  # fmt: skip


def row_normalise() -> Schedule:
    row = "0<=ii<128 and 0<=128io+ii<n"
    dims = "io:g.0, ii:l.0"
    statements = [
        statement("INIT", dims, "n, m", row, "s", 0.0),
        statement("ADD", f"{dims}, j", "n, m", f"{row} and 0<=j<m", "s", "x[128*io+ii, j]", "sum"),
        statement("INVERT", dims, "n, m", row, "r", "1.0/s"),
        statement("SCALE", f"{dims}, j2", "n, m", f"{row} and 0<=j2<m", "y[128*io+ii, j2]", "x[128*io+ii, j2]*r"),
        statement("KEEP", dims, "n, m", row, "sums[128*io+ii]", "s"),
    ]
    tree = (Run("INIT"), Loop("j", (Run("ADD"),)), Run("INVERT"), Loop("j2", (Run("SCALE"),)), Run("KEEP"))
    arguments = [
        array("x", "n, m"), array("y", "n, m", output=True), array("sums", "n", output=True), value("n"), value("m"),
    ]  # fmt: skip
    return schedule(
        "row_normalise", "n, m", "n>=1", arguments, statements, tree, local_size=(128,),
        temporaries=[private("s"), private("r")], tags={"j": Sequential()},
    )  # fmt: skip


def two_bounds() -> Schedule:
    statements = [
        statement("A", "i, j", "n, m", "0<=i<n and 0<=j<n", "x[i, j]", 1.0),
        statement("B", "i, j", "n, m", "0<=i<n and 2<=j<m", "y[i, j]", 2.0),
    ]
    tree = (Loop("i", (Loop("j", (Run("A"), Run("B"))),)),)
    arguments = [array("x", "n, n", output=True), array("y", "n, m", output=True), value("n"), value("m")]
    return schedule("two_bounds", "n, m", "n>=1 and m>=1", arguments, statements, tree)


def strided() -> Schedule:
    s = statement("A", "i, j", "n", "0<=i<n and (i+1) mod 3=0 and 0<=j<i", "x[i, j]", 1.0)
    tree = (Loop("i", (Loop("j", (Run("A"),)),)),)
    return schedule("strided", "n", "n>=1", [array("x", "n, n", output=True), value("n")], [s], tree)
