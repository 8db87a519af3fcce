"""Print every table of docs/decision.md: a few minutes on one core, a fixed seed, the same figures each time.

python benchmarks/decision_power.py            # all tables
python benchmarks/decision_power.py designs    # one of them
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from scipy import stats

from sglgate.decision import (
    AaRecord,
    Block,
    NoPrior,
    Rule,
    decide,
    joint_error,
    judge_aa,
    pool,
    power_at_cap,
    schedule,
)
from sglgate.decision import simulate as sim
from sglgate.decision.rule import ALPHAS, LOOKS
from sglgate.decision.spending import critical_t
from sglgate.evidence import Verdict

RUNS = 100_000
SEED = 20260807
ISSUE = ((3, 5, 8), (0.001, 0.012, 0.040))
# The case of the requirement: a gain of 5.9 % over a threshold of 1.0 at 2 % block noise.
GAIN = math.log(1.059) / 0.02

Rows = Iterable[list[str]]


def rng(offset: int = 0) -> np.random.Generator:
    return np.random.default_rng(SEED + offset)


def rule(looks=LOOKS, alphas=ALPHAS, futility: float = 0.10) -> Rule:
    return Rule.at_least(1.0, design_effect=0.05, looks=looks, alphas=alphas, futility=futility)


def outcomes(a_rule: Rule, distance: float, prior_df: int = 0, seed: int = 0) -> sim.Outcomes:
    generator = rng(seed)
    noise = sim.white(generator, RUNS, a_rule.cap)
    history = sim.recorded(sim.white(generator, RUNS, prior_df)) if prior_df else None
    return sim.run_many(a_rule, noise + distance, history)


def table(title: str, head: list[str], rows: Rows) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def example() -> None:
    """Four blocks by hand: each log ratio, then what the look at 4 makes of them."""
    logs = (0.071, 0.048, 0.062, 0.043)
    blocks = [Block(1.0, math.exp(d), order) for d, order in zip(logs, schedule(4), strict=True)]
    rows = []
    for look in decide(rule(), blocks).looks:
        df = look.n - 1
        rows.append(
            [
                str(look.n),
                f"{math.log(look.ratio):.4f}",
                f"{look.sd_log:.4f}",
                f"{critical_t(look.alpha, df):.2f}",
                f"{look.least_distance:+.4f}",
                f"{look.ratio:.4f} [{look.interval[0]:.4f}, {look.interval[1]:.4f}]",
            ]
        )
    table("example", ["look", "mean", "sd", "critical t", "lower bound", "as a ratio"], rows)


def spent() -> None:
    """Joint false PASS of a schedule, by the exact recursion and by simulation."""

    def simulated(looks, alphas, prior_df: int) -> float:
        generator = rng(1)
        runs = 400_000
        noise = sim.white(generator, runs, looks[-1])
        prior = generator.chisquare(prior_df, runs) if prior_df else np.zeros(runs)
        crossed = np.zeros(runs, dtype=bool)
        for n, alpha in zip(looks, alphas, strict=True):
            seen = noise[:, :n]
            df = prior_df + n - 1
            spread = (seen.var(axis=1) * n + prior) / df
            crossed |= seen.mean(axis=1) >= stats.t.isf(alpha, df) * np.sqrt(spread / n)
        return float(crossed.mean())

    rows = []
    for name, looks, alphas in (
        ("3/5/8 at 0.001, 0.012, 0.040", *ISSUE),
        ("3/5/8 at 0.05 each", (3, 5, 8), (0.05,) * 3),
        ("3/5/8 at 0.05/3 each", (3, 5, 8), (0.05 / 3,) * 3),
        ("**2/4/6/8 at 0.006, 0.010, 0.016, 0.022**", LOOKS, ALPHAS),
    ):
        row: list[str] = [name]
        for prior_df in (0, 12, 24):
            row.append(f"{joint_error(looks, alphas, prior_df):.4f} ({simulated(looks, alphas, prior_df):.4f})")
        rows.append(row)
    table("spent", ["looks and levels", "from scratch", "12 df pooled", "24 df pooled"], rows)


def e_value_alphas(looks: tuple[int, ...], effects: tuple[float, ...]) -> tuple[float, ...]:
    """Levels of the e-value test: the t at which the mean likelihood ratio over ``effects`` reaches 1 / 0.05.

    The likelihood ratio is that of u = S / R (see sglgate.decision.spending), effect against none: free of
    scale and a martingale at the border, so reaching 20 at any time has a chance of at most 0.05.
    """
    radius = np.linspace(1e-6, 40, 4001)
    alphas = []
    for n in looks:
        weight = radius ** (n - 1) * np.exp(-(radius**2) / 2)
        grid = np.linspace(0, 0.999999, 1001) * math.sqrt(n)
        ratio = np.zeros_like(grid)
        for effect in effects:
            tilted = [np.trapezoid(weight * np.exp(effect * radius * u), radius) for u in grid]
            ratio += np.exp(-n * effect**2 / 2) * np.array(tilted) / len(effects)
        reached = grid[ratio >= 20 * np.trapezoid(weight, radius)]
        sine = reached[0] / math.sqrt(n) if len(reached) else 1 - 1e-12
        alphas.append(float(stats.t.sf(math.sqrt((n - 1) / (1 - sine**2)) * sine, n - 1)))
    return tuple(alphas)


def designs() -> None:
    """What each way of looking costs, from scratch."""
    every = tuple(range(3, 9))
    mixture = e_value_alphas(every, tuple(np.linspace(0.5, 4, 8)))
    point = e_value_alphas(every, (2.0,))
    choices = (
        ("5, once", (5,), (0.05,), 0.0),
        ("8, once", (8,), (0.05,), 0.0),
        ("3/5/8 spent 0.001/0.012/0.040", *ISSUE, 0.0),
        ("3/5/8 at 0.05/3", (3, 5, 8), (0.05 / 3,) * 3, 0.0),
        ("every block 3..8, 0.0150 each", every, (0.0150,) * 6, 0.0),
        ("every block 3..8, rising", every, (0.0035, 0.011, 0.014, 0.017, 0.021, 0.026), 0.0),
        ("e-value, mixture of effects 0.5..4 sd", every, mixture, 0.0),
        ("e-value, one effect (t-SPRT) 2 sd", every, point, 0.0),
        ("4/6/8 at 0.010/0.020/0.035", (4, 6, 8), (0.010, 0.020, 0.035), 0.0),
        ("2/4/6/8, all of 0.05 spent", LOOKS, (0.004, 0.012, 0.020, 0.030), 0.0),
        ("2/4/6/8, no futility", LOOKS, ALPHAS, 0.0),
        ("**2/4/6/8, futility 10 %**", LOOKS, ALPHAS, 0.10),
    )
    rows = []
    for name, looks, alphas, futility in choices:
        a_rule = rule(looks, alphas, futility)
        at = {d: outcomes(a_rule, d) for d in (-1.0, 0.0, 1.0, 1.5, 2.0, GAIN)}
        rows.append(
            [
                name,
                f"{joint_error(looks, alphas):.4f}",
                *(f"{at[d].pass_rate:.3f}" for d in (1.0, 1.5, 2.0)),
                *(f"{at[d].mean_blocks:.2f}" for d in (-1.0, 0.0, 1.0, GAIN)),
            ]
        )
    table(
        "designs",
        [
            "design",
            "false PASS",
            "power 1 sd",
            "1.5 sd",
            "2 sd",
            "blocks at -1 sd",
            "at 0",
            "at 1 sd",
            "at 5.9 %",
        ],
        rows,
    )


def operating() -> None:
    """The chosen rule over the true distance from the threshold."""
    rows = []
    for distance in (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, GAIN, 4.0):
        row: list[str] = [f"{distance:+.2f}", f"{math.expm1(0.02 * distance):+.1%}"]
        for prior_df in (0, 12, 24):
            got = outcomes(rule(), distance, prior_df)
            row += [f"{got.pass_rate:.3f} / {got.fail_rate:.3f}", f"{got.mean_blocks:.2f}"]
        rows.append(row)
    head = [
        "distance, sd",
        "at 2 % noise",
        "PASS / FAIL",
        "blocks",
        "12 pooled",
        "blocks",
        "24 pooled",
        "blocks",
    ]
    table("operating", head, rows)


def sizes() -> None:
    """Non-inferiority with a 3 % margin, truth exactly equal: what a block's noise costs."""
    a_rule = Rule.no_slower(0.03)
    rows = []
    for sd in (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05):
        distance = math.log(1.03) / sd
        row: list[str] = [f"{sd:.1%}", f"{power_at_cap(a_rule, sd):.2f}"]
        for prior_df in (0, 24):
            got = outcomes(a_rule, distance, prior_df)
            row += [f"{got.pass_rate:.3f}", f"{got.mean_blocks:.2f}"]
        rows.append(row)
    table("sizes", ["block sd", "power_at_cap", "PASS, scratch", "blocks", "PASS, 24 pooled", "blocks"], rows)


Noise = Callable[[np.random.Generator, int, int], sim.Floats]


def kinds() -> list[tuple[str, Noise]]:
    def launches_ar(phi: float) -> Noise:
        return lambda g, runs, n: sim.of_launches(sim.autocorrelated(g, runs, 2 * n, phi))

    def blocks_ar(phi: float) -> Noise:
        return lambda g, runs, n: sim.autocorrelated(g, runs, n, phi)

    def drift(per_launch: float) -> Noise:
        return lambda g, runs, n: sim.drifting(g, runs, n, per_launch)

    def baseline_first(g: np.random.Generator, runs: int, n: int) -> sim.Floats:
        slope = 0.5 * math.sqrt(2) * np.arange(2 * n)
        return sim.of_launches(g.standard_normal((runs, 2 * n)) + slope, ("AB",) * n)

    return [
        ("normal", sim.white),
        ("t, 3 df", sim.heavy_tailed),
        ("1 block in 10 with 5 times the sd", contaminated),
        ("exponential, long tail to the red side", lambda g, r, n: sim.skewed(g, r, n, -1)),
        ("exponential, long tail to the green side", lambda g, r, n: sim.skewed(g, r, n, +1)),
        *((f"drift {slope:g} sd a launch", drift(slope)) for slope in (0.1, 0.5, 2.0)),
        ("the same 0.5 sd, baseline always first", baseline_first),
        ("warm-up falling by 1 sd", lambda g, r, n: sim.warming(g, r, n, 1.0)),
        ("warm-up falling by 3 sd", lambda g, r, n: sim.warming(g, r, n, 3.0)),
        *((f"AR(1) launches, {phi:g}", launches_ar(phi)) for phi in (0.3, 0.5, 0.7, 0.9)),
        *((f"AR(1) blocks, {phi:g}", blocks_ar(phi)) for phi in (0.1, 0.3, 0.5)),
    ]


def contaminated(g: np.random.Generator, runs: int, n: int) -> sim.Floats:
    scale = np.where(g.random((runs, n)) < 0.1, 5.0, 1.0)
    return g.standard_normal((runs, n)) * scale


def robust() -> None:
    """False PASS and false FAIL with the truth at the threshold, for noise of other kinds."""
    rows = []
    for name, noise in kinds():
        row: list[str] = [name]
        for prior_df in (0, 12, 24):
            generator = rng(7)
            blocks = noise(generator, RUNS, 8)
            history = None
            if prior_df:
                # The same kind of noise, recorded in sessions of four blocks.
                history = sim.recorded(np.hstack([noise(generator, RUNS, 4) for _ in range(prior_df // 4)]))
            got = sim.run_many(rule(), blocks, history)
            row.append(f"{got.pass_rate:.3f} / {got.fail_rate:.3f}")
        rows.append(row)
    table("robust", ["noise", "scratch PASS / FAIL", "12 pooled", "24 pooled"], rows)


def noisier() -> None:
    """False PASS when this run is noisier than the pooled history."""
    rows = []
    for ratio in (1.0, 1.25, 1.5, 2.0, 3.0):
        row: list[str] = [f"{ratio:g}"]
        for prior_df in (12, 24):
            generator = rng(9)
            blocks = sim.white(generator, RUNS, 8)
            history = sim.recorded(sim.white(generator, RUNS, prior_df), ratio)
            bare = replace(history, inflation=1.0, noisier_level=0.0)
            row += [f"{sim.run_many(rule(), blocks, h).pass_rate:.3f}" for h in (bare, history)]
        rows.append(row)
    head = [
        "run's sd / history's",
        "12 df, unguarded",
        "12 df, guarded",
        "24 df, unguarded",
        "24 df, guarded",
    ]
    table("noisier", head, rows)


def refusals() -> None:
    """How often pool() refuses a history of six sessions of four blocks."""
    now = datetime(2026, 1, 31, tzinfo=UTC)
    key = {"stack": "s", "profile": "p", "metric": "m"}
    rows = []
    for name, noise in kinds():
        if name not in ("normal", "t, 3 df") and "blocks" not in name:
            continue
        generator, refused, runs = rng(17), 0, 1000
        for history in 0.02 * np.stack([noise(generator, runs, 4) for _ in range(6)], axis=1):
            records = [
                AaRecord(now - timedelta(days=6 - s), f"run{s}", log_ratio=float(d), **key)
                for s, session in enumerate(history)
                for d in session
            ]
            refused += isinstance(pool(records, now=now, **key), NoPrior)
        rows.append([name, f"{refused / runs:.2f}"])
    table("refusals", ["history", "refused"], rows)


def fitness() -> None:
    """The A/A gate on a machine with a given noise and bias, margin 3 %."""
    a_rule = Rule.no_slower(0.03)
    rows = []
    for sd in (0.005, 0.01, 0.02, 0.03, 0.04, 0.06):
        row: list[str] = [f"{sd:.1%}"]
        for bias in (0.0, 0.015, 0.03):
            generator = rng(11)
            fit, used, runs = 0, 0, 1000
            for _ in range(runs):
                blocks: list[Block] = []
                while (got := judge_aa(a_rule, blocks)).verdict is None:
                    block_noise = math.exp(bias + sd * generator.standard_normal())
                    blocks.append(Block(1.0, block_noise, schedule(8)[len(blocks)]))
                fit += got.verdict is Verdict.PASS
                used += len(blocks)
            row.append(f"{fit / runs:.2f} ({used / runs:.1f})")
        rows.append(row)
    table("fitness", ["block sd", "no bias: fit (blocks)", "bias 1.5 %", "bias 3 %"], rows)


def family() -> None:
    """Twenty buckets on independent noise: the whole's false PASS and false FAIL."""
    buckets = 20
    rows = []
    for name, distances in (
        ("one on the border, 19 far better", [0.0] + [4.0] * 19),
        ("all on the border", [0.0] * buckets),
        ("all equal to the baseline, margin = 1.5 sd", [1.5] * buckets),
        ("all equal to the baseline, margin = 2.5 sd", [2.5] * buckets),
    ):
        generator = rng(13)
        runs = 20_000
        passed, failed, uncorrected = np.ones(runs, bool), np.zeros(runs, bool), np.zeros(runs, bool)
        blocks = np.zeros(runs)
        for distance in distances:
            noise = sim.white(generator, runs, 8) + distance
            got = sim.run_many(rule(), noise, fail_share=1 / buckets)
            passed &= got.verdict == sim.PASS
            failed |= got.verdict == sim.FAIL
            uncorrected |= sim.run_many(rule(), noise).verdict == sim.FAIL
            blocks = np.maximum(blocks, got.blocks)
        cells = (f"{x.mean():.3f}" for x in (passed, failed, uncorrected))
        rows.append([name, *cells, f"{blocks.mean():.1f}"])
    table("family", ["20 buckets", "PASS", "FAIL", "FAIL without Bonferroni", "blocks"], rows)


TABLES = {
    f.__name__: f for f in (example, spent, designs, operating, sizes, robust, noisier, refusals, fitness, family)
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or TABLES:
        TABLES[wanted]()
