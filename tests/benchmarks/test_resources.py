"""The benchmark of resources prints a line for each launch, and counts instructions by what they do."""

from __future__ import annotations

import pytest

from benchmarks import resources

LISTING = """
	.section	.text.k,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E R4, desc[UR4][R2.64] ;
        /*0030*/                   FFMA R7, R4, R5, R6 ;
        /*0040*/              @P1  FFMA R8, R4, R5, R6 ;
        /*0050*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*0060*/                   LDSM.16.M88.4 R4, [R2] ;
        /*0070*/                   IMAD.WIDE R2, R0, 0x4, R2 ;
        /*0080*/                   NOP ;
.L_x_0:
"""


def test_instructions_are_counted_by_what_they_do() -> None:
    assert resources.instruction_mix(LISTING) == {
        "other": 1, "LDG.128": 1, "LDG": 1, "FFMA": 2, "STG.128": 1, "LDSM": 1, "integer": 1}


@pytest.mark.nvrtc
def test_it_prints_a_line_for_each_launch(capsys: pytest.CaptureFixture[str]) -> None:
    assert resources.main(["prefix sum", "copy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| kernel | launch | threads | registers |")
    table = [line for line in lines[2:] if line.startswith("|")]
    assert table[-1].startswith("| copy | copy | 256 | ")
    assert all(line.split("|")[6].strip() == "0" for line in table)  # no local memory
    with pytest.raises(SystemExit):
        resources.main(["nothing of this name"])
