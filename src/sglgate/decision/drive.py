"""The loop that a suite would otherwise write itself: run blocks until the rule has its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sglgate.decision.blocks import Block, Order, order_of
from sglgate.decision.decide import Decision, decide
from sglgate.decision.family import FamilyDecision, decide_all
from sglgate.decision.pooling import NoisePrior, NoPrior
from sglgate.decision.rule import Rule
from sglgate.decision.voids import sift
from sglgate.errors import MisuseError


def drive(
    rule: Rule,
    measure: Callable[[Order], Block],
    *,
    prior: NoisePrior | NoPrior | None = None,
) -> Decision:
    """Measure blocks, in ABBA order, only as many as the rule needs.

    Args:
        measure: launches both arms in the order given and returns the block; called between looks without a
            pause. What it raises ends the run: a launch that fails is for the caller to judge.
    """
    blocks: list[Block] = []
    while not (decision := decide(rule, blocks, prior=prior)).is_final:
        blocks.append(measure(order_of(len(sift(rule.void_rules, blocks)[0]))))
    return decision


def drive_all(
    rules: Mapping[str, Rule],
    measure: Callable[[Order], Mapping[str, Block]],
    *,
    priors: Mapping[str, NoisePrior | NoPrior] | None = None,
) -> FamilyDecision:
    """The same for a family: one call of ``measure`` gives a block of every bucket.

    A block counts or is void for all buckets alike: they share the launch's telemetry and the void rules.
    """
    blocks: dict[str, list[Block]] = {name: [] for name in rules}
    while not (decision := decide_all(rules, blocks, priors=priors)).is_final:
        name, rule = next(iter(rules.items()))
        measured = measure(order_of(len(sift(rule.void_rules, blocks[name])[0])))
        if set(measured) != set(rules):
            raise MisuseError(
                "a measurement must cover every bucket and no other",
                key="measure",
                value=sorted(set(measured) ^ set(rules)),
                expected="one block for each rule",
            )
        for bucket, block in measured.items():
            blocks[bucket].append(block)
    return decision
