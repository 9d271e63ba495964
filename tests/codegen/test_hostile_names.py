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
from polyloop.codegen.names import Spelling, listed_words, local_words
from polyloop.expr.names import KERNEL_NAME
from polyloop.runtime.fibres import fibre_library, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda, nvrtc_available
from polyloop.target.c import C_LANGUAGE
from polyloop.target.cuda import CUDA_LANGUAGE
from polyloop.testing.hostile import HOSTILE, acceptable
from tests.gallery import GALLERY

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


def chunks(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield *names* that a kernel can have, some at a time."""
    good = [name for name in names if acceptable(name)]
    yield from (good[k : k + CHUNK] for k in range(0, len(good), CHUNK))


def f32(*names: str, shape: str = "size") -> pl.GlobalArg:
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
    lines = [f"answer[{k}, ii] = {WORK.format(f'{name}[ii]')}" for k, name in enumerate(names)]
    knl = pl.make_kernel("{[ii]: 0 <= ii < size}", "\n".join(lines),
                         [*map(f32, names), f32("answer", shape=f"{len(names)}, size"), ...],
                         name="kernel_")  # fmt: skip
    given = {name: values() + k for k, name in enumerate(names)}
    return knl, given, {"answer": np.stack([expected(a) for a in given.values()])}


def as_outputs(names: Sequence[str]) -> Case:
    """Return a kernel that writes arrays with *names*."""
    lines = [f"{name}[ii] = {WORK.format('given[ii]')} + {k}" for k, name in enumerate(names)]
    knl = pl.make_kernel("{[ii]: 0 <= ii < size}", "\n".join(lines), [f32("given"), *map(f32, names), ...],
                         name="kernel_")  # fmt: skip
    return knl, {"given": values()}, {name: expected(values()) + np.float32(k) for k, name in enumerate(names)}


def as_inames(names: Sequence[str]) -> Case:
    """Return a kernel with loops over *names*, which are values too."""
    domains = [f"{{[{name}]: 0 <= {name} < size}}" for name in names]
    lines = [f"answer[{k}, {name}] = {WORK.format(f'given[{name}]')} + {name}" for k, name in enumerate(names)]
    knl = pl.make_kernel(domains, "\n".join(lines),
                         [f32("given"), f32("answer", shape=f"{len(names)}, size"), ...], name="kernel_")  # fmt: skip
    row = expected(values()) + np.arange(N, dtype=np.float32)
    return knl, {"given": values()}, {"answer": np.stack([row] * len(names))}


def as_parameters(names: Sequence[str]) -> Case:
    """Return a kernel whose sizes are *names*."""
    domains = [f"{{[i{k}]: 0 <= i{k} < {name}}}" for k, name in enumerate(names)]
    lines = [f"answer{k}[i{k}] = {WORK.format(f'given{k}[i{k}]')} + {name}" for k, name in enumerate(names)]
    data = [f32(f"given{k}", f"answer{k}", shape=name) for k, name in enumerate(names)]
    knl = pl.make_kernel(domains, "\n".join(lines), [*data, ...], name="kernel_")
    given = {f"given{k}": values()[: 2 + k % 4] for k in range(len(names))}
    wanted = {f"answer{k}": expected(a) + np.float32(len(a)) for k, a in enumerate(given.values())}
    return knl, given | {name: 2 + k % 4 for k, name in enumerate(names)}, wanted


def as_temporaries(names: Sequence[str]) -> Case:
    """Return a kernel with variables and rules called *names*."""
    lines = []
    for k, name in enumerate(names):
        lines.append(f"{name} = {WORK.format('given[ii]')} {{id=set_{k}}}")
        lines.append(f"answer[{k}, ii] = {name} * 2 {{id=use_{k}}}")
    data: list[object] = [f32("given"), f32("answer", shape=f"{len(names)}, size")]
    data += [pl.TemporaryVariable(name, np.float32) for name in names]
    knl = pl.make_kernel("{[ii]: 0 <= ii < size}", "\n".join(lines), [*data, ...], name="kernel_")
    return knl, {"given": values()}, {"answer": np.stack([2 * expected(values())] * len(names))}


def as_rules(names: Sequence[str]) -> Case:
    """Return a kernel with substitution rules and ids called *names*."""
    rules = [f"{name}(p) := {WORK.format('given[p]')} + {k}" for k, name in enumerate(names)]
    lines = [f"answer[{k}, ii] = {name}(ii) {{id={name}}}" for k, name in enumerate(names)]
    knl = pl.make_kernel("{[ii]: 0 <= ii < size}", "\n".join([*rules, *lines]),
                         [f32("given"), f32("answer", shape=f"{len(names)}, size"), ...], name="kernel_")  # fmt: skip
    wanted = np.stack([expected(values()) + np.float32(k) for k in range(len(names))])
    return knl, {"given": values()}, {"answer": wanted}


def as_fields(names: Sequence[str]) -> Case:
    """Return a kernel on records whose fields are *names*."""
    record = pl.record("particle", [(name, np.float32) for name in names])
    lines = [f"there[ii].{name} = {WORK.format(f'here[ii].{name}')}" for name in names]
    data = [pl.GlobalArg("here, there", record, shape="size")]
    knl = pl.make_kernel("{[ii]: 0 <= ii < size}", "\n".join(lines), [*data, ...], name="kernel_")
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


@pytest.mark.parametrize("role", ROLES)
def test_the_worst_names_are_names(role: str) -> None:
    for names in chunks(WORST):
        check(ROLES[role](names))


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_all_names_are_names(role: str) -> None:
    for names in chunks(HOSTILE):
        check(ROLES[role](names))


def kernels_called(names: Sequence[str], kind: str = KERNEL_NAME) -> list[pl.LoopKernel]:
    """Return a kernel for each name that a kernel can have, with an array of its own name."""
    found = []
    for name in names:
        if acceptable(name, kind) and acceptable(name):
            text = f"{name}[ii] = {WORK.format('given[ii]')}"
            found.append(pl.make_kernel("{[ii]: 0 <= ii < size}", text, [f32("given", name), ...], name=name))
    return found


def check_kernel_names(names: Sequence[str]) -> None:
    """Run kernels with *names*, all in one file."""
    kernels = kernels_called(names)
    programs = [pl.generate_code(knl, target=pl.CudaTarget()) for knl in kernels]
    library = fibre_library(*programs, quick=True)
    for program in programs:
        got = run_on_fibres(program, {"given": values()}, orders=("forward",), library=library)["forward"]
        same(got, {program.kernel: expected(values())}, program.kernel)
    if nvrtc_available()[0]:
        compile_cuda("\n".join(program.device_code for program in programs))


def test_kernels_with_the_worst_names() -> None:
    check_kernel_names(WORST)
    for knl in kernels_called(("step", "read", "linux", "time", "a")):
        same(pl.compile(knl, target=pl.CTarget())(given=values()), {knl.name: expected(values())}, knl.name)


@pytest.mark.slow
def test_kernels_with_all_names() -> None:
    check_kernel_names(HOSTILE)
    for knl in kernels_called(HOSTILE):
        same(pl.compile(knl, target=pl.CTarget())(given=values()), {knl.name: expected(values())}, knl.name)


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
    said = "// Names that mean something else in C or CUDA: sqrtf_ is 'sqrtf', "
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
