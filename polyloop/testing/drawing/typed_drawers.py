"""Drawers of the expressions of :mod:`polyloop.testing.typed`: operations on integers, truth values and numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from polyloop.testing.typed import (
    COMPLEX,
    COUNT,
    DATA,
    FLOATS,
    INTEGERS,
    TABLES,
    WEAK,
    Array,
    Drawn,
    computed,
    constant,
    dtype_of,
    leaf,
    limits_of,
    made,
    rounded,
)

__all__ = ["BITS", "PLAIN", "draw"]


class _Impossible(Exception):  # noqa: N818 - the drawer tries something else
    """A drawn expression has no defined value: signed overflow, a division by zero."""


def draw(rng: random.Random, depth: int) -> Drawn:
    """Return a random expression of any type."""
    kinds: tuple[tuple[Callable[[random.Random, int], Drawn], int], ...] = ((_integer, 5), (_number, 5), (_truth, 2))
    drawers, weights = zip(*kinds, strict=True)
    while True:
        try:
            found: Drawn = rng.choices(drawers, weights)[0](rng, depth)
        except _Impossible:
            continue
        if found.sure.any():
            return found


def _common(*names: str) -> str:
    """Return the common type as the documentation has it."""
    distinct = sorted(set(names) - {WEAK})
    inexact = [name for name in distinct if name in (*FLOATS, *COMPLEX)]
    if not inexact:
        if WEAK in names:
            return WEAK
        if "uint64" in distinct and any(name.startswith("i") for name in distinct):
            raise _Impossible
        return str(np.result_type(*distinct))
    if inexact == ["bfloat16", "float16"]:
        return "float32"
    if inexact == ["bfloat16"]:
        return "bfloat16"
    return str(np.result_type(*[name.replace("bfloat16", "float16") for name in inexact]))


# {{{ subscripts

_GATHERED: Final = 0.06
_PLACES: Final[tuple[tuple[str, Callable[[Any, Any], Any]], ...]] = (
    ("{a} & 7", lambda a, b: a & 7),
    ("{a} % 8", lambda a, b: a % 8),
    ("({a} ^ 5) & 7", lambda a, b: (a ^ 5) & 7),
    ("({a} >> 2) & 7", lambda a, b: (a >> 2) & 7),
    ("({a} | 3) & 7", lambda a, b: (a | 3) & 7),
    ("({a} & 1) << 2", lambda a, b: (a & 1) << 2),
    ("({a} & 3) ^ ({b} & 4)", lambda a, b: (a & 3) ^ (b & 4)),
    ("({a} & 3) | ({b} & 4)", lambda a, b: (a & 3) | (b & 4)),
    ("7 - ({a} & 7)", lambda a, b: 7 - (a & 7)),
    ("({a} & 3) + ({b} & 3) + 1", lambda a, b: (a & 3) + (b & 3) + 1),
    ("if({a} < 3, 5, 2)", lambda a, b: np.where(a < 3, 5, 2)),
    ("if({a} < {b}, {a} & 7, {b} % 3)", lambda a, b: np.where(a < b, a & 7, b % 3)),
    ("min({a} & 7, {b} & 7)", lambda a, b: np.minimum(a & 7, b & 7)),
    ("({a} // 3) % 8", lambda a, b: (a // 3) % 8),
    ("2*({a} & 3)", lambda a, b: 2 * (a & 3)),
    ("(-{a}) % 8", lambda a, b: (-a) % 8),
    ("~({a} & 7) + 8", lambda a, b: ~(a & 7) + 8),
    ("3", lambda a, b: 3 + 0 * a),
)
_SMALL: Final = ("int8", "int16", "uint8")


def _gathered(rng: random.Random, name: str) -> Drawn:
    """Return an element of a table, at places that are computed: subscripts are exact integers."""
    texts, places = [], []
    for _ in range(2):
        form, apply = rng.choice(_PLACES)
        a, b = (rng.choice((*_SMALL, "i")) for _ in range(2))
        values = [np.arange(COUNT) if each == "i" else DATA[each].astype(np.int64) for each in (a, b)]
        shown = [each if each == "i" else f"v_{each}[i]" for each in (a, b)]
        texts.append(form.format(a=shown[0], b=shown[1]))
        places.append(apply(*values))
    return made(f"t_{name}[{', '.join(texts)}]", name, TABLES[name][places[0], places[1]])


# }}}
# {{{ integers


def _integer(rng: random.Random, depth: int) -> Drawn:
    if depth <= 0:
        return leaf(rng.choice(INTEGERS))
    if rng.random() < _GATHERED:
        return _gathered(rng, rng.choice([name for name in TABLES if name in INTEGERS]))
    return rng.choice(_INTEGER)(rng, depth)


def _exact(text: str, name: str, exact: Array, *parts: Drawn) -> Drawn:
    """Return an integer operation with exact values *exact*, wrapped to its type where that is defined."""
    low, high = limits_of(name)
    if low < 0 and high >= 2**31 - 1 and any(not low <= int(x) <= high for x in exact):
        raise _Impossible
    wrapped = [(int(x) - low) % (high - low + 1) + low for x in exact]
    return made(text, name, np.array(wrapped, name), *parts)


def _objects(part: Drawn, name: str) -> Array:
    return part.value.astype(name).astype(object)


PLAIN: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
BITS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}


def _operand(rng: random.Random, depth: int, other: str) -> Drawn:
    """Return a second operand for integers of the type *other*: often a constant."""
    if rng.random() < 0.4:
        text, value = constant(rng, other)
        return made(text, other, np.full(COUNT, value, other))
    return _integer(rng, depth - 1)


def _arithmetic(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    b = _operand(rng, depth, a.type)
    symbol = rng.choice(sorted(PLAIN))
    name = _common(a.type, b.type)
    exact = PLAIN[symbol](_objects(a, name), _objects(b, name))
    text = f"({a.text} {symbol} {b.text})"
    return _exact(text, name, exact, a, b)


def _division(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    b = _operand(rng, depth, a.type)
    name, symbol = _common(a.type, b.type), rng.choice(["//", "%"])
    x, y = _objects(a, name), _objects(b, name)
    if any(v == 0 for v in y):
        b, y = _never_zero(b, name), np.array([v or 3 for v in y], object)
    exact = x // y if symbol == "//" else x % y
    if any(not limits_of(name)[0] <= int(v) <= limits_of(name)[1] for v in exact):
        raise _Impossible
    if limits_of(name)[0] < 0 and any(p == limits_of(name)[0] and q == -1 for p, q in zip(x, y, strict=True)):
        raise _Impossible
    return _exact(f"({a.text} {symbol} {b.text})", name, exact, a, b)


def _never_zero(b: Drawn, name: str) -> Drawn:
    value = np.where(b.value == 0, b.value.dtype.type(3), b.value)
    return made(f"if({b.text} == 0, 3, {b.text})", b.type, value, b)


def _bitwise(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    b = _operand(rng, depth, a.type)
    if rng.random() < 0.3:
        a, b = b, a
    symbol, name = rng.choice(sorted(BITS)), _common(a.type, b.type)
    return made(f"({a.text} {symbol} {b.text})", name, BITS[symbol](a.value.astype(name), b.value.astype(name)), a, b)


def _complement(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    return made(f"(~{a.text})", a.type, ~a.value, a)


def _negated(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    return _exact(f"(-{a.text})", a.type, -a.value.astype(object), a)


def _shift(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    bits, is_left = 8 * a.value.dtype.itemsize, rng.random() < 0.5
    if rng.random() < 0.6:
        count = rng.randrange(bits)
        text = rng.choice([str(count), f"({count + 2} - 2)"])
        counts = np.full(COUNT, count, object)
        by: tuple[Drawn, ...] = ()
    else:  # a count of the same type; too large or negative ones give 0, or the sign
        other = leaf(a.type)
        text, counts, by = other.text, other.value.astype(object), (other,)
    known = [c if 0 <= c < bits else bits for c in counts]
    if is_left:
        exact = np.array([int(v) << c if c < bits else 0 for v, c in zip(a.value, known, strict=True)], object)
        low, high = limits_of(a.type)
        wrapped = np.array([(v - low) % (high - low + 1) + low for v in exact], a.type)
        return made(f"({a.text} << {text})", a.type, wrapped, a, *by)
    exact = np.array([int(v) >> c for v, c in zip(a.value, known, strict=True)], object)
    return _exact(f"({a.text} >> {text})", a.type, exact, a, *by)


def _power(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    exponent = rng.randint(0, 5)
    return _exact(f"({a.text}**{exponent})", a.type, a.value.astype(object) ** exponent, a)


def _extreme(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    b = _operand(rng, depth, a.type)
    name, function = _common(a.type, b.type), rng.choice(["min", "max"])
    apply = np.minimum if function == "min" else np.maximum
    return made(f"{function}({a.text}, {b.text})", name, apply(a.value.astype(name), b.value.astype(name)), a, b)


def _choice(rng: random.Random, depth: int) -> Drawn:
    condition = _truth(rng, min(depth - 1, 1))
    a = _integer(rng, depth - 1)
    b = _operand(rng, depth, a.type)
    name = _common(a.type, b.type)
    value = np.where(condition.value, a.value.astype(name), b.value.astype(name))
    form = rng.choice(["if({c}, {a}, {b})", "({a} if {c} else {b})"])
    return made(form.format(c=condition.text, a=a.text, b=b.text), name, value, condition, a, b)


def _absolute(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    if rng.random() < 0.5:
        return made(f"sign({a.text})", a.type, np.sign(a.value), a)
    return _exact(f"abs({a.text})", a.type, abs(a.value.astype(object)), a)


def _count(rng: random.Random, depth: int) -> Drawn:
    a = _integer(rng, depth - 1)
    width = 8 * a.value.dtype.itemsize
    bits = [int(v) % (1 << width) for v in a.value]
    function = rng.choice(["popcount", "clz", "ctz"])
    found = {
        "popcount": [v.bit_count() for v in bits],
        "clz": [width - v.bit_length() for v in bits],
        "ctz": [(v & -v).bit_length() - 1 if v else width for v in bits],
    }[function]
    return made(f"{function}({a.text})", "int32", np.array(found, np.int32), a)


def _of_truth(rng: random.Random, depth: int) -> Drawn:
    """Return arithmetic on truth values, which counts, or with one."""
    a = _truth(rng, depth - 1)
    if rng.random() < 0.5:
        b = leaf("bool")
        symbol = rng.choice(["+", "*"])
        counts = PLAIN[symbol](a.value.astype(np.int32), b.value.astype(np.int32))
        # In a longer chain, truth values would be of the type of the rest.
        return made(f"cast(int32, {a.text} {symbol} {b.text})", "int32", counts, a, b)
    c = _integer(rng, depth - 1)
    return _exact(f"({c.text}*{a.text})", c.type, _objects(c, c.type) * a.value.astype(object), a, c)


def _converted(rng: random.Random, depth: int) -> Drawn:
    a = draw(rng, depth - 1) if rng.random() < 0.4 else _integer(rng, depth - 1)
    name = rng.choice(INTEGERS)
    if a.type in COMPLEX or a.type == WEAK:
        raise _Impossible
    if a.type in FLOATS:
        whole = np.trunc(a.value.astype(float))
        low, high = limits_of(name)
        if not (np.isfinite(whole) & (whole > max(low, -(2.0**53))) & (whole < min(high, 2.0**53))).all():
            raise _Impossible
        same = (np.trunc(a.value - a.error) == whole) & (np.trunc(a.value + a.error) == whole)
        found = made(f"cast({name}, {a.text})", name, whole, a)
        return Drawn(found.text, name, found.value, found.error, found.sure & same)
    return made(f"cast({name}, {a.text})", name, a.value.astype(name), a)


_INTEGER: Final = (
    _arithmetic, _arithmetic, _arithmetic, _division, _division, _bitwise, _bitwise, _complement, _negated, _shift,
    _shift, _power, _extreme, _choice, _absolute, _count, _of_truth, _converted,
)  # fmt: skip

# }}}
# {{{ truth values

_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def _truth(rng: random.Random, depth: int) -> Drawn:
    if depth <= 0:
        return leaf("bool")
    return rng.choice((_comparison, _comparison, _logic, _bits_of_truth, _test))(rng, depth)


def _comparison(rng: random.Random, depth: int) -> Drawn:
    if rng.random() < 0.5:
        a = _integer(rng, depth - 1)
        b = _operand(rng, depth, a.type)
        symbol = rng.choice(sorted(_COMPARE))
        name = _common(a.type, b.type)
        value = _COMPARE[symbol](a.value.astype(name), b.value.astype(name))
        return made(f"({a.text} {symbol} {b.text})", "bool", value, a, b)
    a, b = _number(rng, depth - 1), _number(rng, depth - 1)
    name = _common(a.type, b.type)
    if name == WEAK:
        raise _Impossible
    symbol = rng.choice(["==", "!="] if name in COMPLEX else sorted(_COMPARE))
    x, y = a.value.astype(computed(name)), b.value.astype(computed(name))
    gap = a.error + b.error + np.where(np.array([a.type == name and b.type == name] * COUNT), 0, 1e-5 * abs(y))
    found = made(f"({a.text} {symbol} {b.text})", "bool", _COMPARE[symbol](x, y), a, b)
    return Drawn(found.text, "bool", found.value, found.error, found.sure & ((gap == 0) | (abs(x - y) > 2 * gap)))


def _logic(rng: random.Random, depth: int) -> Drawn:
    a, b = _truth(rng, depth - 1), _truth(rng, depth - 1)
    which = rng.randrange(3)
    if which == 2:
        return made(f"(not {a.text})", "bool", ~a.value, a)
    value = a.value & b.value if which == 0 else a.value | b.value
    return made(f"({a.text} {'and' if which == 0 else 'or'} {b.text})", "bool", value, a, b)


def _bits_of_truth(rng: random.Random, depth: int) -> Drawn:
    a, b = _truth(rng, depth - 1), _truth(rng, depth - 1)
    if rng.random() < 0.2:
        return made(f"(~{a.text})", "bool", ~a.value, a)
    symbol = rng.choice(sorted(BITS))
    return made(f"({a.text} {symbol} {b.text})", "bool", BITS[symbol](a.value, b.value), a, b)


def _test(rng: random.Random, depth: int) -> Drawn:
    a = _number(rng, depth - 1)
    if a.type in (*COMPLEX, WEAK):
        raise _Impossible
    function = rng.choice(["isnan", "isinf", "isfinite"])
    return made(f"{function}({a.text})", "bool", getattr(np, function)(a.value), a)


# }}}
# {{{ numbers


def _number(rng: random.Random, depth: int) -> Drawn:
    if depth <= 0:
        return leaf(rng.choice((*FLOATS, *FLOATS, *COMPLEX)))
    if rng.random() < _GATHERED:
        return _gathered(rng, "float64")
    return rng.choice(_NUMBER)(rng, depth)


def _any(rng: random.Random, depth: int) -> Drawn:
    pick = rng.random()
    if pick < 0.25:
        return _integer(rng, min(depth, 1))
    return _truth(rng, min(depth, 1)) if pick < 0.3 else _number(rng, depth)


def _sum(rng: random.Random, depth: int) -> Drawn:
    a, b = _number(rng, depth - 1), _any(rng, depth - 1)
    if rng.random() < 0.3:
        a, b = b, a
    symbol = rng.choice(sorted(PLAIN))
    name = _common(a.type, b.type)
    text = f"({a.text} {symbol} {b.text})"
    return rounded(text, name, PLAIN[symbol], a, b)


def _with_constant(rng: random.Random, depth: int) -> Drawn:
    a = _number(rng, depth - 1)
    name = a.type
    text, value = constant(rng, name)
    if isinstance(value, complex) and name not in COMPLEX:
        raise _Impossible
    symbol, first = rng.choice([*sorted(PLAIN), "/"]), rng.random() < 0.5
    plain = PLAIN[symbol] if symbol != "/" else lambda x, y: x / y

    def apply(x: Array) -> Array:
        number = x.dtype.type(value)
        result: Array = plain(number, x) if first else plain(x, number)
        return result

    shown = f"({text} {symbol} {a.text})" if first else f"({a.text} {symbol} {text})"
    return rounded(shown, name, apply, a, ulps=6)


def _quotient(rng: random.Random, depth: int) -> Drawn:
    if rng.random() < 0.3:
        a, b = _integer(rng, depth - 1), _integer(rng, depth - 1)
        _common(a.type, b.type)
        return rounded(f"({a.text} / {b.text})", WEAK, lambda x, y: x / y, a, b, ulps=4)
    a, b = _number(rng, depth - 1), _any(rng, depth - 1)
    name = _common(a.type, b.type)
    return rounded(f"({a.text} / {b.text})", name, lambda x, y: x / y, a, b, ulps=6)


_SMOOTH: Final[Mapping[str, Callable[[Any], Any]]] = {
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "atan": np.arctan, "cbrt": np.cbrt, "sqrt": np.sqrt, "exp": np.exp,
    "log": np.log, "exp2": np.exp2, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "asinh": np.arcsinh, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "acosh": np.arccosh,
    "atanh": np.arctanh, "tan": np.tan,
}  # fmt: skip
_COMPLEX: Final = ("sin", "cos", "exp", "sqrt", "log", "sinh", "cosh", "tanh")


_PERIODIC: Final = frozenset({"sin", "cos", "tan"})
_NEAR: Final = 0.1  # an argument that is known no better says nothing of a periodic function


def _function(rng: random.Random, depth: int) -> Drawn:
    a = _any(rng, depth - 1)
    name = rng.choice(_COMPLEX if a.type in COMPLEX else sorted(_SMOOTH))
    result = a.type if a.type in (*FLOATS, *COMPLEX, WEAK) else "float64"
    found = rounded(f"{name}({a.text})", result, _SMOOTH[name], a, ulps=16 if result in COMPLEX else 8)
    if result not in COMPLEX:
        known = (a.error < _NEAR) if name in _PERIODIC else np.ones(COUNT, bool)
        return Drawn(found.text, result, found.value, found.error, found.sure & known)
    beside = (np.real(a.value) > 0) | (np.abs(np.imag(a.value)) > 1e-6)  # log and sqrt jump at negative numbers
    return Drawn(found.text, result, found.value, found.error, found.sure & beside)


_STEPS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
}  # fmt: skip


def _step(rng: random.Random, depth: int) -> Drawn:
    a = _number(rng, depth - 1)
    if a.type in (*COMPLEX, WEAK):
        raise _Impossible
    name = rng.choice(sorted(_STEPS))
    apply = _STEPS[name]
    found = made(f"{name}({a.text})", a.type, apply(a.value), a)
    wide = a.value.astype(float)
    same = (apply(wide - a.error) == apply(wide)) & (apply(wide + a.error) == apply(wide))
    return Drawn(found.text, a.type, found.value, found.error, found.sure & same & np.isfinite(wide))


def _floored(rng: random.Random, depth: int) -> Drawn:
    """Return a quotient rounded downward, or its remainder, of exact numbers."""
    a, b = leaf(rng.choice(FLOATS)), leaf(rng.choice((*FLOATS, "int8", "int16")))
    name, symbol = _common(a.type, b.type), rng.choice(["//", "%"])
    x, y = a.value.astype(computed(name)), b.value.astype(computed(name))
    with np.errstate(all="ignore"):
        value = x // y if symbol == "//" else x % y
    found = made(f"({a.text} {symbol} {b.text})", name, value, a, b)
    return Drawn(found.text, name, found.value, found.error, np.isfinite(found.value) & (y != 0))


def _smaller(rng: random.Random, depth: int) -> Drawn:
    a, b = _number(rng, depth - 1), _any(rng, depth - 1)
    name = _common(a.type, b.type)
    if name in COMPLEX or name == WEAK:
        raise _Impossible
    function = rng.choice(["min", "max", "fmin", "fmax", "hypot", "copysign", "atan2"])
    applied: dict[str, Any] = {
        "min": np.fmin, "max": np.fmax, "fmin": np.fmin, "fmax": np.fmax, "hypot": np.hypot, "copysign": np.copysign,
        "atan2": np.arctan2,
    }  # fmt: skip
    return rounded(f"{function}({a.text}, {b.text})", name, applied[function], a, b, ulps=8)


def _raised(rng: random.Random, depth: int) -> Drawn:
    a = _number(rng, depth - 1)
    if a.type == WEAK:
        raise _Impossible
    exponent, text = rng.choice([(2, "2"), (3, "3"), (-1, "(-1)"), (0, "0"), (5, "(2 + 3)"), (-2, "(1 - 3)")])
    return rounded(f"({a.text}**{text})", a.type, lambda x: x**exponent, a, ulps=16)


def _parts(rng: random.Random, depth: int) -> Drawn:
    a = _number(rng, depth - 1)
    function = rng.choice(["real", "imag", "abs"])
    if a.type == WEAK and function != "abs":
        raise _Impossible
    real = {"complex64": "float32", "complex128": "float64"}.get(a.type, a.type)
    if a.type not in COMPLEX and function != "abs":
        value = a.value if function == "real" else np.zeros(COUNT)
        return made(f"{function}({a.text})", real, value, a, error=a.error if function == "real" else 0)
    apply: Any = {"real": np.real, "imag": np.imag, "abs": np.abs}[function]
    found = made(f"{function}({a.text})", real, apply(a.value), a)
    error = a.error + 8 * 2.0 ** (-52 if real == "float64" else -23) * abs(a.value).astype(float)
    return Drawn(found.text, real, found.value, error if a.type in COMPLEX else a.error, found.sure)


def _opposite(rng: random.Random, depth: int) -> Drawn:
    a = _number(rng, depth - 1)
    return made(f"(-{a.text})", a.type, -a.value, a, error=a.error)


def _selected(rng: random.Random, depth: int) -> Drawn:
    condition, a, b = _truth(rng, min(depth - 1, 1)), _number(rng, depth - 1), _any(rng, depth - 1)
    name = _common(a.type, b.type)
    if name == WEAK:
        raise _Impossible
    x, y = a.value.astype(computed(name)), b.value.astype(computed(name))
    error = np.where(condition.value, a.error, b.error) + 2.0**-22 * np.where(condition.value, abs(x), abs(y))
    value = np.where(condition.value, x, y)
    found = made(f"if({condition.text}, {a.text}, {b.text})", name, value, condition, error=error)
    sure = np.where(condition.value, a.sure, b.sure) & condition.sure
    return Drawn(found.text, name, found.value, found.error, sure)


def _cast(rng: random.Random, depth: int) -> Drawn:
    a = _any(rng, depth - 1)
    name = rng.choice(COMPLEX if a.type in COMPLEX else (*FLOATS, *COMPLEX))
    with np.errstate(all="ignore"):
        value = a.value.astype(dtype_of(name)).astype(computed(name))
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52, "complex128": 2.0**-52}.get(name, 2.0**-23)
    exact = a.type == name or (a.is_integer and a.value.dtype.itemsize == 1 and name != "bfloat16") or a.type == "bool"
    error = np.where(exact & (a.error == 0), 0, a.error + step * abs(value) + (6e-8 if name == "float16" else 0))
    found = made(f"cast({name}, {a.text})", name, value, a, error=error)
    good = np.isfinite(value) & (abs(value) < 60000)
    return Drawn(found.text, name, found.value, np.where(good, found.error, 0), found.sure & good)


_NUMBER: Final = (
    _sum, _sum, _sum, _with_constant, _with_constant, _quotient, _function, _function, _step, _floored, _smaller,
    _raised, _parts, _opposite, _selected, _cast,
)  # fmt: skip

# }}}
