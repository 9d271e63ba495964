"""Threads with different roles: the copies of a launch apart from everything else.

::

    for k: {wait k; start k + 2; use k}
    ->
    for k: {wait until slot k + 2 is free; start k + 2}       by a thread of its own
    for k: {wait k; free slot k + 2; use k}                   by the others

That each side then is in order, and that none waits for ever, is shown in :mod:`polyloop.sync.roles`.  A slot is freed
as often as it is filled: both have the instances of the start, and each warp of the others executes all of them.  One
warp frees it for a group of four where nothing but their products uses the tile: ``slot_users``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.box_times import mates_of
from polyloop.codegen.device.entries import Roles
from polyloop.codegen.device.slot_users import groups_that_free
from polyloop.codegen.language import Language
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import Expression, array_name, targets_of
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Tree, runs
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.axes import is_thread_axis
from polyloop.poly.sets import constant_bounds, preimage
from polyloop.schedule.copy_engine import AwaitBox, AwaitStores, Crew, FreeSlot, OpenRings, StartBox, Watch
from polyloop.schedule.plan import Launch, Schedule, Share, Statement, Tensor
from polyloop.schedule.storage import Storage
from polyloop.sync.roles import WARP, WARPGROUP

__all__ = ["with_roles"]

_SET: Final = isl.dim_type.set
_RING: Final = np.dtype(np.uint64)
_PHASES: Final = np.dtype(np.uint32)


def with_roles(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with the copies of launches apart, whose threads have roles; for hosts as it is."""
    if not language.has_axes or all(launch.turns.crew is None for launch in schedule.launches):
        return schedule
    entry = language.need(Roles)
    taken = {argument.name for argument in schedule.contract.arguments} | {*schedule.file_scope.tables}
    taken |= {t.name for launch in schedule.launches for t in launch.temporaries}
    taken |= {dim for statement in schedule.statements.values() for dim in statement.dims}
    statements, launches = dict(schedule.statements), list[Launch]()
    for launch in schedule.launches:
        crew = launch.turns.crew
        if crew is not None and crew.rest.registers and not entry.fewer:
            message = f"target '{language.name}' has no registers that threads exchange"
            hint = 'generate code for CudaTarget("sm_90a"), or leave out registers'
            raise CodegenError("generate_code", schedule.name, [
                Diagnostic("unsupported-device-function", message, (), (hint,))])
        launches.append(launch if crew is None else _Division(launch, crew, statements, taken).launch())
    return replace(schedule, launches=tuple(launches), statements=statements)


class _Division:
    """The division of a launch into roles; *statements* get those of both sides."""

    def __init__(self, launch: Launch, crew: Crew, statements: dict[str, Statement], taken: set[str]) -> None:
        self.original, self.crew, self.statements = launch, crew, statements
        self.rings, self.phases = dict[str, str](), dict[str, str]()
        self.storages = dict[str, Storage]()
        self.mates = mates_of(launch)
        self.groups = groups_that_free(launch, crew.threads, statements, self.mates)
        sizes = {t.name: t.shape for t in launch.temporaries}
        copies = (statements[name] for name in runs((*launch.ahead, *launch.tree)))
        tiles = (array_name(copy.lhs) for copy in copies if isinstance(copy.action, StartBox))
        for tile in dict.fromkeys(tiles):
            ring, phases = _fresh(f"{tile}_free", taken), _fresh(f"{tile}_free_phases", taken)
            self.rings[tile], self.phases[tile] = ring, phases
            self.storages[ring] = Storage(ring, _RING, sizes[tile][:1], AddressSpace.LOCAL)
            self.storages[phases] = Storage(phases, _PHASES, (), AddressSpace.PRIVATE, cleared=True)

    def launch(self) -> Launch:
        """Return the launch with its copies apart."""
        launch, turns = self.original, self.original.turns
        watches = tuple(map(self.watch, self.crew.watches))
        opening = self.opening(launch)
        private = frozenset[str]().union(*(watch.private for watch in watches))
        tree, ahead = self.across(self.used_by_rest(self.freed(launch.tree), private), self.freed(turns.ahead))
        turns = replace(turns, opening=opening, ahead=ahead, crew=replace(self.crew, watches=watches))
        return replace(launch, tree=tree, turns=turns, temporaries=(*launch.temporaries, *self.storages.values()))

    def opening(self, launch: Launch) -> Tree:
        """Return the opening of the rings of a launch, and of those of free slots too."""
        first, *rest = launch.turns.opening
        assert isinstance(first, Run), "rings are opened first"
        opened = [first]
        for is_of_group, threads in ((False, WARP), (True, WARPGROUP)):
            rings = tuple((ring, self.storages[ring].shape[0]) for tile, ring in self.rings.items()
                          if (tile in self.groups) == is_of_group)  # fmt: skip
            if rings:
                name = f"{first.name} of slots that {threads} threads free"
                action = OpenRings(rings, self.crew.threads // threads)
                self.statements[name] = replace(self.statements[first.name], name=name, action=action)
                opened.append(Run(name))
        return (*opened, *rest)

    def watch(self, watch: Watch) -> Watch:
        """Return the role of a thread that copies, with its tree."""
        tiles = frozenset(watch.role.copies)
        whole = (*self.original.ahead, *self.original.tree)
        scalars = self.scalars(whole, tiles)
        phases = [self.phases[x] for x in watch.role.copies if x in self.phases]
        return replace(watch, tree=self.copied(whole, tiles, scalars), private=(*phases, *sorted(scalars)))

    def scalars(self, tree: Tree, tiles: frozenset[str]) -> frozenset[str]:
        """Return the scalars that copies to *tiles* need, and those that these are computed of."""
        known = {t.name for t in self.original.temporaries if t.address_space is AddressSpace.PRIVATE and not t.shape}
        own = [self.statements[name] for name in runs(tree)]
        starts = [s for s in own if isinstance(s.action, StartBox) and array_name(s.lhs) in tiles]
        left, found = known & _used(starts), frozenset[str]()
        while left:
            found |= left
            left = known & _used([s for s in own if not left.isdisjoint(_set_by(s))]) - found
        return found

    def used_by_rest(self, tree: Tree, scalars: frozenset[str]) -> Tree:
        """Return the tree of threads that start no copies, without what sets *scalars* that they do not use."""
        own = [s for s in map(self.statements.__getitem__, runs(tree)) if not isinstance(s.action, AwaitBox | FreeSlot)]
        used = _used([s for s in own if scalars.isdisjoint(_set_by(s))])
        while more := _used([s for s in own if not used.isdisjoint(_set_by(s))]) - used:
            used |= more
        return _without(tree, {s.name for s in own if not (scalars - used).isdisjoint(_set_by(s))})

    def copied(self, tree: Tree, tiles: frozenset[str], scalars: frozenset[str]) -> Tree:
        """Return the copies to *tiles* in a tree, each behind the wait for its slot, and what computes *scalars*."""
        out: list[Node] = []
        for node in tree:
            if isinstance(node, Loop) and (body := self.copied(node.body, tiles, scalars)):
                out.append(Loop(node.iname, body))
            if isinstance(node, Run) and not scalars.isdisjoint(_set_by(self.statements[node.name])):
                name, statement = f"{node.name} of copies", _on_no_thread(self.statements[node.name])
                self.statements[name] = replace(statement, name=name)
                out.append(Run(name))
            if isinstance(node, Run) and isinstance(start := self.statements[node.name].action, StartBox):
                statement = _on_no_thread(self.statements[node.name])
                tile = array_name(statement.lhs)
                if tile in tiles:
                    wait = AwaitBox(self.rings[tile], start.slot, self.phases[tile])
                    for name, action in ((f"{node.name} is free", wait), (f"{node.name} copies", start)):
                        self.statements[name] = replace(statement, name=name, action=action)
                        out.append(Run(name))
        return tuple(out)

    def freed(self, tree: Tree) -> Tree:
        """Return a tree in which slots are freed in place of copies that are started."""
        out: list[Node] = []
        for node in tree:
            if isinstance(node, Loop):
                *first, loop = self.sooner(Loop(node.iname, self.freed(node.body)))
                for free in first:
                    out.insert(self.begin(free, out), free)
                out.append(loop)
            elif isinstance(node, Run) and isinstance(start := self.statements[node.name].action, StartBox):
                name, statement = f"{node.name} frees", _on_no_thread(self.statements[node.name])
                action = self.free(array_name(statement.lhs), start.slot)
                self.statements[name] = replace(statement, name=name, action=action)
                out.append(Run(name))
            else:
                out.append(node)
        return tuple(self.early(out))

    def across(self, tree: Tree, ahead: Tree) -> tuple[Tree, Tree]:
        """Return the tree of a turn, and the statements *ahead* of the first, with slots freed for the next one.

        ::

            for each block: {free slot 2; for k: {..; wait for products k - 1; free slot k + 3, if k + 3 < n};
                             wait for all products; barrier; free slots 0 and 1 for the next block; rest}
            ->
            free slots 0 to 3
            for each block: {for k: {..; wait for products k - 1; free slot k + 3, which k - 1 has used, if k > 0};
                             wait for all products; free the slot that the last k has used; barrier; rest}

        A slot then is freed once in the beginning, and once behind each of its uses: there is a free for each copy,
        however many iterations a turn has, and copies for the next block come while this one adds up its last terms.
        Each is behind the last use of its slot in the turn; those of the last turn free slots that are filled no more.
        """
        at = next((n for n, node in enumerate(tree) if isinstance(node, Barrier) and node.starts), None)
        if at is None:
            return tree, ahead
        made, first = list(tree), list[Node]()
        for tile in self.rings:
            found = self.rolled(tile, made, at)
            if found is None or any(not isinstance(self.action(node), FreeSlot) for node in ahead):
                return tree, ahead
            opened, made = found
            first += opened
            at = next(n for n, node in enumerate(made) if isinstance(node, Barrier) and node.starts)
        barrier = made[at]
        assert isinstance(barrier, Barrier), "copies start ahead behind a barrier"
        made[at] = replace(barrier, starts=False)
        return tuple(made), tuple(first)

    def rolled(self, tile: str, tree: Sequence[Node], at: int) -> tuple[list[Node], list[Node]] | None:
        """Return statements that free the slots of *tile* in the beginning, and *tree* with one freed behind each use.

        None if something else than one loop in front of the barrier *at* uses its storage, or frees slots elsewhere
        than behind their use.
        """
        tiles, names = self.mates[tile], runs(tuple(tree))
        users = [n for n, node in enumerate(tree) if self.uses(node, tiles)]
        where = [n for n in users if isinstance(tree[n], Loop)]
        waits = (name for name in names if isinstance(self.statements[name].action, AwaitBox))
        awaited = [name for name in waits if array_name(self.statements[name].lhs) == tile]
        if len(where) != 1 or users[0] != where[0] or users[-1] > at or len(awaited) != 1:
            return None
        loop = tree[where[0]]
        assert isinstance(loop, Loop), "a loop"
        inner = [n for n, node in enumerate(loop.body) if self.uses(node, tiles)]
        frees = [n for n, node in enumerate(loop.body) if self.is_free(node, tile)]
        if Run(awaited[0]) not in loop.body or len(frees) != 1 or frees[0] < inner[-1]:
            return None
        use, free = self.statements[awaited[0]], self.statement(loop.body[frees[0]])
        late = self.late(use, free, loop.iname)
        if late is None:
            return None
        position = use.dims.index(loop.iname)
        low = constant_bounds(use.domain, position)[0]
        assert low is not None, "late() knows it"
        assert isinstance(use.action, AwaitBox), "an arrival"
        begun = use.domain.lower_bound_val(_SET, position, low + late)
        shifted = [Affine.variable(x).add(Affine((), late * (x == loop.iname))) for x in use.dims]
        last = use.domain.subtract(preimage(use.domain, use.dims, shifted)).coalesce()
        behind, end = f"{free.name} behind", f"{free.name} at the end"
        self.statements[behind] = replace(free, name=behind, domain=begun)
        self.statements[end] = replace(free, name=end, domain=last, action=self.free(tile, use.action.slot))
        outer, dims = use.domain.project_out(_SET, position, 1), tuple(x for x in use.dims if x != loop.iname)
        opened: list[Node] = []
        for slot in range(self.storages[self.rings[tile]].shape[0]):
            name = f"{free.name} of slot {slot}"
            self.statements[name] = replace(free, name=name, dims=dims, domain=outer, action=self.free(tile, slot))
            opened.append(Run(name))
        body = tuple(Run(behind) if n == frees[0] else node for n, node in enumerate(loop.body))
        out: list[Node] = []
        for n, node in enumerate(tree):
            if not self.is_free(node, tile):
                out.append(Loop(loop.iname, body) if n == where[0] else node)
            if n == users[-1] and late:
                out.append(Loop(loop.iname, (Run(end),)))
        return opened, out

    def late(self, use: Statement, free: Statement, iname: str) -> int | None:
        """Return the number of iterations from the *use* of a slot to its *free*; None if that is not known."""
        assert isinstance(use.action, AwaitBox), "an arrival"
        assert isinstance(free.action, FreeSlot), "the end of a use"
        used, freed = _turn(use.action.slot), _turn(free.action.slot)
        if used is None or freed is None or used[1] != freed[1] or use.dims != free.dims or iname not in use.dims:
            return None
        at = use.dims.index(iname)
        low, stride = constant_bounds(use.domain, at)[0], use.domain.get_stride_info(at).get_stride().to_python()
        apart = freed[0].add(used[0], -1)
        own = use.domain.eliminate(_SET, 0, at).eliminate(_SET, at + 1, len(use.dims) - at - 1)
        alike = own.intersect(use.domain.eliminate(_SET, at, 1))  # as if all blocks had the same iterations
        is_known = not apart.terms and used[0].terms == ((iname, 1),) and low is not None and stride == 1
        is_known = is_known and alike.is_subset(use.domain)
        return used[1] - apart.const if is_known and 0 <= apart.const <= used[1] else None

    def free(self, tile: str, slot: Expression) -> FreeSlot:
        """Return the end of the use of a slot of *tile*."""
        return FreeSlot(self.rings[tile], slot, tile in self.groups)

    def is_free(self, node: Node, tile: str) -> bool:
        """Return True if a node frees a slot of *tile*."""
        return isinstance(self.action(node), FreeSlot) and array_name(self.statement(node).lhs) == tile

    def statement(self, node: Node) -> Statement:
        """Return the statement of a node."""
        assert isinstance(node, Run), "a statement"
        return self.statements[node.name]

    def early(self, body: list[Node]) -> list[Node]:
        """Return a body in which slots are freed ahead of waits for other slots that stand in front."""
        for number, node in enumerate(body):
            freed = self.action(node)
            place = number
            while place and isinstance(freed, FreeSlot) and _is_other(freed, self.action(body[place - 1])):
                place -= 1
            body.insert(place, body.pop(number))
        return body

    def sooner(self, loop: Loop) -> Tree:
        """Return a loop in which slots are freed an iteration sooner, behind the last use of their tile.

        ::

            for k: {free slot k + 2; wait k; use k; rest}
            ->
            free slot 2; for k: {wait k; use k; free slot k + 3; rest}

        The first slots are free from the beginning, or behind what used their storage before.
        """
        body, iname, first = list(loop.body), loop.iname, list[Node]()
        for node in loop.body:
            freed = self.action(node)
            if not isinstance(node, Run) or not isinstance(freed, FreeSlot):
                continue
            statement, place = self.statements[node.name], body.index(node)
            tiles = self.mates[array_name(statement.lhs)]
            users = [n for n, other in enumerate(body) if self.uses(other, tiles)]
            if not users or users[0] < place or any(isinstance(self.action(x), AwaitStores) for x in body[:place]):
                continue
            low = self.first_iteration(statement, iname, [body[n] for n in users])
            if low is None or _turn(freed.slot) is None:
                continue
            at = statement.dims.index(iname)
            once, sooner = f"{node.name} first", f"{node.name} sooner"
            shifted = [Affine.variable(x).add(Affine((), int(x == iname))) for x in statement.dims]
            later = preimage(statement.domain.lower_bound_val(_SET, at, low + 1), statement.dims, shifted)
            following = replace(freed, slot=_moved(freed.slot, iname, Affine.variable(iname).add(Affine((), 1))))
            self.statements[sooner] = replace(statement, name=sooner, domain=later, action=following)
            self.statements[once] = replace(
                statement, name=once, dims=tuple(x for x in statement.dims if x != iname),
                domain=statement.domain.fix_val(_SET, at, low).project_out(_SET, at, 1),
                action=replace(freed, slot=_moved(freed.slot, iname, Affine((), low))),
            )  # fmt: skip
            first.append(Run(once))
            end = users[-1] + 1
            while end < len(body) and isinstance(self.action(body[end]), FreeSlot):
                end += 1
            body.insert(end, Run(sooner))
            del body[place]
        return (*first, Loop(iname, tuple(body)))

    def begin(self, free: Node, body: Sequence[Node]) -> int:
        """Return the first position in a body ahead of which nothing uses the slot that *free* ends the use of."""
        assert isinstance(free, Run), "a statement"
        tiles, place = self.mates[array_name(self.statements[free.name].lhs)], len(body)
        while place and not self.uses(body[place - 1], tiles):
            actions = (self.statements[name].action for name in runs((body[place - 1],)))
            if any(isinstance(action, AwaitBox | AwaitStores | FreeSlot) for action in actions):
                break
            place -= 1
        return place

    def first_iteration(self, statement: Statement, iname: str, users: Sequence[Node]) -> int | None:
        """Return the first iteration in which a slot is freed, None if *users* may have an earlier one."""
        if iname not in statement.dims:
            return None
        at = statement.dims.index(iname)
        low, stride = constant_bounds(statement.domain, at)[0], statement.domain.get_stride_info(at).get_stride()
        begins = [
            constant_bounds(user.domain, user.dims.index(iname))[0] if iname in user.dims else None
            for user in map(self.statements.__getitem__, runs(tuple(users)))
        ]
        if low is None or stride.to_python() != 1 or any(begin is None or begin < low for begin in begins):
            return None
        return low

    def uses(self, node: Node, tiles: frozenset[str]) -> bool:
        """Return True if a node accesses one of *tiles*, otherwise than by a wait for a copy or the end of a use.

        So do products that run on, up to the wait for their group.
        """
        if isinstance(node, Barrier):
            return node.group is not None and node.group.products and bool(node.group.arrivals)
        for name in runs((node,)):
            statement = self.statements[name]
            action = statement.action
            is_first = isinstance(action, Tensor) and action.share is Share.FIRST  # which sets registers alone
            if not is_first and not isinstance(action, AwaitBox | FreeSlot):
                parts = (statement.lhs, statement.rhs, *statement.predicates)
                if not tiles.isdisjoint(frozenset[str]().union(*map(variables, parts))):
                    return True
        return False

    def action(self, node: Node) -> object:
        """Return the action of a node, None if it is no statement."""
        return self.statements[node.name].action if isinstance(node, Run) else None


def _turn(slot: Expression) -> tuple[Affine, int] | None:
    """Return the position and the number of slots of ``position % slots``; None if a slot is none."""
    if not isinstance(slot, p.Remainder) or not isinstance(slot.denominator, int):
        return None
    position = affine_of(slot.numerator)
    return None if position is None else (position, slot.denominator)


def _moved(slot: Expression, iname: str, value: Affine) -> Expression:
    """Return a slot for another value of an iname."""
    turn = _turn(slot)
    assert turn is not None, "a slot of a ring"
    position, slots = turn
    moved = position.substitute({iname: value})
    return p.Remainder(to_expression(moved), slots) if moved.terms else moved.const % slots


def _is_other(freed: FreeSlot, action: object) -> bool:
    """Return True if *action* waits for a slot that is not *freed*: all rings of a body advance together."""
    ahead, here = _turn(freed.slot), _turn(action.slot) if isinstance(action, AwaitBox) else None
    if ahead is None or here is None or ahead[1] != here[1]:
        return False
    apart = ahead[0].add(here[0], -1)
    return not apart.terms and apart.const % ahead[1] != 0


def _on_no_thread(statement: Statement) -> Statement:
    """Return the start of a copy for whichever thread executes it."""
    domain, dims = statement.domain, list(statement.dims)
    for position in reversed(range(len(dims))):
        if is_thread_axis(dims[position]):
            domain = domain.project_out(_SET, position, 1)
            del dims[position]
    return replace(statement, dims=tuple(dims), domain=domain)


def _without(tree: Tree, names: Collection[str]) -> Tree:
    """Return *tree* without some statements, and without loops around nothing else."""
    out: list[Node] = []
    for node in tree:
        if isinstance(node, Loop):
            body = _without(node.body, names)
            out += [Loop(node.iname, body)] if body or not node.body else []
        elif not isinstance(node, Run) or node.name not in names:
            out.append(node)
    return tuple(out)


def _set_by(statement: Statement) -> frozenset[str]:
    return frozenset(map(array_name, targets_of(statement.lhs)))


def _used(statements: Sequence[Statement]) -> frozenset[str]:
    """Return the names that statements use, but for what they set."""
    found = frozenset[str]()
    for statement in statements:
        parts = (statement.lhs, statement.rhs, *statement.predicates)
        found |= frozenset[str]().union(statement.bounds, *map(variables, parts)) - _set_by(statement)
    return found


def _fresh(wish: str, taken: set[str]) -> str:
    """Return an unused name, and add it to *taken*."""
    name, number = wish, 0
    while name in taken:
        name, number = f"{wish}_{number}", number + 1
    taken.add(name)
    return name
