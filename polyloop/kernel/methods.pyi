# Transforms as type checkers see them: written by `python -m tests.transform.declared`.

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from islpy import BasicMap, Map

from polyloop.errors import PolyloopError
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.called import Called
from polyloop.kernel.devices import Device
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.intrinsic import MatrixIntrinsic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.objects import Assignment
from polyloop.kernel.processors import Processor
from polyloop.target.base import Target
from polyloop.verification.dependences import Dependence, Dependences
from polyloop.viz.picture import Picture

__all__ = [
    "add_barrier", "add_dependency", "add_dtypes", "add_inames_for_unused_hw_axes", "add_inames_to_insn", "add_nosync",
    "add_padding", "add_predicate_to_insn", "add_prefetch", "affine_map_inames", "alias_temporaries", "assign_roles",
    "assignment_to_subst", "assume", "buffer_array", "chunk_iname", "collect_common_factors_on_increment",
    "concatenate_arrays", "distribute_loops", "duplicate_inames", "exchange_by_shuffle", "expand_subst",
    "extract_subst", "fix_parameters", "fold_constants", "fuse_loops", "hoist_reduction_factors", "interchange",
    "join_inames", "join_launches", "make_reduction_inames_unique", "map_domain", "map_instructions", "order_blocks",
    "peel", "persist_blocks", "pipeline", "precompute", "prioritize_loops", "privatize_temporaries_with_inames",
    "read_once", "realize_reduction", "realize_scan", "reduce_atomically", "reduction_arg_to_subst_rule",
    "remove_inames_from_insn", "remove_instructions", "remove_predicates_from_insn", "remove_unused_arguments",
    "remove_unused_inames", "rename_argument", "rename_iname", "rename_inames", "rename_inames_in_batch",
    "replace_instruction_ids", "reverse", "save_and_reload_temporaries", "set_argument_order", "set_array_axis_names",
    "set_instruction_priority", "set_temporary_address_space", "shift", "simplify_indices", "split_array_axis",
    "split_iname", "split_instruction", "split_reduction_inward", "split_reduction_outward", "split_scan",
    "stage_reduction", "swizzle", "tag_array_axes", "tag_inames", "tag_instructions", "tensorize", "tile", "to_batched",
    "unchecked", "unprivatize_temporaries_with_inames", "untag_inames", "vectorize", "write_once"
]

class Methods(Called):
    def add_barrier(
        kernel,
        insn_before: str,
        insn_after: str,
        id_based_on: str | None = None,
        tags: str | Sequence[str] | None = None,
        synchronization_kind: str = "global",
        mem_kind: str | None = None,
    ) -> LoopKernel:
        """Add a barrier between instructions, for the threads of a block (``"local"``) or of all blocks (``"global"``)."""
    def add_dependency(kernel, insn_match: str, depends_on: str) -> LoopKernel:
        """Let instructions run after others, as ``dep=`` does."""
    def add_dtypes(kernel, dtypes: Mapping[str, object]) -> LoopKernel:
        """Set the element types of arrays, scalars and temporaries; other types are inferred again."""
    def add_inames_for_unused_hw_axes(kernel, within: str | None = None) -> LoopKernel:
        """Let all threads run instructions that lack an iname on some axis, each for itself."""
    def add_inames_to_insn(kernel, inames: str | Sequence[str], insn_match: str) -> LoopKernel:
        """Let instructions run for every value of further inames: the same work again, where it does no harm."""
    def add_nosync(
        kernel,
        scope: str,
        source: str,
        sink: str,
        bidirectional: bool = False,
        force: bool = False,
        empty_ok: bool = False,
    ) -> LoopKernel:
        """Assert that instructions on different threads access no common element, where this cannot be proven."""
    def add_padding(kernel, variable: str, axis: int | str, align_bytes: int) -> LoopKernel:
        """Let neighbours along an axis be a multiple of some bytes apart."""
    def add_predicate_to_insn(kernel, insn_match: str, predicate: str, reason: str) -> LoopKernel:
        """Leave out instances of an instruction that change nothing, on the word of the user."""
    def add_prefetch(
        kernel,
        var_name: str,
        sweep_inames: str | Sequence[str] = (),
        dim_arg_names: str | Sequence[str] | None = None,
        *,
        default_tag: str | None = "l.auto",
        temporary_name: str | None = None,
        temporary_address_space: AddressSpace | str = "auto",
        fetch_outer_inames: str | Sequence[str] | None = None,
        prefetch_insn_id: str | None = None,
        rule_name: str | None = None,
        footprint_subscripts: str | Sequence[str | Sequence[str]] | None = None,
        fetch_bounding_box: bool | None = None,
        within: str | None = None,
        storage_axes: str | Sequence[str] | None = None,
        dim_tags: str | Sequence[str] | None = None,
        pad: int = 0,
        vec: int | None = None,
        compute_at: str | None = None,
    ) -> LoopKernel:
        """Copy the elements of an array that some loops read into a temporary, ahead of the reads."""
    def affine_map_inames(
        kernel,
        old_inames: str | Sequence[str],
        new_inames: str | Sequence[str],
        equations: str | Sequence[str | tuple[str, str]],
    ) -> LoopKernel:
        """Replace inames by others that equations relate to them."""
    def alias_temporaries(
        kernel,
        names: str | Sequence[str],
        base_name_prefix: str | None = None,
        synchronize_for_exclusive_use: bool = True,
    ) -> LoopKernel:
        """Let temporaries in shared memory that do not hold values at the same time begin at one address."""
    def assign_roles(kernel, roles: Mapping[str, str], *, registers: Mapping[str, int] | None = None) -> LoopKernel:
        """Let some threads of a block start its copies, and the others compute (warp specialization)."""
    def assignment_to_subst(
        kernel,
        lhs_name: str,
        extra_arguments: str | Sequence[str] = (),
        within: str | None = None,
        force_retain_argument: bool = False,
    ) -> LoopKernel:
        """Turn the assignment of a variable into a substitution rule, which is evaluated at each use."""
    def assume(kernel, assumptions: str) -> LoopKernel:
        """Assume a condition on the parameters, which each call checks."""
    def buffer_array(
        kernel,
        var_name: str,
        buffer_inames: str | Sequence[str],
        init_expression: str | float | None = None,
        store_expression: str | bool | None = None,
        within: str | None = None,
        default_tag: str | None = "l.auto",
        *,
        temporary_address_space: AddressSpace | str = "auto",
        fetch_bounding_box: bool = False,
        temporary_name: str | None = None,
    ) -> LoopKernel:
        """Keep part of an array in a temporary while loops update it: load, redirect accesses, store back."""
    def chunk_iname(
        kernel,
        split_iname: str,
        num_chunks: int,
        outer_iname: str | None = None,
        inner_iname: str | None = None,
        outer_tag: str | None = None,
        inner_tag: str | None = None,
        slabs: tuple[int, int] = (0, 0),
        do_tagged_check: bool = True,
        within: str | None = None,
    ) -> LoopKernel:
        """Divide a loop into a number of parts of one length, of which the last may be shorter."""
    def collect_common_factors_on_increment(
        kernel, var_name: str, vary_by_axes: int | Collection[int] = ()
    ) -> LoopKernel:
        """Move a common factor of all increments of a temporary to its reads."""
    def concatenate_arrays(
        kernel, array_names: str | Sequence[str], new_name: str | None = None, axis_nr: int | str = 0
    ) -> LoopKernel:
        """Put several arrays behind each other, into one array."""
    def distribute_loops(kernel, iname: str, groups: str | Sequence[str]) -> LoopKernel:
        """Give groups of instructions of one loop a loop each (distribution, fission)."""
    def duplicate_inames(
        kernel,
        inames: str | Sequence[str],
        within: str | None = None,
        new_inames: str | Sequence[str] | None = None,
        suffix: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> LoopKernel:
        """Give some instructions loops of their own in the place of loops that they share."""
    def exchange_by_shuffle(kernel, temporary_name: str) -> LoopKernel:
        """Keep a temporary of the lanes of a warp in registers; lanes read each other's elements by shuffles."""
    def expand_subst(kernel, within: str | None = None) -> LoopKernel:
        """Put the values of substitution rules in the place of their uses."""
    def extract_subst(
        kernel, subst_name: str, template: str, parameters: str | Sequence[str] = (), within: str | None = None
    ) -> LoopKernel:
        """Make a substitution rule of every expression that looks like a template."""
    def fix_parameters(kernel, /, **values: int) -> LoopKernel:
        """Replace integer parameters by numbers; they are no arguments any more."""
    def fold_constants(kernel) -> LoopKernel:
        """Fold integer constants in sums, products and quotients."""
    def fuse_loops(kernel, inames: str | Sequence[str], new_iname: str | None = None) -> LoopKernel:
        """Make one loop of loops that follow each other (fusion, jamming)."""
    def hoist_reduction_factors(kernel, within: str | None = None) -> LoopKernel:
        """Multiply the results of sums, instead of each of their terms, by the factors that all of these have in common."""
    def interchange(kernel, first: str, second: str) -> LoopKernel:
        """Let two loops change places in every nest that has both."""
    def join_inames(
        kernel,
        inames: str | Sequence[str],
        new_iname: str | None = None,
        tag: str | None = None,
        within: str | None = None,
    ) -> LoopKernel:
        """Make one loop of the loops of a nest (coalescing, flattening)."""
    def join_launches(kernel, iname: str) -> LoopKernel:
        """Let the last of the blocks that differ along one axis go on to the next launch: the last block adds."""
    def make_reduction_inames_unique(
        kernel, inames: str | Sequence[str] | None = None, within: str | None = None
    ) -> LoopKernel:
        """Give the reductions of each instruction inames that no other instruction reduces over."""
    def map_domain(kernel, transform_map: str | BasicMap | Map) -> LoopKernel:
        """Replace inames by affine functions of them: skew, rotate, reverse, shift or tile a nest."""
    def map_instructions(
        kernel,
        insn_match: str | None = None,
        f: Callable[[Instruction], Instruction | Assignment | str] | None = None,
        *,
        instructions: Mapping[str, str] | None = None,
    ) -> LoopKernel:
        """Let instructions assign something else."""
    def order_blocks(kernel, iname: str, group: int = 8) -> LoopKernel:
        """Let blocks run in panels: all indices along another axis, for some neighbours along that of an iname."""
    def peel(kernel, iname: str, front: int = 1, back: int = 0) -> LoopKernel:
        """Set first and last iterations of a loop apart from the bulk, in generated code."""
    def persist_blocks(kernel, blocks: int, ahead: bool = False) -> LoopKernel:
        """Let each block of the launch execute several blocks of the grid, one after the other."""
    def pipeline(
        kernel,
        iname: str,
        stages: int = 2,
        producers: str | Sequence[str] | None = None,
        *,
        via: str = "shared",
        window: int | None = None,
    ) -> LoopKernel:
        """Fetch the operands of later iterations while the present one computes (software pipelining)."""
    def precompute(
        kernel,
        subst_use: str | Sequence[str],
        sweep_inames: str | Sequence[str] = (),
        *,
        precompute_inames: str | Sequence[str] | None = None,
        precompute_outer_inames: str | Sequence[str] | None = None,
        default_tag: str | None = "l.auto",
        temporary_name: str | None = None,
        temporary_address_space: AddressSpace | str = "auto",
        compute_insn_id: str | None = None,
        within: str | None = None,
        storage_axes: str | Sequence[str | int] | None = None,
        fetch_bounding_box: bool | None = None,
        dim_tags: str | Sequence[str] | None = None,
        pad: int = 0,
        compute_at: str | None = None,
    ) -> LoopKernel:
        """Compute the values of a substitution rule ahead of their use, into a temporary."""
    def prioritize_loops(kernel, loop_priority: str | Sequence[str]) -> LoopKernel:
        """Put loops in an order, the outermost first (interchange)."""
    def privatize_temporaries_with_inames(
        kernel, privatizing_inames: str | Sequence[str], only_var_names: str | Sequence[str] | None = None
    ) -> LoopKernel:
        """Give temporaries an element of its own for each iteration of loops in which they are set."""
    def read_once(kernel, ary_names: str | Sequence[str]) -> LoopKernel:
        """Mark arguments as read about once (streaming loads), so that caches need not keep their elements."""
    def realize_reduction(
        kernel,
        insn_id_filter: str | None = None,
        *,
        grid: str | None = None,
        grid_inames: str | Sequence[str] = (),
        automagic_scans_ok: bool = False,
        force_scan: bool = False,
        force_outer_iname_for_scan: str | None = None,
    ) -> LoopKernel:
        """Check that reductions can run as the tags of their inames say, and record the implementation in the trace."""
    def realize_scan(kernel, insn_id_filter: str | None = None, *, sweep_iname: str | None = None) -> LoopKernel:
        """Compute the results of scans one from the other, instead of each from all of its terms."""
    def reduce_atomically(
        kernel, inames: str | Sequence[str], within: str | None = None, *, init_insn_id: str | None = None
    ) -> LoopKernel:
        """Combine the partial results of a reduction by atomic updates, for blocks without a common barrier."""
    def reduction_arg_to_subst_rule(
        kernel, inames: str | Sequence[str], subst_rule_name: str | None = None, within: str | None = None
    ) -> LoopKernel:
        """Make a substitution rule of what reductions over some inames combine."""
    def remove_inames_from_insn(kernel, inames: str | Sequence[str], insn_match: str) -> LoopKernel:
        """Take loops from around instructions that do not mention their inames: the instructions run once, not each time."""
    def remove_instructions(kernel, insn_ids: str | Sequence[str]) -> LoopKernel:
        """Take instructions out of the program."""
    def remove_predicates_from_insn(kernel, insn_match: str) -> LoopKernel:
        """Take the conditions off instructions, which then always run."""
    def remove_unused_arguments(kernel) -> LoopKernel:
        """Drop the arguments that no instruction, no loop bound and no used array mentions."""
    def remove_unused_inames(kernel, inames: str | Sequence[str] | None = None) -> LoopKernel:
        """Take inames out of the domains that no instruction and no bound uses."""
    def rename_argument(kernel, old_name: str, new_name: str) -> LoopKernel:
        """Give an argument another name: an array, a scalar or a size."""
    def rename_iname(
        kernel, old_iname: str, new_iname: str, existing_ok: bool = False, within: str | None = None
    ) -> LoopKernel:
        """Give an iname another name; tags stay with it."""
    def rename_inames(
        kernel, old_inames: str | Sequence[str], new_iname: str, existing_ok: bool = False, within: str | None = None
    ) -> LoopKernel:
        """Give several inames one name, which may be that of another iname."""
    def rename_inames_in_batch(kernel, batches: Mapping[str, Iterable[str]]) -> LoopKernel:
        """Fuse several groups of loops, each under a new name."""
    def replace_instruction_ids(kernel, replacements: Mapping[str, str | Sequence[str]]) -> LoopKernel:
        """Give instructions other ids, in the dependencies on them too."""
    def reverse(kernel, iname: str) -> LoopKernel:
        """Run a loop from its last iteration to its first."""
    def save_and_reload_temporaries(kernel) -> LoopKernel:
        """Save private and shared temporaries where a launch ends, and reload them where they are needed again."""
    def set_argument_order(kernel, arg_names: str | Sequence[str]) -> LoopKernel:
        """Put the arguments of the generated function in an order."""
    def set_array_axis_names(kernel, ary_names: str | Sequence[str], dim_names: str | Sequence[str]) -> LoopKernel:
        """Name the axes of arrays; later transforms accept the names in place of numbers."""
    def set_instruction_priority(kernel, insn_match: str, priority: int) -> LoopKernel:
        """Set the scheduling priority of instructions: of those that may run next, the highest priority runs first."""
    def set_temporary_address_space(
        kernel, temp_var_names: str | Sequence[str], address_space: AddressSpace | str
    ) -> LoopKernel:
        """Set the address space of temporaries: ``"private"``, ``"local"`` (shared by a block), ``"global"`` or ``"auto"``."""
    def shift(kernel, iname: str, amount: int | str) -> LoopKernel:
        """Add an amount to every value of an iname, which keeps its name."""
    def simplify_indices(kernel) -> LoopKernel:
        """Write affine subscripts as sums of multiples."""
    def split_array_axis(
        kernel, array_names: str | Sequence[str], axis_nr: int | str, count: int, order: str = "C"
    ) -> LoopKernel:
        """Divide an axis of arrays into two."""
    def split_iname(
        kernel,
        split_iname: str,
        inner_length: int,
        *,
        outer_iname: str | None = None,
        inner_iname: str | None = None,
        outer_tag: str | None = None,
        inner_tag: str | None = None,
        slabs: tuple[int, int] = (0, 0),
        within: str | None = None,
        do_tagged_check: bool = True,
    ) -> LoopKernel:
        """Divide one loop into an outer and an inner loop (strip-mining)."""
    def split_instruction(kernel, within: str, condition: str, new_id: str | None = None) -> LoopKernel:
        """Divide the instances of an instruction between two instructions (index-set splitting)."""
    def split_reduction_inward(kernel, inames: str | Sequence[str], within: str | None = None) -> LoopKernel:
        """Reduce in two stages, of which the inner one is over the inames named."""
    def split_reduction_outward(kernel, inames: str | Sequence[str], within: str | None = None) -> LoopKernel:
        """Reduce in two stages, of which the outer one is over the inames named."""
    def split_scan(
        kernel,
        split_iname: str,
        inner_length: int,
        *,
        outer_iname: str | None = None,
        inner_iname: str | None = None,
        outer_tag: str | None = None,
        inner_tag: str | None = None,
        carry_iname: str | None = None,
        sum_name: str | None = None,
        carry_name: str | None = None,
        within: str | None = None,
        local_name: str | None = None,
        local_iname: str | None = None,
    ) -> LoopKernel:
        """Divide a scan into tiles: the sum of each tile, a scan of these sums, and a scan inside of each tile."""
    def stage_reduction(
        kernel,
        inames: str | Sequence[str],
        within: str | None = None,
        *,
        sweep_inames: str | Sequence[str] = (),
        new_inames: str | Sequence[str] | None = None,
        default_tag: str | None = None,
        temporary_name: str | None = None,
        temporary_address_space: AddressSpace | str = "auto",
        compute_insn_id: str | None = None,
    ) -> LoopKernel:
        """Store the partial results of a reduction in a temporary, one for each value of *inames*."""
    def swizzle(
        kernel, ary_name: str, bits: int | None = None, base: int | None = None, shift: int | None = None
    ) -> LoopKernel:
        """Permute the elements within each row of a shared array (XOR swizzle), to avoid bank conflicts of columns."""
    def tag_array_axes(
        kernel, ary_names: str | Sequence[str], dim_tags: str | Sequence[str] | Mapping[str, str]
    ) -> LoopKernel:
        """Set the storage layout of arguments or temporaries, axis by axis."""
    def tag_inames(
        kernel,
        iname_to_tag: str | Mapping[str, str] | Sequence[tuple[str, str]],
        *,
        force: bool = False,
        ignore_nonexistent: bool = False,
    ) -> LoopKernel:
        """Choose how loops run."""
    def tag_instructions(kernel, new_tag: str, within: str | None = None) -> LoopKernel:
        """Give instructions a tag, by which match expressions find them: ``tag:name``."""
    def tensorize(
        kernel,
        insns: str,
        intrinsic: str | MatrixIntrinsic,
        *,
        inames: Mapping[str, str] | None = None,
        ahead: bool = False,
        lag: int = 0,
        from_registers: bool = False,
    ) -> LoopKernel:
        """Let whole warps add up products of small matrices by one instruction: tensor cores."""
    def tile(
        kernel,
        lengths: Mapping[str, int],
        *,
        outer_tags: Mapping[str, str] | None = None,
        inner_tags: Mapping[str, str] | None = None,
        within: str | None = None,
    ) -> LoopKernel:
        """Divide several loops of a nest at once: loops over tiles outside, loops inside of a tile inside."""
    def to_batched(
        kernel,
        nbatches: int | str,
        batch_varying_args: str | Sequence[str],
        batch_iname_prefix: str = "ibatch",
        sequential: bool = False,
    ) -> LoopKernel:
        """Run the program for each problem of a batch."""
    def unchecked(
        kernel, reason: str, claims: str | Sequence[str] = (), arrays: str | Sequence[str] = ()
    ) -> LoopKernel:
        """Go on without proofs of legality and of the absence of races, in all that follows."""
    def unprivatize_temporaries_with_inames(
        kernel, inames: str | Sequence[str], only_var_names: str | Sequence[str] | None = None
    ) -> LoopKernel:
        """Let all iterations of loops share the elements of temporaries that had one for each of them."""
    def untag_inames(kernel, iname_to_untag: str, tag_type: str | None = None) -> LoopKernel:
        """Make plain loops of tagged ones."""
    def vectorize(
        kernel,
        iname: str,
        length: int | None = None,
        *,
        outer_iname: str | None = None,
        inner_iname: str | None = None,
        outer_tag: str | None = None,
        slabs: tuple[int, int] = (0, 0),
        within: str | None = None,
    ) -> LoopKernel:
        """Run the iterations of a loop as lanes of vectors, with wide loads and stores."""
    def write_once(kernel, ary_names: str | Sequence[str]) -> LoopKernel:
        """Mark arguments as written once and not read (streaming stores), so that caches need not keep their elements."""
    def diff(
        kernel,
        after: LoopKernel,
        target: Target | None = None,
    ) -> Picture:
        """Draw the difference between two kernels: the transforms, their loop trees side by side, and their source texts."""
    def draw_accesses(
        kernel,
        array: str | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
    ) -> Picture:
        """Draw what one warp asks of memory with each access: the sectors of global memory, the banks of shared memory."""
    def draw_dependences(
        kernel,
        only: Dependences | None = None,
    ) -> Picture:
        """Draw the dependences of the program of *kernel*, which transforms do not change: see :func:`dependences`."""
    def draw_domain(
        kernel,
        inames: str | Sequence[str] | None = None,
        *,
        instruction: str | None = None,
        sizes: Mapping[str, int] | None = None,
        at: Mapping[str, int] | None = None,
        dependence: Dependence | None = None,
        refusal: PolyloopError | None = None,
    ) -> Picture:
        """Draw the instances of one instruction as cells: the block of each by color, the step of its thread as a number."""
    def draw_footprint(
        kernel,
        array: str | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        at: Mapping[str, int] | None = None,
    ) -> Picture:
        """Draw the elements of arrays that one block touches, each with the number of accesses to it as a color."""
    def draw_layout(
        kernel,
        array: str | None = None,
    ) -> Picture:
        """Draw who holds which element of a matrix instruction, and in which bank the elements of shared arrays lie."""
    def draw_loops(
        kernel,
        target: Target | None = None,
    ) -> Picture:
        """Draw the loops of *kernel* as code generation prints them: launches, axes, tags, statements and barriers."""
    def draw_pipeline(
        kernel,
        iname: str | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        target: Target | None = None,
    ) -> Picture:
        """Draw the loops whose copies run ahead (:func:`pipeline`): the tile in each slot of a buffer, event by event."""
    def draw_roofline(
        kernel,
        sizes: Mapping[str, int] | None = None,
        device: str | Device | Processor = "H200",
        *,
        seconds: float | Sequence[float | None] | None = None,
    ) -> Picture:
        """Draw kernels against the roofline of a device: the rate that bounds allow, and the one that was measured."""
    @property
    def loops(kernel) -> Picture:
        """The loops of the kernel as a picture: ``draw_loops()``."""

add_barrier = Methods.add_barrier
add_dependency = Methods.add_dependency
add_dtypes = Methods.add_dtypes
add_inames_for_unused_hw_axes = Methods.add_inames_for_unused_hw_axes
add_inames_to_insn = Methods.add_inames_to_insn
add_nosync = Methods.add_nosync
add_padding = Methods.add_padding
add_predicate_to_insn = Methods.add_predicate_to_insn
add_prefetch = Methods.add_prefetch
affine_map_inames = Methods.affine_map_inames
alias_temporaries = Methods.alias_temporaries
assign_roles = Methods.assign_roles
assignment_to_subst = Methods.assignment_to_subst
assume = Methods.assume
buffer_array = Methods.buffer_array
chunk_iname = Methods.chunk_iname
collect_common_factors_on_increment = Methods.collect_common_factors_on_increment
concatenate_arrays = Methods.concatenate_arrays
distribute_loops = Methods.distribute_loops
duplicate_inames = Methods.duplicate_inames
exchange_by_shuffle = Methods.exchange_by_shuffle
expand_subst = Methods.expand_subst
extract_subst = Methods.extract_subst
fix_parameters = Methods.fix_parameters
fold_constants = Methods.fold_constants
fuse_loops = Methods.fuse_loops
hoist_reduction_factors = Methods.hoist_reduction_factors
interchange = Methods.interchange
join_inames = Methods.join_inames
join_launches = Methods.join_launches
make_reduction_inames_unique = Methods.make_reduction_inames_unique
map_domain = Methods.map_domain
map_instructions = Methods.map_instructions
order_blocks = Methods.order_blocks
peel = Methods.peel
persist_blocks = Methods.persist_blocks
pipeline = Methods.pipeline
precompute = Methods.precompute
prioritize_loops = Methods.prioritize_loops
privatize_temporaries_with_inames = Methods.privatize_temporaries_with_inames
read_once = Methods.read_once
realize_reduction = Methods.realize_reduction
realize_scan = Methods.realize_scan
reduce_atomically = Methods.reduce_atomically
reduction_arg_to_subst_rule = Methods.reduction_arg_to_subst_rule
remove_inames_from_insn = Methods.remove_inames_from_insn
remove_instructions = Methods.remove_instructions
remove_predicates_from_insn = Methods.remove_predicates_from_insn
remove_unused_arguments = Methods.remove_unused_arguments
remove_unused_inames = Methods.remove_unused_inames
rename_argument = Methods.rename_argument
rename_iname = Methods.rename_iname
rename_inames = Methods.rename_inames
rename_inames_in_batch = Methods.rename_inames_in_batch
replace_instruction_ids = Methods.replace_instruction_ids
reverse = Methods.reverse
save_and_reload_temporaries = Methods.save_and_reload_temporaries
set_argument_order = Methods.set_argument_order
set_array_axis_names = Methods.set_array_axis_names
set_instruction_priority = Methods.set_instruction_priority
set_temporary_address_space = Methods.set_temporary_address_space
shift = Methods.shift
simplify_indices = Methods.simplify_indices
split_array_axis = Methods.split_array_axis
split_iname = Methods.split_iname
split_instruction = Methods.split_instruction
split_reduction_inward = Methods.split_reduction_inward
split_reduction_outward = Methods.split_reduction_outward
split_scan = Methods.split_scan
stage_reduction = Methods.stage_reduction
swizzle = Methods.swizzle
tag_array_axes = Methods.tag_array_axes
tag_inames = Methods.tag_inames
tag_instructions = Methods.tag_instructions
tensorize = Methods.tensorize
tile = Methods.tile
to_batched = Methods.to_batched
unchecked = Methods.unchecked
unprivatize_temporaries_with_inames = Methods.unprivatize_temporaries_with_inames
untag_inames = Methods.untag_inames
vectorize = Methods.vectorize
write_once = Methods.write_once
