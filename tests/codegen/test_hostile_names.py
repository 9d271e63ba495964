"""Names that mean something in C, CUDA or Python, as names of everything that a kernel has."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.generate import generate
from polyloop.codegen.names import Spelling, listed_words, local_words
from polyloop.codegen.tree import offsets
from polyloop.expr.nodes import CText
from polyloop.runtime.fibres import fibre_library, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda, nvrtc_available
from polyloop.schedule.build import build_schedule
from polyloop.target.c import C_LANGUAGE
from polyloop.target.cuda import CUDA_LANGUAGE
from polyloop.testing.drawing.hostile import HOSTILE
from tests.gallery import GALLERY, Example
from tests.generated import flat

N: Final = 6
_WORST: Final = """
HUGE_VAL INT8_MAX RAND_MAX MB_CUR_MAX FP_NAN SIZE_MAX M_PI linux unix I complex sqrtf expf fmaxf fminf fabsf step read
remove write exit memcpy printf stream poison self args out queue grid block device keys bx tx floordiv_int32
min_int32 to_float pack atomicAdd make_value_index value_index result _Foo __x isnan signbit POLYLOOP_FLOORDIV_INT32
clock time y0 index x y
"""
WORST: Final = tuple(_WORST.split())
CHUNK: Final = 24

Case = tuple[pl.LoopKernel, dict[str, Any], dict[str, Any]]


REFUSALS: Final = {
    "reserved-name", "bad-identifier", "bad-record", "syntax", "syntax-domain", "name-taken",
    "unsupported-statement", "stray-end",  # continue(p) := .., elif(p) := ..
}  # fmt: skip


def is_accepted(name: str, make: Callable[[Sequence[str]], object]) -> bool:
    """Return whether a kernel can have the name; it is refused by a message that is about names."""
    try:
        make([name])
    except pl.KernelError as refused:
        if {*refused.codes} <= REFUSALS:
            return False
        raise
    return True


def chunks(names: Sequence[str], role: str) -> Iterator[list[str]]:
    """Yield *names* that a kernel can have, some at a time."""
    good = [name for name in names if is_accepted(name, ROLES[role])]
    assert len(good) > len(names) // 3
    yield from (good[k : k + CHUNK] for k in range(0, len(good), CHUNK))


def f32(*names: str, shape: str = "SIZE") -> pl.GlobalArg:
    """Return array arguments."""
    return pl.GlobalArg(", ".join(names), np.float32, shape=shape)


def values() -> Any:
    """Return numbers for functions that hostile names may stand for."""
    return np.linspace(0.5, 2.5, N, dtype=np.float32)


WORK: Final = "max(sqrt({0}), fabs({0})) + {0} // 2"


def expected(given: Any) -> Any:
    """Return what WORK is."""
    return np.maximum(np.sqrt(given), np.abs(given)) + given // np.float32(2)


def as_inputs(names: Sequence[str]) -> Case:
    """Return a kernel that reads arrays with *names*."""
    lines = [f"ANSWER_[{k}, I_I_] = {WORK.format(f'{name}[I_I_]')}" for k, name in enumerate(names)]
    knl = pl.make_kernel("{[I_I_]: 0 <= I_I_ < SIZE}", "\n".join(lines),
                         [*map(f32, names), f32("ANSWER_", shape=f"{len(names)}, SIZE"), ...],
                         name="kernel_")  # fmt: skip
    given = {name: values() + k for k, name in enumerate(names)}
    return knl, given, {"ANSWER_": np.stack([expected(a) for a in given.values()])}


def as_outputs(names: Sequence[str]) -> Case:
    """Return a kernel that writes arrays with *names*."""
    lines = [f"{name}[I_I_] = {WORK.format('GIVEN_[I_I_]')} + {k}" for k, name in enumerate(names)]
    knl = pl.make_kernel("{[I_I_]: 0 <= I_I_ < SIZE}", "\n".join(lines), [f32("GIVEN_"), *map(f32, names), ...],
                         name="kernel_")  # fmt: skip
    return knl, {"GIVEN_": values()}, {name: expected(values()) + np.float32(k) for k, name in enumerate(names)}


def as_inames(names: Sequence[str]) -> Case:
    """Return a kernel with loops over *names*, which are values too."""
    domains = [f"{{[{name}]: 0 <= {name} < SIZE}}" for name in names]
    lines = [f"ANSWER_[{k}, {name}] = {WORK.format(f'GIVEN_[{name}]')} + {name}" for k, name in enumerate(names)]
    knl = pl.make_kernel(domains, "\n".join(lines),
                         [f32("GIVEN_"), f32("ANSWER_", shape=f"{len(names)}, SIZE"), ...], name="kernel_")  # fmt: skip
    row = expected(values()) + np.arange(N, dtype=np.float32)
    return knl, {"GIVEN_": values()}, {"ANSWER_": np.stack([row] * len(names))}


def as_parameters(names: Sequence[str]) -> Case:
    """Return a kernel whose sizes are *names*."""
    domains = [f"{{[I{k}]: 0 <= I{k} < {name}}}" for k, name in enumerate(names)]
    lines = [f"ANSWER_{k}[I{k}] = {WORK.format(f'GIVEN_{k}[I{k}]')} + {name}" for k, name in enumerate(names)]
    data = [f32(f"GIVEN_{k}", f"ANSWER_{k}", shape=name) for k, name in enumerate(names)]
    knl = pl.make_kernel(domains, "\n".join(lines), [*data, ...], name="kernel_")
    given = {f"GIVEN_{k}": values()[: 2 + k % 4] for k in range(len(names))}
    wanted = {f"ANSWER_{k}": expected(a) + np.float32(len(a)) for k, a in enumerate(given.values())}
    return knl, given | {name: 2 + k % 4 for k, name in enumerate(names)}, wanted


def as_temporaries(names: Sequence[str]) -> Case:
    """Return a kernel with variables and rules called *names*."""
    lines = []
    for k, name in enumerate(names):
        lines.append(f"{name} = {WORK.format('GIVEN_[I_I_]')} {{id=set_{k}}}")
        lines.append(f"ANSWER_[{k}, I_I_] = {name} * 2 {{id=use_{k}}}")
    data: list[object] = [f32("GIVEN_"), f32("ANSWER_", shape=f"{len(names)}, SIZE")]
    data += [pl.TemporaryVariable(name, np.float32) for name in names]
    knl = pl.make_kernel("{[I_I_]: 0 <= I_I_ < SIZE}", "\n".join(lines), [*data, ...], name="kernel_")
    return knl, {"GIVEN_": values()}, {"ANSWER_": np.stack([2 * expected(values())] * len(names))}


def as_rules(names: Sequence[str]) -> Case:
    """Return a kernel with substitution rules and ids called *names*."""
    rules = [f"{name}(p) := {WORK.format('GIVEN_[p]')} + {k}" for k, name in enumerate(names)]
    lines = [f"ANSWER_[{k}, I_I_] = {name}(I_I_) {{id={name}}}" for k, name in enumerate(names)]
    knl = pl.make_kernel("{[I_I_]: 0 <= I_I_ < SIZE}", "\n".join([*rules, *lines]),
                         [f32("GIVEN_"), f32("ANSWER_", shape=f"{len(names)}, SIZE"), ...], name="kernel_")  # fmt: skip
    wanted = np.stack([expected(values()) + np.float32(k) for k in range(len(names))])
    return knl, {"GIVEN_": values()}, {"ANSWER_": wanted}


def as_fields(names: Sequence[str]) -> Case:
    """Return a kernel on records whose fields are *names*."""
    record = pl.record("particle", [(name, np.float32) for name in names])
    lines = [f"there[I_I_].{name} = {WORK.format(f'here[I_I_].{name}')}" for name in names]
    data = [pl.GlobalArg("here, there", record, shape="SIZE")]
    knl = pl.make_kernel("{[I_I_]: 0 <= I_I_ < SIZE}", "\n".join(lines), [*data, ...], name="kernel_")
    given = np.zeros(N, record)
    wanted = np.zeros(N, record)
    for k, name in enumerate(names):
        given[name] = values() + k
        wanted[name] = expected(given[name])
    return knl, {"here": given, "there": np.zeros(N, record)}, {"there": wanted}


ROLES: Final[dict[str, Callable[[Sequence[str]], Case]]] = {
    role.__name__.removeprefix("as_"): role
    for role in (as_inputs, as_outputs, as_inames, as_parameters, as_temporaries, as_rules, as_fields)
}


def same(got: Any, wanted: Any, what: str) -> None:
    """Compare what a run gave."""
    for name, array in wanted.items():
        found = np.asarray(got[name])
        if array.dtype.names:
            for field in array.dtype.names:
                np.testing.assert_allclose(found[field], array[field], 1e-5, err_msg=f"{what}: {name}.{field}")
        else:
            np.testing.assert_allclose(found, array, 1e-5, err_msg=f"{what}: {name}")


def check(case: Case) -> None:
    """Run a kernel on C and on fibres, and let NVRTC compile it."""
    knl, given, wanted = case
    compiled = pl.compile(knl, target=pl.CTarget())
    for _ in range(3):  # checked, kept, repeated
        same(compiled(**given), wanted, "C")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    same(run_on_fibres(program, given, orders=("forward",))["forward"], wanted, "fibres")
    if nvrtc_available()[0]:
        compile_cuda(program.device_code)


@pytest.mark.few(2)
@pytest.mark.parametrize("role", ROLES)
def test_the_worst_names_are_names(role: str) -> None:
    for names in chunks(WORST, role):
        check(ROLES[role](names))


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_all_names_are_names(role: str) -> None:
    for names in chunks(HOSTILE, role):
        check(ROLES[role](names))


def called(names: Sequence[str]) -> pl.LoopKernel:
    """Return a kernel with one of *names*, and an array of the same."""
    (name,) = names
    text = f"{name}[I_I_] = {WORK.format('GIVEN_[I_I_]')}"
    return pl.make_kernel("{[I_I_]: 0 <= I_I_ < SIZE}", text, [f32("GIVEN_", name), ...], name=name)


def kernels_called(names: Sequence[str]) -> list[pl.LoopKernel]:
    """Return a kernel for each name that a kernel can have."""
    return [called([name]) for name in names if is_accepted(name, called)]


def check_kernel_names(names: Sequence[str]) -> None:
    """Run kernels with *names*, all in one file."""
    kernels = kernels_called(names)
    programs = [pl.generate_code(knl, target=pl.CudaTarget()) for knl in kernels]
    library = fibre_library(*programs, quick=True)
    for program in programs:
        got = run_on_fibres(program, {"GIVEN_": values()}, orders=("forward",), library=library)["forward"]
        same(got, {program.kernel: expected(values())}, program.kernel)
    if nvrtc_available()[0]:
        compile_cuda("\n".join(program.device_code for program in programs))


def test_kernels_with_the_worst_names() -> None:
    check_kernel_names(WORST)
    for knl in kernels_called(("step", "read", "linux", "time", "a")):
        same(pl.compile(knl, target=pl.CTarget())(GIVEN_=values()), {knl.name: expected(values())}, knl.name)


@pytest.mark.slow
def test_kernels_with_all_names() -> None:
    check_kernel_names(HOSTILE)
    for knl in kernels_called(HOSTILE):
        same(pl.compile(knl, target=pl.CTarget())(GIVEN_=values()), {knl.name: expected(values())}, knl.name)


@pytest.mark.parametrize("name", ["particle", "step", "x"])
def test_a_record_has_the_name_of_an_array_a_kernel_and_a_field(name: str) -> None:
    record = pl.record(name, [(name, np.float32), ("result", np.float32)])
    outer = pl.record("outer", [(name, record), ("other", np.float32)])
    lines = f"""
        held = {name}[i] {{id=hold}}
        there[i].{name} = held {{id=whole}}
        there[i].other = held.{name} + held.result {{id=part}}
        top[i], place[i] = argmax(j, {name}[j].result, j)
    """
    data = [pl.GlobalArg(name, record, shape="n"), pl.GlobalArg("there", outer, shape="n"),
            pl.TemporaryVariable("held", record), pl.GlobalArg("top", np.float32, shape="n"), ...]  # fmt: skip
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < n}", lines, data, name=name)
    given = np.zeros(N, record)
    given[name], given["result"] = values(), values()[::-1]
    check((knl, {name: given, "there": np.zeros(N, outer)}, {"top": np.full(N, values()[-1]), "place": np.zeros(N)}))


def test_a_reason_hides_no_line() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [f32("x", "y", shape="n"), ...])
    knl = pl.unchecked(knl, "why??/")
    same(pl.compile(knl, target=pl.CTarget())(x=values()), {"y": 2 * values()}, "C")


@pytest.mark.parametrize("name", ["nan", "NaN", "infty", "mod", "Exists"])
def test_words_of_domains_are_refused(name: str) -> None:
    here = f"{{[i]: 0 <= i < {name}}}"
    for domain in (f"{{[{name}]: 0 <= {name} < n}}", here, f"[{name}] -> {here}"):
        with pytest.raises(pl.KernelError):
            pl.make_kernel(domain, "y[0] = 1", [f32("y", shape="1"), ...])
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"y[i] = {name}", [f32("y", shape="n"), pl.ValueArg(name, np.int32), ...])
    same(pl.compile(knl, target=pl.CTarget())(n=2, **{name: 3}), {"y": np.full(2, 3)}, "C")


@pytest.mark.parametrize("name", ["\u00b5", "\uff41", "\ufb01", "a b", "1a", "__a", "a\u0301"])
def test_what_is_no_ascii_identifier_is_refused(name: str) -> None:
    for role in (*ROLES.values(), called):
        assert not is_accepted(name, role)


def moved_and_back(entry: Example, target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every name move, and check that the text is the same but for the names, and what describes it is the same."""
    if target.name in entry.refused:
        return
    schedule = build_schedule(entry.build(), target.limits)
    if any(isinstance(statement.rhs, CText) for statement in schedule.statements.values()):
        return  # C text of the user's says names
    with monkeypatch.context() as patch:  # whether an offset has a name depends on lengths, which move here: name all
        patch.setattr(offsets._Offsets, "_saved", lambda _, shared: shared.count - 1)
        patch.setattr(offsets, "_LEAST", 1)
        patch.setattr(offsets, "_LEAST_PRODUCT", 1)
        patch.setattr(offsets._Offsets, "_wish", lambda *_: "shared_part")
        own = generate(schedule, target.language)
        for what in ("local", "field"):
            patch.setattr(Spelling, what, lambda _, name: f"{name}_q")
        moved = generate(schedule, target.language)
    header = r"(?m)^// Names with another meaning .*\n(?://     .*\n)*"
    text = re.sub(header, "", moved.device_code)
    plain = re.sub(r"_q(?![a-zA-Z0-9])", "", text).replace("_q_", "_")
    wanted = re.sub(header, "", own.device_code)
    hashed = re.compile(r"(POLYLOOP_\w+)_[0-9A-F]{8}\b")
    assert flat(hashed.sub(r"\1", plain)) == flat(hashed.sub(r"\1", wanted)), entry.name
    for part in ("arguments", "checks", "split", "alignments", "notes", "indexed"):
        assert repr(getattr(own, part)) == repr(getattr(moved, part)), f"{entry.name}: {part}"


@pytest.mark.parametrize("target", [pl.CTarget(), pl.CudaTarget()], ids=lambda target: target.name)
def test_every_name_can_move(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    some = ["extremes_by_compare_and_swap", "gram_matrix", "rotate", "segments_by_blocks", "wide_rows"]
    for name in (*list(GALLERY)[::20], *(name for name in some if name in GALLERY)):
        moved_and_back(GALLERY[name], target, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("target", [pl.CTarget(), pl.CudaTarget()], ids=lambda target: target.name)
def test_every_name_can_move_in_the_whole_gallery(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in GALLERY.values():
        moved_and_back(entry, target, monkeypatch)


@pytest.mark.parametrize("language", [C_LANGUAGE, CUDA_LANGUAGE], ids=lambda language: language.name)
def test_no_two_names_become_one(language: Any) -> None:
    how = Spelling(language)
    names = {f"{name}{'_' * k}" for name in HOSTILE for k in range(3)}
    names |= {f"{'name' * k}{name}" for name in ("_Foo", "_foo", "_", "_1", "_X_") for k in range(3)}
    for spelt in (how.local, how.at_file_scope):
        assert len({spelt(name) for name in names}) == len(names)
        words = local_words(language) | listed_words("macros")
        assert not {spelt(name) for name in names if not name.startswith("__")} & words
    assert [how.local(name) for name in ("a", "i_outer", "x_", "_x", "time")] == ["a", "i_outer", "x_", "_x", "time"]


def test_a_program_says_what_it_calls_otherwise() -> None:
    knl = pl.make_kernel("{[linux]: 0 <= linux < M_PI}", "out[linux] = sqrtf[linux]",
                         [f32("sqrtf", "out", shape="M_PI"), ...], name="read")  # fmt: skip
    program = pl.generate_code(knl, target=pl.CTarget())
    said = "// Names with another meaning in C or CUDA: sqrtf_ is 'sqrtf', "
    assert program.device_code.splitlines()[0].startswith(said)
    assert dict(program.renamed) == {"sqrtf": "sqrtf_", "M_PI": "M_PI_", "linux": "linux_", "read": "read_"}
    assert program.kernel == "read"
    assert program.launches[0].name == "read_"
    assert [argument.name for argument in program.arguments] == ["sqrtf", "out", "M_PI"]
    with pytest.raises(pl.ArgumentError) as refused:
        pl.compile(knl, target=pl.CTarget())(sqrtf=values(), M_PI=N + 1)
    assert "M_PI_" not in str(refused.value)
    assert "sqrtf_" not in str(refused.value)


def test_names_that_the_users_preamble_defines_are_words() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "out[i] = BLOCK[i]", [f32("BLOCK", "out", shape="n"), ...],
                         preambles=[("sizes", "#define BLOCK 16\n")])  # fmt: skip
    same(pl.compile(knl, target=pl.CTarget())(BLOCK=values()), {"out": values()}, "C")


def compilers() -> list[str]:
    """Return the C compilers of this machine."""
    names = ["gcc", "clang", *(f"gcc-{n}" for n in range(9, 16)), *(f"clang-{n}" for n in range(11, 22))]
    return [name for name in names if shutil.which(name)]


HEADERS: Final = "math stdbool stdint stdlib complex float limits stddef string stdio"


@pytest.mark.parametrize("compiler", compilers())
def test_the_list_has_the_macros_of_the_headers(compiler: str) -> None:
    source = "".join(f"#include <{name}.h>\n" for name in HEADERS.split())
    missing: set[str] = set()
    for options in (["-std=c11"], ["-std=gnu17", "-D_GNU_SOURCE"]):
        done = subprocess.run([compiler, *options, "-x", "c", "-dM", "-E", "-"], input=source, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        macros = set(re.findall(r"^#define (\w+)", done.stdout, re.MULTILINE))
        missing |= {name for name in macros if not name.startswith("_")}
    # "I" is undefined again in each text that includes complex.h
    assert missing - listed_words("macros") == {"I"}


def test_what_texts_say_is_known() -> None:
    declared = listed_words("declared") | listed_words("macros")
    for target, language in ((pl.CTarget(), C_LANGUAGE), (pl.CudaTarget(), CUDA_LANGUAGE)):
        for entry in list(GALLERY.values())[::7]:
            if target.name in entry.refused:
                continue
            program = pl.generate_code(entry.build(), target=target)
            body = re.sub(r"//[^\n]*|\"[^\"]*\"|#include[^\n]*|\.\w+", "", program.device_code)
            said = set(re.findall(r"\b[A-Za-z]\w*", body)) & declared
            knl = entry.build()
            users = knl.names() | {knl.name}
            how = Spelling(language)
            assert {name for name in said - users if how.local(name) == name} <= {"I"}, entry.name
