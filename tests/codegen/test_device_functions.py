"""Device functions: a language has an entry, or text that needs it is refused; another language fills in its own."""

import re
from dataclasses import replace

import pytest

import polyloop as pl
from polyloop.codegen.device.entries import (
    Atomics,
    Copies,
    Entry,
    Loads,
    LookBack,
    Matrices,
    Reductions,
    Shuffles,
    Threads,
)
from polyloop.codegen.generate import generate
from polyloop.codegen.language import Language
from polyloop.kernel.limits import DeviceLimits
from polyloop.schedule.build import build_schedule
from polyloop.target.c import C_LANGUAGE
from tests.gallery import GALLERY

TARGET = pl.CudaTarget()
NEEDED = {
    Shuffles: ("exchanged_within_a_warp", "complex_dots_by_warps", "best_segment_of_a_group"),
    Atomics: ("histogram", "extremes_by_compare_and_swap"),
    LookBack: ("prefix_sum_by_blocks", "prefix_sum_by_blocks_of_one_thread", "segments_by_blocks"),
    Matrices: ("gram_matrix", "layer_on_tensor_cores"),
}
CASES = [(kind, name) for kind, names in NEEDED.items() for name in names]


def without(kind: type[Entry]) -> Language:
    return replace(TARGET.language, device=tuple(entry for entry in TARGET.language.device if type(entry) is not kind))


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind.__name__}-{name}" for kind, name in CASES])
def test_what_a_language_lacks_is_refused(kind: type[Entry], name: str) -> None:
    schedule = build_schedule(GALLERY[name].build(), TARGET.limits)
    with pytest.raises(pl.CodegenError) as refusal:
        generate(schedule, without(kind))
    assert [found.code for found in refusal.value.found] == ["unsupported-device-function"]
    assert f"kernel '{schedule.name}': target 'cuda' has no {kind.what}" in str(refusal.value)
    assert f"no entry '{kind.__name__}'" in str(refusal.value)
    assert kind.hint in str(refusal.value)


@pytest.mark.parametrize("kind", [Reductions, Copies, Loads])
def test_what_can_be_done_otherwise_is_no_need(kind: type[Entry]) -> None:
    for name in ("complex_dots_by_warps", "prefix_sum_by_blocks", "layer_on_tensor_cores"):
        assert generate(build_schedule(GALLERY[name].build(), TARGET.limits), without(kind)).device_code


def test_an_ordinary_kernel_needs_nothing_but_threads() -> None:
    language = replace(TARGET.language, device=tuple(x for x in TARGET.language.device if type(x) is Threads))
    schedule = build_schedule(GALLERY["batch_of_products"].build(), TARGET.limits)
    assert generate(schedule, language).device_code == generate(schedule, TARGET.language).device_code


LIMITS = DeviceLimits(warp_size=1)
OPENCL = replace(
    C_LANGUAGE,
    name="opencl",
    syntax=replace(C_LANGUAGE.syntax, header="", function="__kernel void"),
    limits=LIMITS,
    device=(
        Threads(
            {f"{a}.{n}": f"get_{scope}_id({n})" for a, scope in (("g", "group"), ("l", "local")) for n in range(3)},
            block_barrier="barrier(CLK_LOCAL_MEM_FENCE);",
            warp_barrier="",
            shared="__local ",
            global_space="__global ",
        ),
    ),
)
"""A device without warps: the tables of C, and threads."""


@pytest.mark.few(45)
@pytest.mark.parametrize("name", sorted(GALLERY))
def test_no_word_of_cuda_stands_in_the_text_for_another_device(name: str) -> None:
    entry = GALLERY[name]
    refused, text = set[str](), ""
    if "cuda" not in entry.refused:
        try:
            text = generate(build_schedule(entry.build(), LIMITS), OPENCL).device_code
        except pl.CodegenError as refusal:
            refused = {found.code for found in refusal.found}
    assert refused <= {"unsupported-device-function", "unsupported-function", "unbounded-loop"}
    assert not re.search(r"threadIdx|blockIdx|__(?!kernel|global|local|builtin|attribute)\w+|atomic[A-Z]|\basm\b", text)
    assert "get_" in text or "barrier" not in text


def text_of_warps_of(lanes: int, name: str) -> str:
    limits = replace(TARGET.limits, warp_size=lanes)
    return generate(build_schedule(GALLERY[name].build(), limits), replace(TARGET.language, limits=limits)).device_code


@pytest.mark.parametrize("name", ["prefix_sum_by_blocks", "segments_by_blocks"])
def test_blocks_of_two_warps_look_back_by_one(name: str) -> None:
    text = text_of_warps_of(16, name)
    assert "if (tx < 16) {" in text.replace("threadIdx.x", "tx")
    assert "for (int last = block - 1; last >= 0; last -= 16) {" in text
    assert "0xffffffff" not in text


def test_half_of_a_wave_of_64_lanes_exchanges_values() -> None:
    assert "__shfl_sync(0xffffffffu, t, 5)" in text_of_warps_of(32, "exchanged_within_a_warp")
    assert "__shfl_sync(0xffffffffu, t, 5, 32)" in text_of_warps_of(64, "exchanged_within_a_warp")


def test_a_device_without_warps_looks_back_block_by_block() -> None:
    limits = replace(TARGET.limits, warp_size=1, has_shuffles=False)
    schedule = build_schedule(GALLERY["prefix_sum_by_blocks"].build(), limits)
    text = generate(schedule, replace(TARGET.language, limits=limits)).device_code
    assert "for (int other = block - 1; other >= 0; --other) {" in text
    assert "shfl" not in text
