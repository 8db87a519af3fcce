"""The exact checks: one case is one call whose answer is known to the last bit.

Around every call lie the traps: marked guards before and after the input, a marked and freed block for the
allocator to hand out as the output, marked blocks beside that one, and a copy of what the input was.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import torch

from . import faults, inputs, observe
from .groups import World
from .seam import Seam, symmetric_allocation

_GUARD_ELEMENTS = 64
_NEIGHBOUR_LIMIT_BYTES = 4 * 2**20
_DELAY_S = 0.002
_MOST_RUNS = 64
_SAMPLE = 4096
# Wrong elements closer than this are one block: by chance some elements of a wrong block are right.
_SAME_RUN_GAP = 16


@dataclass(frozen=True)
class Case:
    """One call: what, how, and which round's data. ``delayed_rank`` comes late; -1 delays nobody."""

    dtype: str
    shape: tuple[int, ...]
    family: str
    mode: str
    round: int
    delayed_rank: int = -1
    replays: int = 0


@dataclass
class _Run:
    """Everything that one command needs at hand."""

    world: World
    seam: Seam
    fault: dict[str, Any] | None
    previous: dict[Any, torch.Tensor]


def run(world: World, seam: Seam, cases: list[dict[str, Any]], fault: dict[str, Any] | None) -> dict[str, Any]:
    """Run the cases in the order given; the same list on every rank.

    Returns ``checked`` (calls compared), ``failures``, ``served`` (per case, the leaves entered) and
    ``digests`` (per case of the random family, the answer's hash, for the suite to compare over ranks).
    """
    state = _Run(world, seam, fault, {})
    failures: list[dict[str, Any]] = []
    served: list[list[str]] = []
    digests: dict[int, str] = {}
    checked = 0
    # Planted for the whole list: some faults remember the call before.
    with faults.planted(world.tensor_parallel, fault):
        for number, raw in enumerate(cases):
            case = Case(**{**raw, "shape": tuple(raw["shape"])})
            entered, calls, digest, found = _run_case(state, case)
            checked += calls
            if digest is not None:
                digests[number] = digest
            served.append(sorted(set(entered)))
            failures += [{**asdict(case), "case": number, "rank": world.rank, **failure} for failure in found]
    return {"checked": checked, "failures": failures, "served": served, "digests": digests}


def _run_case(state: _Run, case: Case) -> tuple[list[str], int, str | None, list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    if case.mode == "graph":
        return _graph_case(state, case, found), case.replays, None, found
    if case.mode == "together":
        return _together_case(state, case, found), 2, None, found
    entered, digest = _eager_case(state, case, found)
    return entered, 1, digest, found


class _Buffer:
    """An input between two guards, ``shape`` in ``dtype``, filled anew for every call."""

    def __init__(self, state: _Run, case: Case) -> None:
        self._dtype = inputs.DTYPES[case.dtype]
        self.elements = _product(case.shape)
        with symmetric_allocation(state.world.tensor_parallel, state.world.symmetric_memory):
            self._arena = torch.empty(self.elements + 2 * _GUARD_ELEMENTS, dtype=self._dtype, device=state.seam.device)
        _bits(self._arena).fill_(-1)
        inner = self._arena[_GUARD_ELEMENTS : _GUARD_ELEMENTS + self.elements]
        self.tensor = inner.view(case.shape)
        self.original = inner

    def fill(self, data: inputs.Data, rank: int) -> None:
        self.original = data.of_rank(rank, self.elements, self._arena.device)
        self.tensor.view(-1).copy_(self.original)

    def broken_guards(self) -> list[int]:
        """Offsets, relative to the input's start, of guard elements that were written."""
        bits = _bits(self._arena)
        bad = (bits != -1).nonzero().flatten() - _GUARD_ELEMENTS
        return [int(i) for i in bad[(bad < 0) | (bad >= self.elements)][:_MOST_RUNS]]


class _Neighbours:
    """Marked blocks on both sides of the place where an output will probably be allocated, itself marked."""

    def __init__(self, like: torch.Tensor) -> None:
        self._blocks: list[torch.Tensor] = []
        if like.numel() * like.element_size() > _NEIGHBOUR_LIMIT_BYTES:
            return
        blocks = [torch.empty_like(like) for _ in range(3)]
        for block in blocks:
            # All bits set is NaN in every dtype here: memory that nobody wrote cannot pass for an answer.
            _bits(block.view(-1)).fill_(-1)
        self._blocks = [blocks[0], blocks[2]]

    def broken(self) -> bool:
        return any(bool((_bits(block.view(-1)) != -1).any()) for block in self._blocks)


def _eager_case(state: _Run, case: Case, found: list[dict[str, Any]]) -> tuple[list[str], str | None]:
    coordinator, seam = state.world.tensor_parallel, state.seam
    data = _data(state, case, case.round)
    buffer = _Buffer(state, case)
    digests, entered = [], []
    for _ in range(2 if case.family == "random" else 1):
        buffer.fill(data, state.world.rank)
        neighbours = _Neighbours(buffer.tensor)
        if case.delayed_rank == state.world.rank:
            seam.delay(_DELAY_S)
        with observe.leaves(coordinator, symmetric_memory=state.world.symmetric_memory) as seen:
            output = coordinator.all_reduce(buffer.tensor)
            seam.synchronize()
        entered += seen
        _compare(state, case, data, buffer, output, found)
        if neighbours.broken():
            found.append({"kind": "neighbour_overwritten"})
        if case.family == "random":
            digests.append(_digest(output))
    if len(digests) == 2 and digests[0] != digests[1]:
        found.append({"kind": "not_repeatable"})
    return entered, (digests[0] if digests else None)


def _graph_case(state: _Run, case: Case, found: list[dict[str, Any]]) -> list[str]:
    coordinator = state.world.tensor_parallel
    buffer = _Buffer(state, case)
    buffer.fill(_data(state, case, case.round), state.world.rank)
    with observe.leaves(coordinator, symmetric_memory=state.world.symmetric_memory) as entered:
        recorded = state.seam.capture(lambda: coordinator.all_reduce(buffer.tensor))
        for replay in range(1, case.replays + 1):
            data = _data(state, case, case.round + replay)
            buffer.fill(data, state.world.rank)
            state.seam.synchronize()
            output = recorded.replay()
            state.seam.synchronize()
            faults.corrupt_replay(state.fault, replay, output)
            _compare(state, case, data, buffer, output, found, replay=replay)
    return entered


def _together_case(state: _Run, case: Case, found: list[dict[str, Any]]) -> list[str]:
    first, second = state.world.tensor_parallel, state.world.second
    buffers, datas = [_Buffer(state, case), _Buffer(state, case)], []
    for step, buffer in enumerate(buffers):
        datas.append(_data(state, case, case.round + step))
        buffer.fill(datas[step], state.world.rank)
    with observe.leaves(first, symmetric_memory=state.world.symmetric_memory) as entered:
        outputs = state.seam.together(
            lambda: first.all_reduce(buffers[0].tensor), lambda: second.all_reduce(buffers[1].tensor)
        )
        state.seam.synchronize()
    for step, output in enumerate(outputs):
        _compare(state, case, datas[step], buffers[step], output, found, group=("tp", "second")[step])
    return entered


def _data(state: _Run, case: Case, round_number: int) -> inputs.Data:
    return inputs.make(case.family, inputs.DTYPES[case.dtype], state.world.world_size, round_number)


def _compare(
    state: _Run,
    case: Case,
    data: inputs.Data,
    buffer: _Buffer,
    output: torch.Tensor,
    found: list[dict[str, Any]],
    **where: Any,
) -> None:
    in_place = output.data_ptr() == buffer.tensor.data_ptr()
    wanted = data.expected(buffer.elements, output.device)
    if output.shape != buffer.tensor.shape or output.dtype != buffer.tensor.dtype:
        found.append({"kind": "wrong_shape", "got": str((tuple(output.shape), str(output.dtype))), **where})
        return
    if wanted is not None:
        got = output.reshape(-1)
        wrong = _bits(got) != _bits(wanted)
        # One NaN is as good as another: its payload is not part of the answer.
        wrong &= ~(got.isnan() & wanted.isnan())
        key = (case.dtype, case.shape)
        if bool(wrong.any()):
            description = _describe(wrong, got, wanted, data, state.previous.get(key), state.world.rank)
            found.append({"kind": "wrong_elements", "in_place": in_place, **description, **where})
        state.previous[key] = wanted
    if not in_place:
        changed = _bits(buffer.tensor.view(-1)) != _bits(buffer.original)
        if bool(changed.any()):
            indices = changed.nonzero().flatten()
            found.append(
                {
                    "kind": "input_mutated",
                    "wrong": int(indices.numel()),
                    "first_index": int(indices[0]),
                    **where,
                }
            )
    if guards := buffer.broken_guards():
        found.append({"kind": "guard_overwritten", "offsets": guards, **where})


def _describe(
    wrong: torch.Tensor,
    got: torch.Tensor,
    wanted: torch.Tensor,
    data: inputs.Data,
    previous: torch.Tensor | None,
    rank: int,
) -> dict[str, Any]:
    indices = wrong.nonzero().flatten().cpu()
    got, wanted = got.cpu(), wanted.cpu()
    first = int(indices[0])
    starts, lengths = _runs(indices)
    return {
        "wrong": int(indices.numel()),
        "elements": int(got.numel()),
        "first_index": first,
        "got": float(got[first]),
        "wanted": float(wanted[first]),
        "got_bits": _hex(got[first]),
        "wanted_bits": _hex(wanted[first]),
        "runs": [[int(s), int(n)] for s, n in zip(starts[:_MOST_RUNS], lengths[:_MOST_RUNS], strict=True)],
        "runs_total": int(starts.numel()),
        "explained": _explain(indices[:_SAMPLE], got, wanted, data, previous, rank),
        "exchanged": _exchanged(starts, lengths, indices, got, wanted),
    }


def _runs(indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    breaks = (indices.diff() > _SAME_RUN_GAP).nonzero().flatten()
    first = torch.cat([indices[:1], indices[breaks + 1]])
    last = torch.cat([indices[breaks], indices[-1:]])
    return first, last - first + 1


def _explain(
    sample: torch.Tensor,
    got: torch.Tensor,
    wanted: torch.Tensor,
    data: inputs.Data,
    previous: torch.Tensor | None,
    rank: int,
) -> dict[str, float]:
    """For each simple cause, the share of the sampled wrong elements that it accounts for to the last bit."""
    parts = data.parts[:, sample % inputs.PATTERN_ELEMENTS]
    have = got[sample]

    def share(candidate: torch.Tensor) -> float:
        candidate = candidate.to(have.dtype)
        same = (_bits(candidate) == _bits(have)) | (candidate.isnan() & have.isnan())
        return float(same.double().mean())

    causes = {f"rank {r} missing": share(_sum_without(parts, r)) for r in range(parts.shape[0])}
    causes["this rank's own input"] = share(parts[rank])
    causes["memory nobody wrote"] = float((_bits(have) == -1).double().mean())
    if previous is not None:
        causes["the previous call's answer"] = share(previous.cpu()[sample])
    return {cause: round(part, 4) for cause, part in causes.items() if part > 0}


def _sum_without(parts: torch.Tensor, missing: int) -> torch.Tensor:
    total = torch.zeros_like(parts[0])
    for rank, part in enumerate(parts):
        if rank != missing:
            total = total + part
    return total


def _exchanged(
    starts: torch.Tensor,
    lengths: torch.Tensor,
    indices: torch.Tensor,
    got: torch.Tensor,
    wanted: torch.Tensor,
) -> list[int] | None:
    """``[start, start, length]`` of two blocks that hold each other's answer, or None."""
    if starts.numel() != 2:
        return None
    (first, second), (n_first, n_second) = starts.tolist(), lengths.tolist()
    # By chance a block's first or last elements are right; its ends, too, may tell the distance.
    for distance in {second - first, second + n_second - first - n_first}:
        left = indices[indices < second]
        right = indices[indices >= second]
        if int(left[-1]) + distance >= got.numel() or int(right[0]) - distance < 0:
            continue
        if bool((got[left] == wanted[left + distance]).all() and (got[right] == wanted[right - distance]).all()):
            return [int(first), int(second), int(max(n_first, n_second))]
    return None


def _digest(output: torch.Tensor) -> str:
    raw = output.reshape(-1).view(torch.uint8).cpu().numpy().tobytes()
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.int32 if tensor.dtype.itemsize == 4 else torch.int16)


def _hex(value: torch.Tensor) -> str:
    width = value.dtype.itemsize * 8
    return f"0x{int(_bits(value.reshape(1))[0]) & (2**width - 1):0{width // 4}x}"


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
