"""Many gates on the same blocks, of which every one must hold: a ratio for each message size, say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sglgate.decision.blocks import Block
from sglgate.decision.decide import Decision, decide
from sglgate.decision.pooling import NoisePrior, NoPrior
from sglgate.decision.rule import Rule
from sglgate.errors import MisuseError
from sglgate.evidence import Verdict

# The first of these that any bucket has is the family's: a machine that could not judge judged nothing,
# and one proven failure outweighs what is still open.
_WORST_FIRST = (Verdict.UNFIT, Verdict.FAIL, None, Verdict.INCONCLUSIVE, Verdict.PASS)


@dataclass(frozen=True)
class FamilyDecision:
    """The verdict of the whole (None while more blocks can change it) and the decision of each bucket."""

    verdict: Verdict | None
    reason: str
    next_look: int | None
    decisions: Mapping[str, Decision]

    @property
    def is_final(self) -> bool:
        """Whether no further block may change it."""
        return self.verdict is not None


def decide_all(
    rules: Mapping[str, Rule],
    blocks: Mapping[str, Sequence[Block]],
    *,
    priors: Mapping[str, NoisePrior | NoPrior] | None = None,
) -> FamilyDecision:
    """PASS when every bucket PASSes, FAIL when any FAILs.

    PASS is an intersection-union test: each bucket at its full level, no correction, and the family's false
    PASS stays at that level (a family that should not pass has a bucket that should not). FAIL is the
    opposite, a union, and grows with the number of buckets; so each bucket's level for FAIL is divided by it
    (Bonferroni).

    A bucket that has PASSed stays so while others still need blocks.

    Raises:
        MisuseError: no bucket, or a rule without blocks, or blocks without a rule: a bucket left out is not a
        PASS.
    """
    if not rules or set(rules) != set(blocks):
        raise MisuseError(
            "every bucket needs a rule and blocks",
            key="buckets",
            value=sorted(set(rules) ^ set(blocks)) or "none",
            expected="the same names in rules and blocks, at least one",
        )
    decisions = {
        name: decide(rule, blocks[name], prior=(priors or {}).get(name), fail_share=1 / len(rules))
        for name, rule in rules.items()
    }
    verdict = next(v for v in _WORST_FIRST if any(d.verdict is v for d in decisions.values()))
    decisive = {name: d for name, d in decisions.items() if d.verdict is verdict}
    first, decision = next(iter(decisive.items()))
    label = verdict.value if verdict else "open"
    reason = f"{len(decisive)} of {len(decisions)} buckets {label}; {first}: {decision.reason}"
    looks = [d.next_look for d in decisions.values() if d.next_look is not None]
    return FamilyDecision(verdict, reason, min(looks) if verdict is None else None, decisions)
