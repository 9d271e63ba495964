"""The passes from a finished schedule to the text of a program, in their order.

======================  ==========================================================================================
pass                    result
======================  ==========================================================================================
``spell``               the schedule with reserved names replaced
``with_totals_stored``  on devices: a block stores its total for those after it as soon as it has it
``without_empty``       statements without instances left out
``with_asked``          conditions that the host decides in place of each thread
``check_launches``      refusals of launches that no device can start
``without_digits``      on hosts: the axes of threads in place of digits of the thread number
``with_boxes``          copies by a copy engine as statements of one thread, with barriers that count their bytes
``with_box_times``      starts of such copies as early, and waits for them as late as a body allows
``with_starts_ahead``   copies for the next block that the same threads execute, apart from the loop that has them
``with_copies``         groups of asynchronous copies, and waits for them
``with_sums_started``   sums of matrix instructions that begin with what is added to them
``with_matrices``       matrix instructions as statements of whole warps, with registers for operands
``with_late_waits``     waits for products of operands in shared memory where the results are used
``with_fences``         fences for stores of threads that matrix instructions and copy engines read
``with_roles``          copies apart from everything else, where threads have roles
``unit_of``             the translation unit: arguments, assumptions, and definitions that functions share
``function_of``         the C tree of each launch (``walk``), with its declarations
``device_program``      functions as text, and their launches; ``host_program`` for a host
``wide_obligations``    proof that accesses of several elements at once are aligned
``index_checks``        sizes for which indices of this width are exact
``heading``             a comment: what is computed, sizes, launches, assumptions
``file_text``           the source file: definitions, and the functions
``finished``            the text with no line too long, and the instruction of each line; directives that name the
                        lines of the user's that statements come from, where a target asks for them
======================  ==========================================================================================

The passes up to the schedule are in ``schedule.build``.
"""

from __future__ import annotations

from polyloop.codegen.checks import assumption_checks, condition_check, index_checks
from polyloop.codegen.device.async_copy import with_copies
from polyloop.codegen.device.box_copy import with_boxes
from polyloop.codegen.device.box_times import with_box_times
from polyloop.codegen.device.decoupled_lookback import with_totals_stored
from polyloop.codegen.device.late_waits import with_late_waits
from polyloop.codegen.device.published import with_fences
from polyloop.codegen.device.roles import with_roles
from polyloop.codegen.device.started_sums import with_sums_started
from polyloop.codegen.device.starts_ahead import with_starts_ahead
from polyloop.codegen.device.tensors import with_matrices
from polyloop.codegen.file_text import Described, file_text
from polyloop.codegen.functions import function_of
from polyloop.codegen.language import Language
from polyloop.codegen.launches import check_launches, device_program, host_program
from polyloop.codegen.lines import finished
from polyloop.codegen.loops.digits import without_digits
from polyloop.codegen.program import GeneratedProgram
from polyloop.codegen.renaming import Spelt, spell
from polyloop.codegen.tree.registers import indexed_arrays, queue_notes
from polyloop.codegen.unit import unit_of, without_empty
from polyloop.errors import CodegenError
from polyloop.kernel.arrays import AddressSpace
from polyloop.proof.obligation import discharged
from polyloop.schedule.asked import with_asked
from polyloop.schedule.plan import Launch, Schedule
from polyloop.verification.addresses import wide_obligations

__all__ = ["generate"]


def generate(schedule: Schedule, language: Language, *, index_bits: int = 32) -> GeneratedProgram:
    """Return the program text of *schedule* in *language*.

    Parameters
    ----------
    index_bits
        32 or 64: width of index arithmetic.  With 32, ``index_checks`` of the result has the conditions under which
        32 bits are enough.  Where they never are, as for sums of bounds that are read from memory or for greater
        constants, the result has 64.

    Raises
    ------
    CodegenError
        ``unroll-not-constant``, ``unbounded-loop``, ``unsupported-dtype``, ``unsupported-function``,
        ``unsupported-expression``, ``grid-barrier``, ``shared-memory-exceeded``,
        ``block-too-large``.
    """
    assert f"int{index_bits}" in language.types, f"no index type of {index_bits} bits"
    if not any(map(_meets_in_global_memory, schedule.launches)):
        language = language.with_shared_barriers
    spelt = spell(schedule, language)
    try:
        return spelt.described(_generated(spelt, index_bits))
    except CodegenError as error:
        raise spelt.error(error) from None


def _meets_in_global_memory(launch: Launch) -> bool:
    """Return True if threads of a block pass values to each other through global memory."""
    own = {t.name for t in launch.temporaries if t.address_space is not AddressSpace.GLOBAL}
    return not launch.exchanged <= own


def _generated(spelt: Spelt, index_bits: int) -> GeneratedProgram:
    """Run the passes from a schedule to its program; each depends on its arguments alone."""
    language = spelt.how.language
    schedule = without_empty(with_totals_stored(spelt.schedule, language))
    schedule = with_asked(schedule)
    check_launches(schedule, language.limits)
    schedule = without_digits(schedule, language)
    copies = (with_boxes, with_box_times, with_starts_ahead, with_copies)
    products = (with_sums_started, with_matrices, with_late_waits)
    for devices_pass in (*copies, *products, with_fences, with_roles):
        schedule = devices_pass(schedule, language)
    unit = unit_of(schedule, spelt.how, index_bits)
    functions = [function_of(launch, unit) for launch in schedule.launches]
    texts, launches = (device_program if language.has_axes else host_program)(functions, unit)
    if unit.never_fits:
        return _generated(spelt, 64)
    known, inputs, findings, bits = unit.known, unit.inputs, unit.findings, unit.index_bits
    proofs = tuple(map(discharged, wide_obligations(findings.wide, known.divisibility)))
    if torn := [finding for proof in proofs for finding in proof.found]:
        raise CodegenError("generate_code", schedule.name, torn)
    indexed = indexed_arrays(schedule) if language.has_axes else ()
    magnitudes = findings.magnitudes
    checks = (*assumption_checks(schedule.contract.assumptions), *map(condition_check, schedule.contract.conditions))
    index_conditions = (
        *index_checks(
            inputs.arguments, inputs.index_names, magnitudes.bounds(bits), known.context, unit.natural, bits,
            magnitudes.bounds(64, wide=True),
        ),
        *(check for function in functions if function.numbering for check in function.numbering.checks(bits)),
    )  # fmt: skip
    alignments = tuple((name, most) for name, most in findings.aligned.items() if name in inputs.arrays)
    described = Described(launches if language.has_axes else (), checks, index_conditions, alignments)
    text = file_text(functions, texts, described, spelt, unit)
    text, instructions = finished(text, schedule.remarks.places, schedule.name, language)
    return GeneratedProgram(
        kernel=schedule.name,
        target=language.name,
        device_code=text,
        launches=launches,
        arguments=inputs.arguments[: len(inputs.arguments) - len(inputs.workspace)],
        workspace=inputs.workspace,
        split=tuple(inputs.split.values()),
        alignments=alignments,
        indexed=indexed,
        notes=(*schedule.remarks.left_open, *((name, note) for (name, _), note in findings.notes.items()),
               *queue_notes(indexed)),
        checks=checks,
        index_checks=index_conditions,
        index_bits=bits,
        proofs=proofs,
        instructions=instructions,
    )  # fmt: skip
