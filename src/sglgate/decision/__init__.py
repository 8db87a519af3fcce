"""Decide whether a candidate is fast enough, from as few paired launches as the noise allows.

Pure: numbers in, verdict out. Start at :func:`decide`; ``docs/decision.md`` explains the rule and shows what
it costs.
"""

from sglgate.decision.blocks import Block, Fact, Order, order_of, schedule
from sglgate.decision.decide import Decision, Look, decide
from sglgate.decision.drive import drive, drive_all
from sglgate.decision.family import FamilyDecision, decide_all
from sglgate.decision.fitness import AA_LOOKS, Fitness, judge_aa, power_at_cap
from sglgate.decision.pooling import AaRecord, NoisePrior, NoPrior, PoolPolicy, pool
from sglgate.decision.rule import ALPHAS, LOOKS, Rule
from sglgate.decision.signflip import sign_flip_p
from sglgate.decision.spending import joint_error, spend
from sglgate.decision.voids import CPU_VOID_RULES, GPU_VOID_RULES, Voided, VoidRule

__all__ = [
    "AA_LOOKS",
    "ALPHAS",
    "CPU_VOID_RULES",
    "GPU_VOID_RULES",
    "LOOKS",
    "AaRecord",
    "Block",
    "Decision",
    "Fact",
    "FamilyDecision",
    "Fitness",
    "Look",
    "NoPrior",
    "NoisePrior",
    "Order",
    "PoolPolicy",
    "Rule",
    "VoidRule",
    "Voided",
    "decide",
    "decide_all",
    "drive",
    "drive_all",
    "joint_error",
    "judge_aa",
    "order_of",
    "pool",
    "power_at_cap",
    "schedule",
    "sign_flip_p",
    "spend",
]
