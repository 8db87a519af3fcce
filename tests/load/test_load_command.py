"""``sglgate load``: what it prints and what its exit code says."""

import json
from pathlib import Path

import pytest

import sglgate.load
from sglgate.cli import main
from sglgate.evidence import Verdict
from sglgate.load import run_load, stub

PROMPTS = str(Path(__file__).parents[2] / "fixtures" / "prompts")


def load(url, *more):
    return main(["load", url, "--prompts", PROMPTS, "--output-tokens", "16", *more])


def test_usable_figures_are_green_and_shown(monkeypatch, capsys):
    def declared_fit(plan):  # whether this machine is calm is not what is tested
        return run_load(plan).model_copy(update={"verdict": Verdict.PASS})

    monkeypatch.setattr(sglgate.load, "run_load", declared_fit)
    with stub.running(stub.StubConfig(tok_per_s=200, tokens_per_event=3)) as url:
        assert load(url, "--concurrency", "2", "--requests", "8") == 0
    shown = capsys.readouterr().out
    assert "closed loop, concurrency 2, chat, 16 tokens an answer" in shown
    assert "acceptance length 3.20, per position 1.00 1.00" in shown


def test_a_failed_request_is_red(capsys):
    with stub.running(stub.StubConfig(fault="short")) as url:
        assert load(url, "--rate", "50", "--requests", "4") == 1
    assert "15 tokens, asked for 16" in capsys.readouterr().out


def test_figures_that_are_not_the_servers_are_unfit(capsys):
    with stub.running() as url:  # over before the client could be judged
        assert load(url, "--concurrency", "1", "--requests", "1", "--json") == 3
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "UNFIT"
    assert len(result["requests"]) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--requests", "4"],
        ["--requests", "4", "--rate", "1", "--concurrency", "1"],
        ["--requests", "1", "--concurrency", "4"],
        ["--requests", "4", "--concurrency", "1", "--kind", "chatt"],
    ],
)
def test_arguments_that_cannot_be_meant_are_misuse(arguments, capsys):
    assert load("http://127.0.0.1:1", *arguments) == 2
    assert "sglgate load: " in capsys.readouterr().err
