"""Statement text: what each line means, and what is refused, with its place."""

from __future__ import annotations

import random

import numpy as np
import pytest

from polyloop.errors import KernelError
from polyloop.expr.printer import show
from polyloop.kernel.layout import auto
from polyloop.kernel.text.match import Glob, Subject
from polyloop.kernel.text.parser import ParsedInstruction, ParsedRule, parse_instructions

INAMES = frozenset({"i", "j", "k"})


def one(text: str) -> ParsedInstruction:
    (found,) = parse_instructions(text, INAMES)
    assert isinstance(found, ParsedInstruction)
    return found


def instructions(text: str | list[str]) -> list[ParsedInstruction]:
    return [found for found in parse_instructions(text, INAMES) if isinstance(found, ParsedInstruction)]


def rule(text: str) -> ParsedRule:
    (found,) = parse_instructions(text, INAMES)
    assert isinstance(found, ParsedRule)
    return found


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a[i] = b[i] + 1", "a[i] = b[i] + 1"),
        ("a += 2*b", "a = a + 2*b"),
        ("a -= b", "a = a - b"),
        ("a -= b + c", "a = a - (b + c)"),
        ("a *= b + c", "a = a*(b + c)"),
        ("a /= b", "a = a/b"),
        ("a //= 2", "a = a // 2"),
        ("a %= 2", "a = a % 2"),
        ("a **= 2", "a = a**2"),
        ("a <<= 2", "a = a << 2"),
        ("a >>= 2", "a = a >> 2"),
        ("a &= 2", "a = a & 2"),
        ("a |= 2", "a = a | 2"),
        ("a ^= 2", "a = a ^ 2"),
        ("a[b[i] <= c] = x == y", "a[b[i] <= c] = x == y"),
        ("end = 3", "end = 3"),
        ("end[i] += 3", "end[i] = end[i] + 3"),
        ("a = max(i, b[i]) + max(x, y)", "a = max(i, b[i]) + max(x, y)"),
    ],
)
def test_an_assignment_means(text: str, meaning: str) -> None:
    found = one(text)
    assert f"{show(found.assignee)} = {show(found.expression)}" == meaning
    assert found.declared is None


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("<> t = 1", None), ("<auto> t = 1", None), ("<float32> t[i] = 1", "float32"), ("<np.int8>t = 1", "int8")],
)
def test_a_declaration(text: str, dtype: str | None) -> None:
    found = one(text)
    assert found.declared is auto if dtype is None else found.declared == np.dtype(dtype)


def test_rules() -> None:
    found = rule("f(x, y) := x*y + sum(k, a[k])").rule
    assert (found.name, found.arguments, show(found.expression)) == ("f", ("x", "y"), "x*y + sum(k, a[k])")
    assert rule("f := a[i]").rule.arguments == ()
    assert rule("f() := a[i]").rule.arguments == ()


def test_options() -> None:
    found = one("a = b {id=first, dep=*x:y_*, inames=i:j, if=c > 0:f(x, y), tags=s:t, nosync=u:v, priority=-3}")
    assert found.id == "first"
    order = found.options.order
    assert (order.depends_on, order.depends_star, found.depends_on_is_final) == (("x", "y_*"), True, True)
    assert (found.loops.only, found.loops.extra) == (frozenset({"i", "j"}), frozenset())
    assert [show(predicate) for predicate in found.predicates] == ["c > 0", "f(x, y)"]
    assert (found.options.tags, order.priority) == (("s", "t"), -3)
    assert [entry.which for entry in order.nosync] == [Glob(Subject.ID, "u"), Glob(Subject.ID, "v")]
    found = one("a = b {id_prefix=copy, inames=+k, dep=*}")
    assert (found.id, found.options.id_prefix) == (None, "copy")
    assert (found.loops.only, found.loops.extra) == (None, frozenset({"k"}))
    assert (found.options.order.depends_on, found.options.order.depends_star) == ((), True)
    assert one("a = b {inames=}").loops.only == frozenset()
    assert one("a = b {}").loops.only is None


def test_for_blocks_are_numbered_loop_by_loop() -> None:
    found = instructions(
        """
        for i, j
            a = 1
            for k
                b = 1
            end
        end
        for i
            c = 1
        endfor
        d = 1
        """
    )
    assert [(x.loops.written, x.loops.numbers) for x in found] == [
        (("i", "j"), (0, 1)),
        (("i", "j", "k"), (0, 1, 2)),
        (("i",), (3,)),
        ((), ()),
    ]


def test_if_blocks_become_predicates() -> None:
    found = instructions(
        """
        if x > 0
            a = 1
            if y
                b = 1 {if=z}
            endif
        elif not x == 0
            c = 1
        else
            d = 1
        end
        if (x)
            e = 1
        end
        """
    )
    assert [[show(predicate) for predicate in x.predicates] for x in found] == [
        ["x > 0"],
        ["x > 0", "y", "z"],
        ["not x > 0", "not x == 0"],
        ["not x > 0", "x == 0"],
        ["x"],
    ]


def test_lines_go_on_in_brackets_after_a_backslash_and_before_options() -> None:
    found = instructions("a = f(b,  # the first\n      c)\n# a comment\nd = \\\n   e\n\n   {id=x,\n    dep=y}\ng = h")
    assert [x.place.text for x in found] == ["a = f(b, c)", "d = e {id=x, dep=y}", "g = h"]
    assert [x.place.line for x in found] == [1, 4, 9]


def test_several_strings_are_one_text() -> None:
    found = instructions(["for i", "a = 1\nb = 2", "end", "c = 3"])
    assert [(x.place.line, x.loops.written) for x in found] == [(2, ("i",)), (3, ("i",)), (5, ())]


def test_a_condition_may_be_changed_by_the_last_statement_of_its_block() -> None:
    assert len(instructions("if a[i] < m\n m = a[i]\nend\nx = 3")) == 2
    assert len(instructions("for i\nif a[i] < m\n m = a[i]\nend\nend")) == 1


_REFUSED = [
    ("for i\n a = 1", "unclosed-block", 1, 0, "this 'for' has no end"),
    ("if x\n a = 1", "unclosed-block", 1, 0, "this 'if' has no end"),
    ("a = 1\nend", "stray-end", 2, 0, "'end' ends no block"),
    ("for i\nendif", "stray-end", 2, 0, "'endif' meets the 'for' of line 1"),
    ("if x\nend for", "stray-end", 2, 0, "'end for' meets the 'if' of line 1"),
    ("else", "stray-end", 1, 0, "'else' belongs to no 'if'"),
    ("if x\nelse\nelif y\nend", "stray-end", 3, 0, "'elif' follows an 'else'"),
    ("for i\nelse\nend", "stray-end", 2, 0, "'else' belongs to no 'if'"),
    ("if x\nelse y\nend", "syntax", 2, 5, "nothing may follow 'else'"),
    ("for i\nend x y", "syntax", 2, 4, "nothing may follow 'end'"),
    ("for q\nend", "unknown-iname", 1, 4, "no iname 'q'"),
    ("for i:j\nend", "syntax", 1, 4, "'for' takes inames separated by commas"),
    ("for i,\nend", "syntax", 1, 4, "'for' takes inames separated by commas"),
    ("for\nend", "syntax", 1, 0, "'for' names no iname"),
    ("for i:\nend", "syntax", 1, 5, "no ':' belongs after 'for'"),
    ("for i\n  for i\nend\nend", "duplicate-iname", 2, 6, "a loop over 'i' is open already"),
    ("if\nend", "syntax", 1, 0, "'if' has no condition"),
    ("if x >\nend", "syntax", 1, 6, "the expression ends too early"),
    ("while x\nend", "unsupported-statement", 1, 0, "there is no 'while' statement"),
    ("with {id=x}\nend", "syntax", 1, 0, "a 'with' block cannot give one id to several instructions"),
    ("with\nend", "syntax", 1, 0, "'with' takes options in braces"),
    ("with {tags=x} a\nend", "syntax", 1, 0, "'with' takes options in braces"),
    ("with {tags=x}\n a = 1", "unclosed-block", 1, 0, "this 'with' has no end"),
    ("with {tags=x}\nendif", "stray-end", 2, 0, "'endif' meets the 'with' of line 1"),
    ("if x\n  ... lbarrier\nend", "conditional-barrier", 2, 2, "a barrier cannot depend on a condition"),
    ("... gbarrier {if=x}", "conditional-barrier", 1, 0, "a barrier cannot depend on a condition"),
    ("... gbarrier {inames=i}", "syntax", 1, 0, "a barrier takes no inames"),
    ("... lbarrier {mem_kind=global}", "barrier-memory", 1, 0, "'mem_kind=global' is not what ... lbarrier can do"),
    ("... gbarrier {mem_kind=local}", "barrier-memory", 1, 0, "'mem_kind=local' is not what ... gbarrier can do"),
    ("... lbarrier {mem_kind=x}", "syntax", 1, 0, "no kind of memory 'x'"),
    ("... nop x {id=a}", "unsupported-statement", 1, 0, "'...' begins no statement"),
    ("...", "unsupported-statement", 1, 0, "'...' begins no statement"),
    ("a, b = c", "unsupported-statement", 1, 7, "2 variables are assigned, and 1 value given"),
    ("a, b = c, d, e", "unsupported-statement", 1, 7, "2 variables are assigned, and 3 values given"),
    ("a, b += c, d", "syntax", 1, 5, "several variables cannot be updated with '+='"),
    ("a, = c, d", "syntax", 1, 2, "nothing is assigned to"),
    ("a, b = c,", "syntax", 1, 9, "an expression is missing"),
    ("a + b", "syntax", 1, 0, "this is neither an assignment nor a block"),
    ("a == b", "syntax", 1, 0, "this is neither an assignment nor a block"),
    ("a = b = c", "syntax", 1, 6, "unexpected '='"),
    ("a =", "syntax", 1, 2, "nothing follows '='"),
    ("= a", "syntax", 1, 0, "nothing is assigned to"),
    ("a[i = b", "syntax", 1, 1, "'[' is never closed"),
    ("a[i)] = b", "syntax", 1, 3, "')' does not close the bracket that is open"),
    ("a = b)", "syntax", 1, 5, "')' closes nothing"),
    ("a = \\", "syntax", 1, 0, "the text ends after a backslash"),
    ("a = b[i,\n  c $ d]", "syntax", 2, 4, "unexpected '$'"),
    ("x = 1\n\n   y = sum(kk, a[kk])", "unknown-iname", 3, 11, "no iname 'kk'"),
    ("f(x) = 3", "bad-identifier", 1, 0, "'f(x)' cannot be assigned to"),
    ("a + 1 = 3", "bad-identifier", 1, 0, "'a + 1' cannot be assigned to"),
    ("3 = a", "bad-identifier", 1, 0, "'3' is not a valid name"),
    ("__a = 3", "bad-identifier", 1, 0, "'__a' is not a valid name"),
    ("i = 3", "assignment-to-iname", 1, 0, "'i' is an iname and cannot be assigned to"),
    ("float = 3", "reserved-name", 1, 0, "'float' is a keyword of C or C++"),
    ("a = blockIdx", "reserved-name", 1, 4, "'blockIdx' is a name that C or CUDA defines"),
    ("exp(x) := x", "reserved-name", 1, 0, "'exp' is a function that expressions can call"),
    ("sum(x) := x", "reserved-name", 1, 0, "'sum' already means something in expressions"),
    ("<float33> t = 3", "unknown-dtype", 1, 1, "no element type 'float33'"),
    ("<> t += 3", "syntax", 1, 0, "a declaration cannot update with '+='"),
    ("<t = 3", "syntax", 1, 0, "'<' begins no declaration"),
    ("<> f(x) := 3", "syntax", 1, 0, "a substitution rule declares no temporary"),
    ("f(x) := 1\nf(y) := 2", "name-taken", 2, 0, "there are two rules 'f'"),
    ("f(x) := 1 {id=a}", "syntax", 1, 0, "a substitution rule takes no options"),
    ("f(x, x) := 1", "syntax", 1, 5, "parameter 'x' occurs twice"),
    ("f(x,) := 1", "syntax", 1, 4, "a parameter is missing"),
    ("f(2) := 1", "bad-identifier", 1, 2, "'2' is not a valid name"),
    ("f(x)y := 1", "syntax", 1, 4, "only ':=' may follow the parameters"),
    (":= 1", "syntax", 1, 0, "the substitution rule has no name"),
    ("a = b {id=x} c", "syntax", 1, 13, "options end the statement"),
    ("{id=x}", "syntax", 1, 0, "options belong to no statement"),
    ("a = b {foo=1}", "unknown-option", 1, 7, "no option 'foo'"),
    ("a = b {id=x, id=y}", "syntax", 1, 13, "option 'id' is given twice"),
    ("a = b {id}", "syntax", 1, 7, "option 'id' has no value"),
    ("a = b {if=}", "syntax", 1, 7, "option 'if' has no value"),
    ("a = b {id=x,}", "syntax", 1, 12, "an option is missing"),
    ("a = b {id=3x}", "bad-identifier", 1, 10, "'3x' cannot be an instruction id"),
    ("a = b {dep=x y}", "syntax", 1, 11, "'x y' is not an instruction id or a pattern"),
    ("a = b {inames=i:ii}", "unknown-iname", 1, 16, "no iname 'ii'"),
    ("a = b {dup=q}", "unknown-iname", 1, 11, "no iname 'q'"),
    ("a = b {dup=i:i}", "duplicate-iname", 1, 13, "'i' is duplicated twice"),
    ("a = b {dup=i->2}", "bad-identifier", 1, 14, "'2' is not a valid iname"),
    ("a = b {nosync=c@here}", "syntax", 1, 16, "no scope 'here'"),
    ("a = b {dep_query=id:c and}", "syntax", 1, 24, "the match expression ends too early"),
    ("a = b {dep_query=id:c id:d}", "syntax", 1, 22, "unexpected text in a match expression"),
    ("a = b {dep_query=and}", "syntax", 1, 17, "unexpected 'and' in a match expression"),
    ("a = b {dep_query=id:c & id:d}", "syntax", 1, 22, "this is no match expression"),
    ("a = b {priority=x}", "syntax", 1, 16, "the priority is not an integer"),
    ("if x\n x = 1\n y = 2\nend", "condition-changed", 2, 1,
     "'x' is written inside an 'if' block whose condition reads it"),
    ("if x\n x = 1\nelse\n y = 2\nend", "condition-changed", 2, 1,
     "'x' is written inside an 'if' block whose condition reads it"),
    ("if x\nfor i\n x = 1\nend\nend", "condition-changed", 3, 1,
     "'x' is written inside an 'if' block whose condition reads it"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "line", "column", "message"), _REFUSED)
def test_refusal_names_the_fault_and_its_place(text: str, code: str, line: int, column: int, message: str) -> None:
    with pytest.raises(KernelError) as error:
        parse_instructions(text, INAMES)
    (found,) = error.value.found
    assert (found.code, found.message) == (code, message)
    assert found.span is not None
    assert (found.span.line, found.span.column) == (line, column)
    assert found.span.text == text.split("\n")[line - 1]
    assert found.hints
    assert error.value.operation == "make_kernel"


def test_the_message_as_the_user_reads_it() -> None:
    with pytest.raises(KernelError) as error:
        parse_instructions("\n    for i\n        out[i] = 2*inp[ii]*sum(kk, a[kk])\n    end", INAMES)
    assert str(error.value) == (
        "make_kernel: no iname 'kk' [unknown-iname]\n"
        "          out[i] = 2*inp[ii]*sum(kk, a[kk])    (line 3)\n"
        "                                 ^^\n"
        "  Hint: did you mean 'k'?"
    )


_SEEDS = (
    "<> t = a[i, j]*b[j] + sum(k, c[k]) {id=one, dep=two:three*, inames=+i}\n",
    "for i, j\n  x[i] += if(y > 0, min(a, b), max(k, c[k]))\nend\n",
    "if x >= 2 and not y\n  z = 3 // w % 4\nelif q\n  z = cast(float32, 1e-3)\nelse\n  z = -w**2\nend\n",
    "f(x, y) := x << y | ~x & 7\n<float32> acc = 0.5 {if=t < 3:u, tags=a:b}\n",
    "a[b[i] + 1] -= reduce(sum, (i, k), d[i, k]) \\\n   {nosync=x, priority=3}\n",
    "with {tags=s, dep_query=(writes:a* and not (tag:t or iname:i))}\n  a[i], b[i] = b[i], a[i] {id=swap}\nend\n",
    "for i\n  t = a[i] {dup=i->ii, nosync_query=(reads:a)@global}\n  ... lbarrier {id=bar, dep=x:y*}\nend\n",
    "... nop {id=all, dep=load_*}\n... gbarrier\nb[j] = 1 {dup=j:jj, groups=g:h, conflicts=k, atomic}\n",
)
_TOKENS = (
    *"()[]{}<>=+-*/%&|^~!:;,.#\\\n\t '\"@$`?0123456789eEfjxik_", "if", "if(", "for ", "end\n", "else\n", "elif ",
    "and ", "or ", "not ", "in ", "is ", "lambda ", ":=", "**", "//", "<<=", "{id=", "dep=", "sum(", "max(", "cast(",
    "float32", "0x", "1e999", "1j", "9" * 30, "(" * 150, "-" * 300, "\u00e9", "\x00", "\u2028", "\r", "\x0c", "async ",
    "f\"", "...", "with ", "nop", "lbarrier", "dep_query=(", "writes:", "->", "@local", ", b",
)  # fmt: skip


def _mutated(source: random.Random) -> str:
    text = "".join(source.choices(_SEEDS, k=source.randint(1, 3)))
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(text) + 1)
        kind = source.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + source.randint(1, 4) :]
        elif kind == 1:
            text = text[:at] + source.choice(_TOKENS) + text[at:]
        elif kind == 2:
            text = text[:at] + source.choice(_TOKENS) + text[at + 1 :]
        else:
            other = source.randrange(len(text) + 1)
            text = text[:at] + text[min(at, other) : max(at, other)] + text[at:]
    return text


def _parses_or_is_refused(text: str) -> bool:
    """Return whether *text* is accepted; any exception but a rendered refusal escapes."""
    try:
        found = parse_instructions(text, INAMES)
    except KernelError as error:
        (diagnostic,) = error.found
        assert diagnostic.span is not None, text
        assert 0 <= diagnostic.span.column <= len(diagnostic.span.text), text
        assert diagnostic.hints, text
        return False
    for entry in found:
        if isinstance(entry, ParsedInstruction | ParsedRule):
            show(entry.rule.expression if isinstance(entry, ParsedRule) else entry.expression)
    return True


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("error")
def test_mutated_statements_are_parsed_or_refused(seed: int) -> None:
    source = random.Random(seed)
    accepted = sum(_parses_or_is_refused(_mutated(source)) for _ in range(500))
    assert 5 < accepted < 490


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_many_mutated_statements_are_parsed_or_refused() -> None:
    source = random.Random(4711)
    for _ in range(100_000):
        _parses_or_is_refused(_mutated(source))
