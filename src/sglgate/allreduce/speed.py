"""No slower than the baseline: blocks of interleaved timings in, a ratio and a verdict per size out."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sglgate.allreduce import plan
from sglgate.allreduce.messages import TimedAnswer
from sglgate.allreduce.paths import Claim, Path
from sglgate.allreduce.sizes import Shape, algbw_gb_per_s, busbw_gb_per_s, show_bytes, size_bytes
from sglgate.allreduce.verdicts import Finding, judge_exact
from sglgate.allreduce.world import World
from sglgate.decision import Block, FamilyDecision, Fitness, Rule, drive_all, judge_aa
from sglgate.evidence import Verdict
from sglgate.telemetry import Telemetry

Who = Literal["candidate", "baseline"]
MARGIN = 0.03
_ABBA: tuple[Who, ...] = ("baseline", "candidate", "candidate", "baseline")
_AA: tuple[Who, ...] = ("baseline", "baseline", "baseline", "baseline")


@dataclass(frozen=True)
class Bucket:
    """One size to be judged, in one dtype and one regime."""

    shape: Shape
    dtype: str
    regime: Literal["cached", "uncached"]
    evict_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of one rank's tensor."""
        return size_bytes(self.shape, self.dtype)

    @property
    def name(self) -> str:
        """``64 KiB bf16 cached``."""
        return f"{show_bytes(self.size_bytes)} {self.dtype} {self.regime}"


@dataclass(frozen=True)
class Effort:
    """Fixed counts, the same on every rank and for both contenders.

    One block of the decision is ``quads`` times baseline, candidate, candidate, baseline; each of these is
    ``iterations`` timings of ``calls`` all-reduces. Many short quads rather than few long ones: what disturbs a
    machine mostly lasts longer than one timing, and then meets both arms of a quad.
    """

    iterations: int = 1
    calls: int = 10
    warmup: int = 3
    quads: int = 48
    mode: Literal["eager", "graph"] = "eager"
    deadline_s: float = 300

    @classmethod
    def of(cls, device: str, *, two_worlds: bool) -> Effort:
        """What fits the device; two worlds take turns, and each turn has its own warm-up and graph capture."""
        if device == "cpu":
            # A call takes a millisecond, most of it a wake-up: many quads settle that, more calls a turn do not.
            return cls(calls=1, quads=64)
        return cls(mode="graph", iterations=12, quads=4) if two_worlds else cls(mode="graph")


@dataclass(frozen=True)
class Row:
    """One line of the table. Times are medians over all blocks of the per-iteration maximum over ranks."""

    bucket: str
    size_bytes: int
    candidate_us: float
    baseline_us: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    baseline_busbw_gb_per_s: float
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """The whole answer: the finding, the table, the A/A fitness by bucket."""

    finding: Finding
    rows: tuple[Row, ...] = ()
    fitness: Mapping[str, Fitness] | None = None
    decision: FamilyDecision | None = None

    @property
    def blocks(self) -> int:
        """ABBA blocks behind the bucket that had the most; 0 where nothing was timed."""
        return max((one.n for one in self.decision.decisions.values()), default=0) if self.decision else 0


def buckets(claim: Claim, dtypes: Sequence[str], sizes_bytes: Sequence[int], cache_bytes: int) -> list[Bucket]:
    """Sizes within the claim, each in two regimes: the input in the L2 cache (``cache_bytes``), and not.

    A size that fills a quarter of the cache has only the second: the path's own buffers are in it too.
    """
    found = []
    for dtype in dtypes:
        for size in sizes_bytes:
            shape = (1, size // size_bytes((1,), dtype))
            if not claim.covers(shape, dtype):
                continue
            if size <= cache_bytes // 4:
                found.append(Bucket(shape, dtype, "cached"))
            found.append(Bucket(shape, dtype, "uncached", 2 * cache_bytes))
    return found


def group_seconds(answers: Sequence[TimedAnswer], block: int) -> float:
    """One block's time: the maximum over ranks of each iteration, then the median.

    The other way round, the maximum of medians, hides stragglers that take turns.
    """
    per_rank = [answer.blocks[block].seconds for answer in answers]
    slowest = [max(iteration) for iteration in zip(*per_rank, strict=True)]
    return float(statistics.median(slowest))


def paired(answers: Sequence[TimedAnswer]) -> Block:
    """One block of the decision from ABBA quads: the median over quads of the quad's log ratio.

    Within a quad a linear drift cancels; a quad that something else disturbed does not move the median.
    """
    logs = [math.log(group_seconds(answers, position)) for position in range(len(answers[0].blocks))]
    quads = [logs[start : start + 4] for start in range(0, len(logs), 4)]
    baseline = statistics.median((first + last) / 2 for first, _, _, last in quads)
    ratio = statistics.median((second + third - first - last) / 2 for first, second, third, last in quads)
    return Block(baseline=math.exp(baseline), candidate=math.exp(baseline + ratio), order="ABBA")


def compare(
    world: World,
    path: Path,
    claim: Claim,
    chosen: Sequence[Bucket],
    *,
    margin: float = MARGIN,
    effort: Effort | None = None,
    fault: Mapping[str, Any] | None = None,
    baseline_world: World | None = None,
    telemetry: Telemetry | None = None,
) -> Comparison:
    """Time candidate against baseline in every bucket, after the A/A check, between two correctness checks.

    Args:
        baseline_world: where the baseline runs if it cannot run beside the candidate: NCCL reads its environment
            once a process, so two settings of it need two worlds, asked in turn. None: both in ``world``.
        telemetry: what the machine does meanwhile; its void rules then hold. None: no block is void.

    Returns a finding of NOT_EXERCISED or FAIL without a table where the path did not serve or was wrong: such
    a time means nothing. UNFIT where equal arms differ or the noise is too large to judge.
    """
    effort = effort or Effort()
    if not chosen:
        return Comparison(Finding(Verdict.NOT_EXERCISED, f"{path.name} claims none of the sizes to be timed"))
    before = _correct(world, path, claim, chosen, effort, fault, first_round=1_000_000)
    if before.verdict is not Verdict.PASS:
        return Comparison(Finding(before.verdict, f"not timed: {before.reason}", before.detail))
    rule = Rule.no_slower(margin, void_rules=telemetry.rules if telemetry else ())
    measurement = _Measurement(world, baseline_world or world, effort, fault, telemetry)
    fitness = {bucket.name: _fitness(measurement, bucket, rule) for bucket in chosen}
    unfit = {name: fit for name, fit in fitness.items() if fit.verdict is not Verdict.PASS}
    if unfit:
        name, fit = next(iter(unfit.items()))
        return Comparison(Finding(Verdict.UNFIT, f"A/A {name}: {fit.reason}"), fitness=fitness)
    by_name = {bucket.name: bucket for bucket in chosen}
    decision = drive_all(
        dict.fromkeys(by_name, rule),
        lambda order: measurement.blocks(by_name),
    )
    rows = tuple(_row(bucket, decision, measurement, world.spec.world_size) for bucket in chosen)
    after = _correct(world, path, claim, chosen, effort, fault, first_round=2_000_000)
    finding = Finding(decision.verdict or Verdict.INCONCLUSIVE, decision.reason)
    if after.verdict is not Verdict.PASS:
        finding = Finding(after.verdict, f"wrong after timing: {after.reason}", after.detail)
    return Comparison(finding, rows, fitness, decision)


class _Measurement:
    """Asks the world for blocks and keeps every time, for the table."""

    def __init__(
        self,
        world: World,
        baseline_world: World,
        effort: Effort,
        fault: Mapping[str, Any] | None,
        telemetry: Telemetry | None,
    ) -> None:
        self._worlds: Mapping[Who, World] = {"candidate": world, "baseline": baseline_world}
        self._effort, self._fault, self._telemetry = effort, fault, telemetry
        self.seconds: dict[tuple[str, Who], list[float]] = {}

    def blocks(self, buckets: Mapping[str, Bucket]) -> dict[str, Block]:
        """One block of baseline and candidate in every bucket; they share one window of telemetry."""
        return self._watched(lambda: {name: self._block(bucket) for name, bucket in buckets.items()})

    def _watched(self, measure: Callable[[], dict[str, Block]]) -> dict[str, Block]:
        if self._telemetry is None:
            return measure()
        with self._telemetry.window() as window:
            measured = measure()
        # Both arms are interleaved in one launch: what the machine did, it did to both.
        facts = window.facts()
        return {name: replace(block, baseline_facts=facts, candidate_facts=facts) for name, block in measured.items()}

    def _block(self, bucket: Bucket) -> Block:
        answers = self._time(bucket, _ABBA)
        for position, block in enumerate(answers[0].blocks):
            self.seconds.setdefault((bucket.name, block.who), []).append(group_seconds(answers, position))
        return paired(answers)

    def aa_block(self, bucket: Bucket) -> Block:
        """One block with the baseline on both sides."""
        return self._watched(lambda: {bucket.name: paired(self._time(bucket, _AA))})[bucket.name]

    def _time(self, bucket: Bucket, quad: Sequence[Who]) -> list[TimedAnswer]:
        order = list(quad) * self._effort.quads
        answers: list[TimedAnswer] = []
        for part in _runs_of_one_world(order, self._worlds):
            asked = self._ask(self._worlds[part[0]], bucket, part)
            answers = [_joined(*pair) for pair in zip(answers, asked, strict=True)] if answers else asked
        return answers

    def _ask(self, world: World, bucket: Bucket, order: Sequence[Who]) -> list[TimedAnswer]:
        return world.time(
            dtype=bucket.dtype,
            shape=bucket.shape,
            order=order,
            iterations=self._effort.iterations,
            calls=self._effort.calls,
            warmup=self._effort.warmup,
            buffers=self._effort.calls if bucket.evict_bytes else 1,
            evict_bytes=bucket.evict_bytes,
            mode=self._effort.mode,
            fault=self._fault,
            deadline_s=self._effort.deadline_s,
        )


def _runs_of_one_world(order: Sequence[Who], worlds: Mapping[Who, World]) -> list[list[Who]]:
    """The order, cut where the next block belongs to another world; one piece where both are the same."""
    return [list(group) for _, group in itertools.groupby(order, key=lambda who: id(worlds[who]))]


def _joined(first: TimedAnswer, then: TimedAnswer) -> TimedAnswer:
    return TimedAnswer(blocks=first.blocks + then.blocks)


def _fitness(measurement: _Measurement, bucket: Bucket, judged_by: Rule) -> Fitness:
    blocks: list[Block] = []
    while (fit := judge_aa(judged_by, blocks)).verdict is None:
        blocks.append(measurement.aa_block(bucket))
    return fit


def _correct(
    world: World,
    path: Path,
    claim: Claim,
    chosen: Sequence[Bucket],
    effort: Effort,
    fault: Mapping[str, Any] | None,
    *,
    first_round: int,
) -> Finding:
    sizes = dict.fromkeys((bucket.shape, bucket.dtype) for bucket in chosen)
    cases = [
        case
        for number, (shape, dtype) in enumerate(sizes)
        for case in plan.bucket_cases(shape, dtype, mode=effort.mode, first_round=first_round + 100 * number)
    ]
    return judge_exact(path, claim, cases, world.exact(cases, fault=fault, deadline_s=effort.deadline_s))


def _row(bucket: Bucket, decision: FamilyDecision, measurement: _Measurement, world_size: int) -> Row:
    own = decision.decisions[bucket.name]
    candidate = statistics.median(measurement.seconds[bucket.name, "candidate"])
    baseline = statistics.median(measurement.seconds[bucket.name, "baseline"])
    size = bucket.size_bytes
    return Row(
        bucket=bucket.name,
        size_bytes=size,
        candidate_us=candidate * 1e6,
        baseline_us=baseline * 1e6,
        algbw_gb_per_s=algbw_gb_per_s(size, candidate),
        busbw_gb_per_s=busbw_gb_per_s(size, candidate, world_size),
        baseline_busbw_gb_per_s=busbw_gb_per_s(size, baseline, world_size),
        ratio=own.ratio,
        interval=own.interval,
        verdict=own.verdict.value if own.verdict else "open",
        reason=own.reason,
    )
