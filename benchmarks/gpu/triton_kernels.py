"""Kernels in Triton's language, as its tutorials write them; imported only where Triton is installed."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

__all__ = [
    "axpy", "bias_gelu", "copy", "layer_norm", "layer_norm_long", "matmul", "row_sums", "row_sums_long", "softmax",
    "softmax_long", "transpose",
]  # fmt: skip


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def axpy(alpha, x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, alpha * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def bias_gelu(x, b, y, n, BLOCK: tl.constexpr):
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    row = tl.program_id(1) * n
    t = tl.load(x + row + column, mask=inside) + tl.load(b + column, mask=inside)
    tl.store(y + row + column, 0.5 * t * (1 + libdevice.erf(0.7071067811865476 * t)), mask=inside)


@triton.jit
def row_sums(a, y, m, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    part = tl.load(a + at, mask=row[:, None] < m, other=0.0)
    tl.store(y + row, tl.sum(part, 1), mask=row < m)


@triton.jit
def row_sums_long(a, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    part = tl.zeros((BLOCK,), tl.float32)
    for begin in tl.range(0, COLUMNS, BLOCK, num_stages=4):
        part += tl.load(a + row * COLUMNS + begin + tl.arange(0, BLOCK))
    tl.store(y + row, tl.sum(part, 0))


@triton.jit
def softmax(x, y, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(x + at)
    power = tl.exp(row - tl.max(row, 0))
    tl.store(y + at, power / tl.sum(power, 0))


@triton.jit
def softmax_long(x, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """Read a row twice, in pieces: the second time it is in the cache."""
    begin = tl.program_id(0) * COLUMNS
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for piece in range(0, COLUMNS, BLOCK):
        part = tl.load(x + begin + piece + tl.arange(0, BLOCK), eviction_policy="evict_last")
        higher = tl.maximum(top, part)
        total = total * tl.exp(top - higher) + tl.exp(part - higher)
        top = higher
    highest = tl.max(top, 0)
    scale = 1 / tl.sum(total * tl.exp(top - highest), 0)
    for piece in range(0, COLUMNS, BLOCK):
        at = begin + piece + tl.arange(0, BLOCK)
        tl.store(y + at, tl.exp(tl.load(x + at, eviction_policy="evict_first") - highest) * scale)


@triton.jit
def layer_norm(x, gamma, beta, y, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    at = tl.program_id(0) * COLUMNS + column
    row = tl.load(x + at)
    away = row - tl.sum(row, 0) / COLUMNS
    scale = tl.rsqrt(tl.sum(away * away, 0) / COLUMNS + 1e-5)
    tl.store(y + at, away * scale * tl.load(gamma + column) + tl.load(beta + column))


@triton.jit
def layer_norm_long(x, gamma, beta, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """Read a row three times, in pieces: the second and third time it is in the cache."""
    begin = tl.program_id(0) * COLUMNS
    total = tl.zeros((BLOCK,), tl.float32)
    for piece in range(0, COLUMNS, BLOCK):
        total += tl.load(x + begin + piece + tl.arange(0, BLOCK), eviction_policy="evict_last")
    mean = tl.sum(total, 0) / COLUMNS
    squares = tl.zeros((BLOCK,), tl.float32)
    for piece in range(0, COLUMNS, BLOCK):
        away = tl.load(x + begin + piece + tl.arange(0, BLOCK), eviction_policy="evict_last") - mean
        squares += away * away
    scale = tl.rsqrt(tl.sum(squares, 0) / COLUMNS + 1e-5)
    for piece in range(0, COLUMNS, BLOCK):
        column = piece + tl.arange(0, BLOCK)
        away = tl.load(x + begin + column, eviction_policy="evict_first") - mean
        tl.store(y + begin + column, away * scale * tl.load(gamma + column) + tl.load(beta + column))


@triton.jit
def transpose(a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(a + i[:, None] * n + j[None, :], mask=(i[:, None] < n) & (j[None, :] < n))
    tl.store(b + j[:, None] * n + i[None, :], tl.trans(tile), mask=(j[:, None] < n) & (i[None, :] < n))


@triton.jit
def matmul(
    a, b, c, m, n, p,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Blocks are taken in groups of 8 rows of them, so that they share what they read in the cache."""
    rows, columns = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    number = tl.program_id(0)
    group = number // (8 * columns)
    height = min(rows - 8 * group, 8)
    block_i = 8 * group + number % (8 * columns) % height
    block_j = number % (8 * columns) // height
    i = block_i * BLOCK_M + tl.arange(0, BLOCK_M)
    j = block_j * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_at = a + (i % m)[:, None] * p + k[None, :]
    b_at = b + k[:, None] * n + (j % n)[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for begin in range(0, p, BLOCK_K):
        a_part = tl.load(a_at, mask=k[None, :] < p - begin, other=0.0)
        b_part = tl.load(b_at, mask=k[:, None] < p - begin, other=0.0)
        sums = tl.dot(a_part, b_part, sums, input_precision=PRECISION)
        a_at += BLOCK_K
        b_at += BLOCK_K * n
    c_at = c + i[:, None] * n + j[None, :]
    tl.store(c_at, sums.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))
