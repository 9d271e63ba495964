"""What a kernel cannot say is refused, at its place in the user's file."""

from __future__ import annotations

import linecache
import math
import textwrap
from typing import Any

import numpy as np
import pytest

import polyloop as pl

HEAD = "def f(n: pl.int32, a: pl.Array[np.float32, 'n'], m: np.float32):\n"


def define(source: str, name: str = "f") -> Any:
    """Return the function that *source*, a file called user.py, defines."""
    linecache.cache["user.py"] = (len(source), None, source.splitlines(keepends=True), "user.py")
    outside = {"np": np, "pl": pl, "math": math, "HALF": 0.5}
    outside |= {"cfg": object(), "table": np.zeros(3), "helper": str.upper}
    exec(compile(source, "user.py", "exec", dont_inherit=True), outside)
    return outside[name]


def refusal(body: str, head: str = HEAD) -> tuple[str, list[str]]:
    """Return code and lines of the message for a function with this body."""
    function = define(head + textwrap.indent(textwrap.dedent(body), "    "))
    with pytest.raises(pl.KernelError) as error:
        pl.kernel(function)
    return error.value.codes[0], str(error.value).split("\n")


STATEMENTS = [
    ("for i in range(n):\n    return", "unsupported-statement", "return", 3),
    ("for i in range(n):\n    a[i] = 0\nelse:\n    a[0] = 1", "unsupported-statement", "a[0] = 1", 5),
    ("try:\n    a[0] = 1\nfinally:\n    pass", "unsupported-statement", "try:", 2),
    ("global g", "unsupported-statement", "global g", 2),
    ("print(n)", "unsupported-statement", "print(n)", 2),
    ("a[0], m = 0, 1", "not-assignable", "m", 2),
    ("a[0], a[1] = m", "unsupported-statement", "a[0], a[1]", 2),
    ("t = u, v = m, 1", "unsupported-statement", "t", 2),
    ("(t, u), v = m, 1", "unsupported-statement", "(t, u)", 2),
    ("t, *u = m, 1", "unsupported-statement", "*u", 2),
    ("t = 0\nn = t = 1", "not-assignable", "n", 3),
    ("with open('x'):\n    a[0] = 0", "unsupported-statement", "with open('x'):", 2),
    ("t: pl.Array[np.float32, 4] = 3", "unsupported-statement", "t: pl.Array[np.float32, 4] = 3", 2),
    ("def g(x):\n    y = x", "unsupported-statement", "def g(x):", 2),
    ("def g(x):\n    if x > 0:\n        return x", "unsupported-statement", "def g(x):", 2),
    ("def g(x):\n    a[0] = x\n    return x", "unsupported-statement", "a[0] = x", 3),
    ("def g(x):\n    for i in range(3):\n        x += i\n    return x", "unsupported-statement",
     "for i in range(3):", 3),
    ("def g(x):\n    return g(x - 1)\na[0] = g(3)", "unsupported-expression", "g(x - 1)", 3),
    ("a[0] = g(3)\ndef g(x):\n    return x", "unknown-function", "g", 2),
    ("def g(x):\n    y = y + x\n    return y\na[0] = g(1)", "read-before-write", "y", 3),
    ("def g(x):\n    return x + t\na[0] = g(1)\nt = 1", "read-before-write", "t", 3),
    ("if n > 3:\n    def g(x):\n        return x\na[0] = 1", "unsupported-statement", "def g(x):", 3),
    ("def g(*x):\n    return 1\na[0] = 1", "unsupported-statement", "def g(*x):", 2),
    ("def g(u, k=1.0):\n    return u*k\na[0] = g(1.0, v=2.0)", "wrong-argument-count", "g(1.0, v=2.0)", 4),
    ("def g(u, k=1.0):\n    return u*k\na[0] = g(k=2.0)", "wrong-argument-count", "g(k=2.0)", 4),
    ("t = 1.0\ndef g(u=t):\n    return u\nt = 2.0\na[0] = g()", "unsupported-statement", "t", 3),
    ("n = 3", "not-assignable", "n", 2),
    ("a = 3", "not-assignable", "a", 2),
    ("for i in range(n):\n    i = 2", "assignment-to-iname", "i", 3),
    ("double = 3", "reserved-name", "double", 2),
    ("t: 'float33' = a[0]", "unknown-dtype", "'float33'", 2),
    ("with pl.options(id='x', dpe='y'):\n    a[0] = 0", "unknown-option", "dpe", 2),
    ("with pl.options(id='x y'):\n    a[0] = 0", "bad-identifier", "x y", 2),
    ("with pl.options(dep='y'):\n    a[0] = 0", "unknown-instruction", "pl.options(dep='y')", 2),
    ("with pl.options(id='x'):\n    a[0] = 0\n    a[1] = 0", "name-taken", "pl.options(id='x')", 2),
    ("with pl.options(inames=''):\n    a[0] = 0", "unknown-option", "pl.options(inames='')", 2),
    ("with pl.options(dep_query='id:a*'):\n    a[0] = 0", "unknown-option", "pl.options(dep_query='id:a*')", 2),
    ("with pl.options(dep='a*'):\n    a[0] = 0", "unknown-instruction", "pl.options(dep='a*')", 2),
]

LOOPS = [
    ("for x in a:\n    a[0] = x", "unsupported-loop", "a", 2),
    ("for i in range(m):\n    a[i] = 0", "unsupported-loop", "m", 2),
    ("for i in range(n, 0, m):\n    a[i] = 0", "unsupported-loop", "m", 2),
    ("for i in range(n, 0, 0):\n    a[i] = 0", "unsupported-loop", "0", 2),
    ("for i in range(2.5):\n    a[i] = 0", "unsupported-loop", "2.5", 2),
    ("for i in reversed(a):\n    a[i] = 0", "unsupported-loop", "reversed(a)", 2),
    ("for i in reversed(range(n - 1, -1, -1)):\n    a[i] = 0", "unsupported-loop",
     "reversed(range(n - 1, -1, -1))", 2),
    ("for i, j in pl.domain(n, range(n - 1, -1, -1)):\n    a[i] = j", "unsupported-loop", "range(n - 1, -1, -1)", 2),
    ("for i in range(max(n, 3), 0, 2):\n    a[i] = 0", "unsupported-loop", "max(n, 3)", 2),
    ("for i in range(n):\n    a[i] = sum(a[k] for j in range(n) for k in range(j*j))", "unsupported-loop", "j*j", 3),
    ("for i in range(0, n, n):\n    a[i] = 0", "unsupported-loop", "n", 2),
    ("for i in range():\n    a[i] = 0", "wrong-argument-count", "range()", 2),
    ("for i, j in range(n):\n    a[i] = 0", "unsupported-loop", "i, j", 2),
    ("for i in range(n):\n    for i in range(n):\n        a[i] = 0", "duplicate-iname", "i", 3),
    ("for n in range(3):\n    a[n] = 0", "name-taken", "n", 2),
    ("for i in range(n):\n    a[i] = 1\na[0] = i", "unknown-iname", "i", 4),
    ("for i in pl.domain('0 <= i << n'):\n    a[i] = 0", "syntax-domain", "<<", 2),
    ("for i in pl.domain('0 <= i < q'):\n    a[i] = 0", "undeclared-name", "'0 <= i < q'", 2),
    ("for i in pl.domain('0 <= i < HALF'):\n    a[i] = 0", "bad-capture", "'0 <= i < HALF'", 2),
    ("for i, j in pl.domain(n):\n    a[i] = j", "unsupported-loop", "pl.domain(n)", 2),
    ("for i in pl.domain(j=n):\n    a[i] = 0", "unsupported-loop", "j=n", 2),
]

WHILE = [
    ("while n:\n    pass", "unsupported-loop", "n", 2),
    ("while True:\n    pass", "unsupported-loop", "True", 2),
    ("t = 1.0\nwhile t > m:\n    t = t / 2", "unsupported-loop", "t > m", 3),
    ("t = 1.0\nwhile t > m and a[0] > 0:\n    t = t / 2", "unsupported-loop", "t > m", 3),
    ("for i in range(n):\n    if a[i] > 0:\n        break\nelse:\n    a[0] = 1",
     "unsupported-statement", "a[0] = 1", 6),
    ("t = 0\nwhile t < n:\n    t += 1\n    if a[t] > 0:\n        t += 1", "unsupported-loop", "t", 6),
    ("t = 0\nwhile t < n:\n    if a[t] > 0:\n        t += 1", "unsupported-loop", "t < n", 3),
    ("t = 0\nwhile t < a[0]:\n    a[0] = 1\n    t += 1", "unsupported-loop", "a[0]", 3),
    ("t = 0\nwhile t > n:\n    t += 1", "unsupported-loop", "t > n", 3),
    ("t = 0\nwhile t != n:\n    t += 1", "unsupported-loop", "t != n", 3),
    ("t = 0\nwhile t < n:\n    t += n", "unsupported-loop", "n", 4),
    ("while t < n:\n    t += 1", "read-before-write", "t", 2),
    ("while n < 3:\n    n += 1", "not-assignable", "n", 2),
    ("t = 0\nwhile t < n:\n    t += 1\nelse:\n    a[0] = 1", "unsupported-statement", "a[0] = 1", 6),
]

EXPRESSIONS = [
    ("a[0] = helper(m)", "unknown-function", "helper", 2),
    ("a[0] = sqrtt(m)", "unknown-function", "sqrtt", 2),
    ("a[0] = np.minimum(m, 1)", "unknown-function", "np.minimum", 2),
    ("a[0] = np.sqrt(m, m)", "wrong-argument-count", "np.sqrt(m, m)", 2),
    ("a[0] = a[:3]", "unsupported-expression", ":3", 2),
    ("a[0] = a", "unsupported-expression", "a", 2),
    ("a[0] = m[0]", "unsupported-expression", "m", 2),
    ("a[0] = a.shape[0]", "unsupported-expression", "a.shape[0]", 2),
    ("a[0] = len(n)", "unsupported-expression", "n", 2),
    ("a[0] = len(a, a)", "wrong-argument-count", "len(a, a)", 2),
    ("a[0] = len(range(n))", "unsupported-expression", "range(n)", 2),
    ("t: pl.Array[np.float32, ()]\nt[()] = 1\na[0] = len(t)", "unsupported-expression", "t", 4),
    ("a[0] = cfg.x", "unsupported-expression", "cfg.x", 2),
    ("a[0] = cfg", "bad-capture", "cfg", 2),
    ("a[0] = table[0]", "bad-capture", "table", 2),
    ("a[0] = nothing", "undeclared-name", "nothing", 2),
    ("a[0] = t\nt = a[0]", "read-before-write", "t", 2),
    ("t += 1", "read-before-write", "t", 2),
    ("a[0] = m or 1.0", "unsupported-expression", "m", 2),
    ("a[0] = 'x'", "unsupported-expression", "'x'", 2),
    ("a[0] = cfg.real", "unsupported-expression", "cfg.real", 2),
    ("a[0] = (lambda x: x)(m)", "unknown-function", "lambda x: x", 2),
    ("a[0] = sum([m])", "unsupported-expression", "[m]", 2),
    ("a[0] = sum(a[k] for k in a)", "unsupported-loop", "a", 2),
    ("a[0] = max(a[k] for k in range(n) if a[k] > 0)", "unsupported-expression", "a[k] > 0", 2),
    ("a[0] = max((a[k] for k in range(n)), default=0)", "unsupported-expression", "default=0", 2),
    ("a[0] = (\n    m +\n    helper(m))", "unknown-function", "helper", 4),
    ("a[0] = m @ m", "unsupported-expression", "m @ m", 2),
    ("a[0] = m is m", "syntax", "m is m", 2),
]


@pytest.mark.parametrize(("body", "code", "marked", "line"), [*STATEMENTS, *LOOPS, *WHILE, *EXPRESSIONS])
def test_what_cannot_be_said_is_refused_where_it_stands(body: str, code: str, marked: str, line: int) -> None:
    found, lines = refusal(body)
    assert found == code
    place = next(number for number, text in enumerate(lines) if f"(user.py:{line})" in text)
    begin, end = lines[place + 1].index("^"), lines[place + 1].rindex("^") + 1
    assert lines[place][begin:end] == marked
    assert lines[place + 2].startswith("  Hint: ")


def test_a_refusal_reads_so() -> None:
    _, lines = refusal("for i in range(n):\n    a[i] = helper(a[i])")
    assert lines == [
        "@pl.kernel on kernel 'f': a kernel cannot call 'helper' [unknown-function]",
        "          a[i] = helper(a[i])    (user.py:3)",
        "                 ^^^^^^",
        "  Hint: define it inside of the kernel, as 'def helper(x): return ...'",
    ]


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("def f(a: int, *rest):\n", "unsupported-statement"),
        ("def f(a: int = 3):\n", "unsupported-statement"),
        ("def f(a) -> int:\n", "unsupported-statement"),
        ("def f(a: str):\n", "bad-annotation"),
        ("def f(a: 'nonsense'):\n", "bad-annotation"),
        ("def f(a: pl.Array['float33', 3]):\n", "unknown-dtype"),
        ("def f(double: pl.int32):\n", "reserved-name"),
    ],
)
def test_signatures_are_checked(head: str, code: str) -> None:
    found, lines = refusal("a[0] = 1", head)
    assert found == code
    assert "(user.py:1)" in lines[1]


def test_what_creation_finds_has_the_line_of_the_file() -> None:
    code, lines = refusal("for i in range(n):\n    a[i] = a[i + 1]")
    assert code == "out-of-bounds"
    assert "(user.py:3, instruction 'insn')" in lines[1]


def test_what_belongs_to_no_statement_shows_the_function() -> None:
    code, lines = refusal("pass")
    assert code == "no-instructions"
    assert "(user.py:1)" in lines[1]


def test_a_loop_that_counts_nothing_reads_so() -> None:
    _, lines = refusal("t = 1.0\nwhile t > m:\n    t = t / 2")
    assert lines == [
        "@pl.kernel on kernel 'f': no variable of this condition is counted by the loop [unsupported-loop]",
        "      while t > m:    (user.py:3)",
        "            ^^^^^",
        "  Hint: count in a line of its own: i += 1; a loop of at most m iterations is: while .. and k < m, with "
        "k += 1, or for k in range(m), with break",
    ]


def test_a_name_with_characters_of_several_bytes_keeps_the_caret_in_its_place() -> None:
    _, lines = refusal("a[0] = 1; t = 'äöü'; a[0] = 2")
    assert lines[2].index("^") == lines[1].index("'äöü'")


def test_code_without_source_is_refused() -> None:
    outside: dict[str, Any] = {}
    exec("def g(a):\n    a[0] = 1", outside)
    with pytest.raises(pl.KernelError, match="source of function 'g' cannot be found"):
        pl.kernel(outside["g"])


def test_source_that_changed_since_is_refused() -> None:
    function = define("def f(a):\n    a[0] = 1\n")
    other = "def g(b):\n    b[0] = 2\n"
    linecache.cache["user.py"] = (len(other), None, other.splitlines(keepends=True), "user.py")
    with pytest.raises(pl.KernelError, match="is another one"):
        pl.kernel(function)


@pytest.mark.parametrize("thing", [3, lambda a: a, max, int])
def test_only_functions_become_kernels(thing: Any) -> None:
    with pytest.raises(pl.KernelError, match="not-a-function"):
        pl.kernel(thing)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pl.domain("0 <= i < 3"),
        lambda: pl.options(id="x"),
        lambda: pl.cast(np.float32, 1),
        lambda: pl.product([1]),
        lambda: pl.reduce("sum", [1]),
    ],
)
def test_words_of_kernels_mean_nothing_outside(call: Any) -> None:
    with pytest.raises(pl.KernelError, match="outside-kernel"):
        call()


@pytest.mark.parametrize(("over", "hint"), [
    ("enumerate(range(n))", "write for k in range(n), and what belongs to k in the body: x = a[k]"),
    ("zip(range(n), range(n))", "write for k in range(n), and what belongs to k in the body: x = a[k]"),
    ("a", "write for i in range(len(a)), and a[i] in the body"),
    ("map(abs, a)", 'write for i in range(n), or for i, j in pl.domain("0 <= i, j < n")'),
])  # fmt: skip
def test_other_loops_are_refused_with_what_to_write(over: str, hint: str) -> None:
    target = "k, x" if over[0] in "ez" else "x"
    code, lines = refusal(f"for {target} in {over}:\n    a[0] = x")
    assert code == "unsupported-loop"
    assert lines[-1] == f"  Hint: {hint}"


def test_a_counter_behind_continue_does_not_always_run() -> None:
    code, lines = refusal("k = 0\nwhile k < n:\n    if a[k] > 1:\n        continue\n    k += 1")
    assert code == "unsupported-loop"
    assert "in front of any 'continue'" in lines[-1]


def test_arrays_of_numpy_are_declared_in_a_kernel() -> None:
    _, lines = refusal("t = np.zeros(16)\na[0] = t[0]")
    assert "t: pl.Array[np.float32, 16]" in lines[-1]


def test_a_complex_number_of_two_parts_is_a_sum() -> None:
    _, lines = refusal("a[0] = abs(complex(m, 1))")
    assert lines[-1].endswith("write x + 1j*y")
