"""Which servers the gates need, and with how few launches they can be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sglgate.config import Candidate
from sglgate.speed.releases import IN_TURN, OVER_LAUNCHES, before_of


@dataclass(frozen=True)
class Need:
    """Servers of one configuration that one gate needs.

    Attributes:
        candidate: whose gate it is.
        gate: for whom.
        configuration: of the server, see :attr:`Candidate.configuration`.
        fresh: how many launches of its own: a server that other gates have used would bring their traces.
        shared: whether it also, or only, needs any running server of that configuration.
        fails: whether it is launched to fail, so that no server comes of it.
        once: once a run, whichever candidate asks first.
    """

    candidate: str
    gate: str
    configuration: str
    fresh: int = 0
    shared: bool = False
    fails: bool = False
    once: bool = False


def needs_of(candidate: Candidate, *, two_releases: bool = False) -> list[Need]:
    """All that a candidate's gates need, in the order in which the suite asks; of a speed gate, the fewest blocks.

    Args:
        candidate: whose gates.
        two_releases: whether the run holds speed against the release that serves now.
    """
    # Deferred: pytest's collection needs no baseline.
    from sglgate.allreduce.question import baseline_of as allreduce_baseline
    from sglgate.eagle3.arms import baseline_of as plain_of

    def need(gate: str, configuration: str, **how: bool | int) -> Need:
        return Need(candidate.name, gate, configuration, **how)  # type: ignore[arg-type]

    def judged_by(suite: str) -> bool:
        return candidate.suites is None or suite in candidate.suites

    own, expect = candidate.configuration, candidate.expect
    if expect.failure is not None:
        return [need("as_declared", own, fresh=1, fails=True)]
    needs = [need("as_declared", own, shared=True)]
    if expect.speed is not None:
        needs.append(need(OVER_LAUNCHES, own, fresh=expect.speed.launches))
    if expect.release is not None and two_releases:
        equal, compared = expect.release.aa_looks[0], expect.release.looks[0]
        needs.append(need(IN_TURN, before_of(candidate).configuration, fresh=2 * equal + compared))
        needs.append(need(IN_TURN, own, fresh=compared))
    if judged_by("kv") and expect.kv.relaunch:
        needs.append(need("two_launches_agree", own, fresh=1, shared=True))
    if judged_by("kv") and expect.kv.window_margin is not None:
        needs.append(need("fraction_window", own, shared=True))
        needs.append(need("fraction_window", f"{own} below", fresh=1, fails=True))
        needs.append(need("fraction_window", f"{own} above", fresh=1))
    if judged_by("allreduce") and compares_answers(candidate):
        needs.append(need("says_the_same", own, shared=True))
        needs.append(need("says_the_same", allreduce_baseline(candidate).configuration, fresh=2, once=True))
    if judged_by("eagle3") and expect.eagle3 is not None:
        plain = plain_of(candidate).configuration
        needs.append(need("same_answers", own, shared=True))
        # Once for all who ask it the same, as long as its greedy answers are theirs.
        asked = f"{expect.eagle3.template!r} {expect.eagle3.answers!r}"
        needs.append(need(f"same_answers {asked}", plain, fresh=1, once=True))
        if expect.eagle3.answers.sampled:
            needs += [need("sampled_distribution", plain, shared=True), need("sampled_distribution", own, shared=True)]
        if expect.eagle3.speed is not None:
            equal, compared = expect.eagle3.speed.aa_looks[0], expect.eagle3.speed.looks[0]
            needs.append(need("speed_against_baseline", plain, fresh=2 * equal + compared))
            needs.append(need("speed_against_baseline", own, fresh=compared))
    return needs


def compares_answers(candidate: Candidate) -> bool:
    """Whether the answers over an all-reduce path are compared with its baseline's.

    Not where the path is refused: then it is the baseline's own. Nor under speculation, whose suite compares answers
    over the same path; the path alone is another candidate.
    """
    path = candidate.expect.allreduce
    return path is not None and path.refused is None and "speculative-algorithm" not in candidate.arguments


def groups_of(candidates: Sequence[Candidate]) -> dict[str, tuple[int, int]]:
    """By name, the group in whose turn each candidate comes: those of one configuration share a server.

    Groups come in the order of their first candidates; but one whose server is another's baseline comes right after
    it, while that server still runs.
    """
    first: dict[str, tuple[int, int]] = {}
    for number, candidate in enumerate(candidates):
        first.setdefault(candidate.configuration, (number, 0))
    last_server: dict[str, str] = {}
    for candidate in candidates:
        for need in needs_of(candidate):
            if need.once and need.configuration != candidate.configuration:
                last_server.setdefault(need.configuration, candidate.configuration)
    for baseline, asked_by in last_server.items():
        # Not a baseline of something that moves itself.
        if baseline in first and asked_by not in last_server:
            first[baseline] = (first[asked_by][0], 1)
    return {c.name: first[c.configuration] for c in candidates}


def in_order(candidates: Sequence[Candidate], *, two_releases: bool = False) -> list[Need]:
    """The needs of all candidates as a run meets them: in each group, first the gates that only share the server."""
    group = groups_of(candidates)
    needs = [
        (group[c.name], number > 0, rank, number, need)
        for rank, c in enumerate(candidates)
        for number, need in enumerate(needs_of(c, two_releases=two_releases))
    ]
    return [item[-1] for item in sorted(needs, key=lambda item: item[:-1])]


def _once(needs: Iterable[Need]) -> Iterator[Need]:
    """Without those that an earlier candidate has met."""
    met: set[tuple[str, str]] = set()
    for need in needs:
        if need.once and (need.gate, need.configuration) in met:
            continue
        if need.once:
            met.add((need.gate, need.configuration))
        yield need


def launches_by_candidate(needs: Iterable[Need]) -> Counter[str]:
    """Launches that the suite makes for these needs, in this order."""
    launches: Counter[str] = Counter()
    running: str | None = None
    for need in _once(needs):
        launches[need.candidate] += need.fresh + (need.shared and running != need.configuration)
        running = None if need.fails else need.configuration
    return launches


def fewest_launches(needs: Iterable[Need]) -> int:
    """No order could do with fewer, by configuration: all fresh launches, and one to share if those cannot serve.

    Those of a speed gate cannot: it comes last, as nobody measures the speed of a server that is not right.
    """
    fresh: Counter[str] = Counter()
    timed: Counter[str] = Counter()
    least: dict[str, int] = {}
    for need in _once(needs):
        if need.gate in ("speed_against_baseline", OVER_LAUNCHES, IN_TURN):
            timed[need.configuration] += need.fresh
            continue
        fresh[need.configuration] += need.fresh
        # Whoever compares a fresh server with a shared one needs both; one that fails serves nobody.
        least[need.configuration] = max(least.get(need.configuration, 0), need.fresh + need.shared)
    return timed.total() + sum(max(fresh[configuration], least[configuration]) for configuration in least)
