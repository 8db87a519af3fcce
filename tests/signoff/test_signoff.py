"""A planted regression is found, sized and attributed; an identical pair is go; what is accepted stays."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from sglgate.cli import main
from sglgate.decision import Block, Order, drive
from sglgate.errors import MisuseError
from sglgate.evidence import Evidence, Verdict
from sglgate.run import Run, RunInfo
from sglgate.signoff import Decision, Kind, Side, build, read_side
from sglgate.signoff.render import html, markdown
from sglgate.speed.judge import declare
from sglgate.speed.releases import IN_TURN

HOSTILE = "<script>alert(1)</script>\"'&|`../../\u0000\u0007😀" + "x" * 10_000
CANDIDATE = {"model": "m", "arguments": {"tp-size": 1}, "environment": {}, "expect": {}, "reason": "a test"}


def make(gate: str = "pool", **fields: object) -> Evidence:
    defaults: dict[str, object] = {
        "at": "2026-01-01T00:00:01.000+00:00", "run": "r", "profile": "cpu", "candidate": "c", "suite": "kv",
        "gate": gate, "test": "t", "verdict": "PASS", "reason": "why", "metric": "KV pool", "value": 4096, "bound": 1,
        "direction": "at_least", "unit": "tokens",
    }  # fmt: skip
    return Evidence.model_validate(defaults | fields)


def side(*records: Evidence, name: str = "r", sglang: str = "0.5.9", **info: object) -> Side:
    described = RunInfo.model_validate(
        {
            "name": name, "profile": "cpu", "sglgate": "0", "started": "s", "finished": "f", "exit_code": 0,
            "candidates": {"c": CANDIDATE}, "stack": {"digest": sglang, "packages": {"sglang": sglang}},
        } | info
    )  # fmt: skip
    return Side(Path("/nonexistent"), described, records)


def speed(rng: np.random.Generator, true: float, gate: str = "speed", sd: float = 0.01, n: int = 8) -> Evidence:
    """Mean of ``n`` launches with its 95 % t interval."""
    logs = np.log(true) + sd * rng.standard_normal(n)
    half = 2.365 * logs.std(ddof=1) / np.sqrt(n)
    low, mid, high = (float(np.exp(logs.mean() + step)) for step in (-half, 0, half))
    return make(gate, suite="eagle3", metric="tok/s", value=mid, interval=(low, high), unit="tok/s", n=n)


def test_an_identical_pair_is_go_in_at_least_95_of_100_runs() -> None:
    rng = np.random.default_rng(1)
    gates = [f"g{number}" for number in range(10)]
    decisions = [
        build(side(*[speed(rng, 100, g) for g in gates]), side(*[speed(rng, 100, g) for g in gates])).decision
        for _ in range(100)
    ]

    assert decisions.count(Decision.GO) >= 95


def test_a_delay_of_5_percent_is_found_and_sized_within_its_interval() -> None:
    rng = np.random.default_rng(2)
    found = covered = 0
    for _ in range(100):
        dossier = build(side(speed(rng, 100)), side(speed(rng, 95)))
        (row,) = dossier.rows
        found += dossier.decision is Decision.NO_GO and dossier.items[0].kind is Kind.REGRESSION
        covered += row.change.low <= -0.05 <= row.change.high

    assert found >= 95
    assert covered >= 90


def timed(value: float, half: float, **fields: object) -> Evidence:
    interval = (value * (1 - half), value * (1 + half))
    return make(
        **{
            "suite": "launch",
            "metric": "tok/s",
            "unit": "tok/s",
            "value": value,
            "interval": interval,
            "n": 5,
            **fields,
        }
    )


def test_a_metric_too_noisy_to_show_a_loss_of_5_percent_is_not_enough_evidence() -> None:
    dossier = build(side(timed(10.08, 0.06)), side(timed(10.23, 0.06)))

    (item,) = dossier.items
    assert (dossier.decision, item.kind) == (Decision.NOT_ENOUGH, Kind.UNRESOLVED)
    assert "a loss of 5 % cannot be ruled out; about 14 samples a side would tell" in item.text
    assert build(side(timed(10.08, 0.02)), side(timed(10.23, 0.02))).decision is Decision.GO


def test_a_ratio_is_not_asked_for_less_than_its_own_gate_allows() -> None:
    def ratio(bound: float) -> Side:
        return side(timed(1.0, 0.1, unit="ratio", bound=bound, direction="at_most"))

    assert build(ratio(1.25), ratio(1.25)).decision is Decision.GO
    assert build(ratio(1.03), ratio(1.03)).decision is Decision.NOT_ENOUGH


def in_turn(value: float | None, half: float, verdict: str = "PASS", against: str = "0.5.9", **fields) -> Evidence:
    return make(
        "speed_against_release",
        **{
            "suite": "launch",
            "metric": "chat@1: tok/s over that of the release that serves now",
            "unit": "ratio",
            "value": value,
            "interval": None if value is None else (value - half, value + half),
            "bound": 0.97,
            "verdict": verdict,
            "detail": {"against": against, "cell": "chat@1"},
            **fields,
        },
    )


NOISY = timed(100, 0.2, gate="speed_over_launches", metric="chat@1, tok/s over launches")


UNFIT = in_turn(None, 0, "UNFIT", metric="chat@1: equal arms differ by", detail={})


@pytest.mark.parametrize(
    ("record", "kinds", "decision"),
    [
        (in_turn(1.0, 0.02), [], Decision.GO),
        (in_turn(1.1, 0.02), [Kind.GAIN], Decision.GO),
        (in_turn(0.95, 0.01, "FAIL"), [Kind.REGRESSION], Decision.NO_GO),
        # A gate with a wide bound is green, and the loss is one all the same.
        (in_turn(0.95, 0.01, bound=0.75), [Kind.REGRESSION], Decision.NO_GO),
        (in_turn(0.98, 0.04, "INCONCLUSIVE"), [Kind.UNJUDGED], Decision.NOT_ENOUGH),
        # Whether it is more than the gate allows is open; that it is a loss is not.
        (in_turn(0.95, 0.03, "INCONCLUSIVE"), [Kind.REGRESSION], Decision.NO_GO),
        # Nothing is settled: the two runs are asked as well.
        (UNFIT, [Kind.UNJUDGED, Kind.UNRESOLVED], Decision.NOT_ENOUGH),
        (in_turn(None, 0, "FAIL"), [Kind.REGRESSION, Kind.UNRESOLVED], Decision.NO_GO),
    ],
)
def test_releases_that_took_turns_settle_what_two_runs_are_too_noisy_for(record, kinds, decision) -> None:
    dossier = build(side(NOISY), side(NOISY, record))

    assert [item.kind for item in dossier.items] == kinds
    assert dossier.decision is decision
    if Kind.REGRESSION in kinds and record.value:
        assert dossier.items[0].change.value == pytest.approx(-0.05)


#: As the CPU lane's smollm2-one-thread declares it.
RULE = declare(0.97, looks=(4, 6, 8, 12), design_effect=0.03, void_rules=())


def took_turns(rng: np.random.Generator, true: float, sd: float = 0.02) -> Evidence:
    """Blocks of both releases until the rule decides."""

    def block(order: Order) -> Block:
        # The machine's pace, which both share, changes by a tenth from block to block.
        pace = 10 * math.exp(0.1 * rng.standard_normal())
        return Block(pace, pace * true * math.exp(sd * rng.standard_normal()), order)

    fields = drive(RULE, block).evidence()
    return in_turn(1.0, 0).model_copy(update={key: fields[key] for key in ("value", "interval", "verdict", "n")})


def test_releases_that_take_turns_on_a_machine_of_changing_pace_are_told_apart_and_sized() -> None:
    rng = np.random.default_rng(3)
    same = [build(side(NOISY), side(NOISY, took_turns(rng, 1.0))) for _ in range(100)]
    slower = [build(side(NOISY), side(NOISY, took_turns(rng, 1 / 1.05))) for _ in range(100)]
    changes = [next(row.change for row in dossier.rows if row.key[2] == IN_TURN) for dossier in slower]

    assert [dossier.decision for dossier in same].count(Decision.GO) >= 95
    assert sum(dossier.decision is Decision.NO_GO for dossier in slower) >= 95
    assert sum(change.low <= 1 / 1.05 - 1 <= change.high for change in changes) >= 90


def test_speed_that_was_held_against_another_stack_is_no_evidence_of_this_pair() -> None:
    dossier = build(side(NOISY), side(NOISY, in_turn(1.0, 0.02, against="somebody's")))

    assert dossier.decision is Decision.NOT_ENOUGH
    assert "speed was held against" in dossier.doubts[0]


def test_that_the_first_run_took_turns_with_its_own_predecessor_does_not_matter() -> None:
    earlier = in_turn(0.9, 0.01, "FAIL", against="0.5.8")

    assert build(side(NOISY, earlier), side(NOISY, in_turn(1.0, 0.02))).decision is Decision.GO


@pytest.mark.parametrize(
    ("old", "new", "kind", "decision"),
    [
        ("PASS", "FAIL", Kind.REGRESSION, Decision.NO_GO),
        ("PASS", "NOT_EXERCISED", Kind.PATH_LOST, Decision.NO_GO),
        ("PASS", "UNFIT", Kind.UNJUDGED, Decision.NOT_ENOUGH),
        ("PASS", "INCONCLUSIVE", Kind.UNJUDGED, Decision.NOT_ENOUGH),
        ("PASS", None, Kind.COVERAGE_LOST, Decision.NOT_ENOUGH),
        ("FAIL", "FAIL", Kind.RED_IN_BOTH, Decision.NO_GO),
        ("UNFIT", "FAIL", Kind.REGRESSION, Decision.NO_GO),
        (None, "FAIL", Kind.NEW_AND_RED, Decision.NO_GO),
        (None, "PASS", Kind.COVERAGE_GAINED, Decision.GO),
        ("FAIL", "PASS", Kind.GAIN, Decision.GO),
        ("NOT_EXERCISED", "PASS", Kind.PATH_GAINED, Decision.GO),
        ("PASS", "PASS", None, Decision.GO),
    ],
)
def test_each_pair_of_verdicts_means_one_thing(old, new, kind, decision) -> None:
    other = make("other")
    sides = [side(other, *([make(verdict=verdict)] if verdict else [])) for verdict in (old, new)]

    dossier = build(*sides)

    assert [item.kind for item in dossier.items] == ([kind] if kind else [])
    assert dossier.decision is decision


def test_a_lost_path_leads_the_page() -> None:
    old = side(make(), make("path", suite="allreduce"))
    new = side(make(verdict="FAIL"), make("path", suite="allreduce", verdict="NOT_EXERCISED"))

    assert [item.kind for item in build(old, new).items] == [Kind.PATH_LOST, Kind.REGRESSION]


def test_what_was_judged_for_the_first_time_is_coverage_gained_and_says_why() -> None:
    old = side(make(verdict="FAIL", value=None, reason="the server did not come up"))

    (item,) = build(old, side(make())).items

    assert item.kind is Kind.COVERAGE_GAINED
    assert "did not come up" in item.text


def test_a_gained_path_leads_the_page_too() -> None:
    old = side(make(), make("path", suite="allreduce", verdict="NOT_EXERCISED"))
    new = side(make(verdict="FAIL"), make("path", suite="allreduce"))

    assert [item.kind for item in build(old, new).items] == [Kind.PATH_GAINED, Kind.REGRESSION]


def test_changed_answers_stop_a_release_until_accepted() -> None:
    old, new = (side(make(detail={"answers": {"2+2": answer, "hi": "hi"}})) for answer in ("4", "5"))

    (item,) = build(old, new).items

    assert item.kind is Kind.ANSWERS_CHANGED
    assert "1 of 2 answers changed" in item.text
    assert build(old, old).items == ()


def test_a_smaller_pool_is_a_regression_though_its_gate_is_green_and_a_slower_single_start_is_none() -> None:
    start = {"suite": "launch", "metric": "start", "unit": "s", "direction": "at_most"}
    old, new = (
        side(make(value=10_000), make("up", value=80.0, **start)),
        side(make(value=9_000), make("up", value=120.0, **start)),
    )

    (item,) = build(old, new).items

    assert (item.kind, item.gate) == (Kind.REGRESSION, "pool")
    assert "-10.00 % (single readings)" in item.text


def test_a_changed_default_is_named_and_one_that_was_asked_for_is_not_called_so() -> None:
    def launched(fraction: float, tp: int) -> Side:
        launch = {
            "candidate": "c",
            "log": "l",
            "resolved": {"mem_fraction_static": fraction, "tp_size": tp, "port": tp},
        }
        return side(make(value=int(fraction * 10_000)), launches=[launch])

    dossier = build(launched(0.9, 1), launched(0.8, 2))

    assert {(d.name, d.note) for d in dossier.arguments["c"]} == {
        ("mem_fraction_static", "default changed"), ("tp_size", "asked alike, overruled"),
    }  # fmt: skip
    assert dossier.items[0].causes == (
        "asked alike, overruled: tp_size 1 -> 2",
        "default changed: mem_fraction_static 0.9 -> 0.8",
    )


def test_of_many_changed_defaults_an_item_names_a_few_and_says_how_many_more() -> None:
    def launched(value: int) -> Side:
        resolved = {f"argument_{number}": value for number in range(30)}
        return side(make(value=value), launches=[{"candidate": "c", "log": "l", "resolved": resolved}])

    (item,) = build(launched(100), launched(90)).items

    assert len(item.causes) == 5
    assert item.causes[-1] == "26 more among the candidate's resolved arguments"


def test_gains_stand_in_a_table_with_what_was_said_before(tmp_path: Path) -> None:
    gates = ("a", "b")
    old = side(*[make(gate, verdict="FAIL", value=None, reason="it did not come up") for gate in gates])

    page = html(build(old, side(*map(make, gates))))

    assert page.count("before: it did not come up") == 1
    assert "as above" in page


def test_a_gate_that_is_green_for_less_has_lost_coverage() -> None:
    both = make(metric="tokens, rank TP0")

    (item,) = build(side(both, make(metric="tokens, rank TP1")), side(both)).items

    assert (item.kind, item.metric) == (Kind.COVERAGE_LOST, "tokens, rank TP1")


def log_of(fraction: float, tokens: int, draft_first: bool, *, cell_kib: int = 64) -> str:
    """What SGLang prints of a start with a draft: pre 90 GiB, target weights 60, draft weights 2."""
    gib = tokens * cell_kib / 2 / (1 << 20)

    def weights(before: float, after: float) -> list[str]:
        return [
            f"Load weight begin. avail mem={before:.2f} GB",
            f"Load weight end. elapsed=9.00 s, type=A, dtype=torch.bfloat16, avail mem={after:.2f} GB, "
            f"mem usage={before - after:.2f} GB.",
        ]

    def pool(half_gib: float, left: float) -> list[str]:
        return [
            f"KV Cache is allocated. #tokens: {tokens}, K size: {half_gib:.2f} GB, V size: {half_gib:.2f} GB",
            f"Memory pool end. avail mem={left:.2f} GB",
        ]

    arguments = f"device='cuda', tp_size=1, page_size=1, mem_fraction_static={fraction}"
    head = [f"server_args=ServerArgs(model_path='m', {arguments}, speculative_algorithm='EAGLE3')", *weights(90, 30)]
    target, draft = pool(gib, 30 - 2 * gib), weights(30, 28)
    lines = [*head, *(draft + target if draft_first else target + draft), *pool(gib / 8, 5)]
    return "".join(f"[2026-01-01 00:00:00] {line}\n" for line in lines)


def launched(folder: Path, sglang: str, tokens: int, draft_first: bool) -> Side:
    """A run with one launch whose log is :func:`log_of`."""
    info = side(name=f"{sglang}-{tokens}", sglang=sglang).info.model_copy(update={"launches": [], "finished": None})
    run = Run.begin(folder, info)
    # Under another name: the candidate shares its server.
    run.note_launch({"candidate": "first", "also": ["c"], "log": "logs/c.log", "resolved": {}})
    (run.logs / "c.log").write_text(log_of(0.9, tokens, draft_first))
    run.add(make(value=tokens))
    run.close(0)
    return read_side(run.folder)


def test_a_draft_pool_too_small_for_two_decimals_is_a_pool_of_unknown_size(tmp_path: Path) -> None:
    old, new = (launched(tmp_path, "0.5.23", tokens, True) for tokens in (1000, 900))
    assert "K size: 0.00 GB" in (old.folder / "logs" / "c.log").read_text()

    (account,) = build(old, new).kv

    assert not any("draft" in cause.text and "bytes per token" in cause.text for cause in account.causes)


def test_a_kv_drop_is_put_down_to_draft_accounting_and_sized(tmp_path: Path) -> None:
    # 90 GiB x 0.9 - 60 = 21 GiB: 0.5.9 gives all to the target; 0.5.23 first takes 2 GiB of draft weights, then an
    # eighth of the target's bytes for the draft's own layers.
    dossier = build(*(launched(tmp_path, *of) for of in (("0.5.9", 344_064, False), ("0.5.23", 276_707, True))))

    (account,) = dossier.kv
    causes = {cause.text.split(":")[0].split(" counted")[0]: cause.gib for cause in account.causes}
    assert causes["draft accounting"] == pytest.approx(-2.11, abs=0.02)
    assert causes["draft weights"] == pytest.approx(-2.0, abs=0.02)
    assert abs(account.unexplained_gib) < 0.05
    (item,) = dossier.items
    assert item.kind is Kind.REGRESSION
    assert any(cause.startswith("draft accounting: SGLang 0.5.23") for cause in item.causes)
    assert not any("not accounted for" in cause for cause in item.causes)


def test_runs_that_do_not_ask_the_same_question_are_never_go() -> None:
    changed = side(make(), candidates={"c": {**CANDIDATE, "model": "another"}})

    dossier = build(side(make()), changed)

    assert dossier.decision is Decision.NOT_ENOUGH
    assert "model" in dossier.doubts[0]
    assert build(side(make()), side(make(), finished=None)).decision is Decision.NOT_ENOUGH
    assert build(side(), side()).decision is Decision.NOT_ENOUGH
    with pytest.raises(MisuseError, match="profiles"):
        build(side(make()), side(make(), profile="blackwell"))


def test_hostile_names_harm_neither_page_nor_markdown() -> None:
    names = {"candidate": HOSTILE, "metric": HOSTILE, "reason": HOSTILE, "unit": HOSTILE}
    dossier = build(side(make(HOSTILE, **names)), side(make(HOSTILE, verdict="FAIL", **names)))

    page, text = html(dossier), markdown(dossier)

    assert "<script" not in page
    assert "<script" not in text
    assert all(line.count("|") - line.count("\\|") == 8 for line in text.splitlines() if line.startswith("|"))
    assert not re.search(r"(?:src|href)=\"(?:\w+:|//)", page)


@pytest.fixture
def two_runs(tmp_path: Path) -> list[str]:
    folders = []
    for name, verdict in (("a", Verdict.PASS), ("b", Verdict.FAIL)):
        run = Run.begin(tmp_path, side(name=name).info)
        run.add(make(verdict=verdict))
        run.close(0)
        folders.append(str(run.folder))
    return folders


def test_the_command_writes_a_dossier_and_keeps_what_was_accepted(two_runs, tmp_path: Path, capsys) -> None:
    out = tmp_path / "dossier"
    command = ["signoff", "--from", two_runs[0], "--to", two_runs[1], "--out", str(out), "--json"]

    assert main(command) == 1
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert main([*command, "--accept", item["id"], "--who", "A", "--why", " "]) == 2
    assert main([*command, "--accept", "ffffff", "--who", "A", "--why", "w"]) == 2
    assert item["id"] in capsys.readouterr().err
    assert main([*command, "--accept", item["id"], "--who", "A", "--why", "known"]) == 0
    assert main(command) == 0
    (kept,) = json.loads((out / "dossier.json").read_text())["items"]
    assert (kept["accepted"]["who"], kept["accepted"]["why"]) == ("A", "known")
    assert "known" in (out / "index.html").read_text()
    assert {path.name for path in out.iterdir()} == {"dossier.json", "dossier.md", "index.html"}
    assert main(["signoff", "--from", two_runs[1], "--to", two_runs[0], "--out", str(out)]) == 2


def test_compare_says_what_is_worse_and_writes_nothing(two_runs, tmp_path: Path, capsys) -> None:
    before = sorted(tmp_path.rglob("*"))

    assert main(["compare", *two_runs]) == 1
    assert "regression" in capsys.readouterr().out
    assert main(["compare", two_runs[0], two_runs[0]]) == 0
    assert sorted(tmp_path.rglob("*")) == before
