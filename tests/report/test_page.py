"""The page shows every verdict and reason, is whole in itself, and no name of a file or a log can break it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import time
from pathlib import Path

import pytest

from sglgate.cli import main
from sglgate.report import write_html
from tests.report.pages import Page, evidence

HOSTILE = "<script>alert(1)</script>\"'&../../\u0000\u0007\u202e😀" + "x" * 10_000
#: What a browser asks for by itself.
LOADED = {"src", "srcset", "poster", "data", "background", "action", "formaction", "ping", "xlink:href", "style"}


def page_of(folder: Path) -> Page:
    return Page(write_html(folder).read_text())


def test_every_red_reason_is_on_the_page_and_leads_to_the_line_that_it_names(make_run) -> None:
    folder = make_run(evidence(verdict="FAIL", reason="too <small> by 3, line 12: see", logs=("logs/a.log",)))
    lines = [f"line {n} of it" for n in range(1, 500)]
    (folder / "logs" / "a.log").write_text("\n".join([*lines, "the \x1b[31mlast, token=hf_abcdefghijklmnop1234\n"]))

    text = write_html(folder).read_text()
    page = Page(text)

    assert "too &lt;small&gt; by 3, " in text
    (anchor,) = [a["href"] for a in page.all("a") if a.get("href", "").endswith("-12")]
    (line,) = [span for span in page.all("span") if f"#{span.get('id')}" == anchor]
    assert line["class"] == "meant"
    assert "./logs/a.log#:~:text=line%2012%20of%20it" in [a["href"] for a in page.all("a")]
    assert "the last, token=***" in text
    assert "hf_abcdefghijklmnop1234" not in text
    assert "line 300 of it" not in text, "an excerpt, not the log"


def test_a_log_that_several_gates_need_is_shown_once(make_run) -> None:
    red = {"verdict": "FAIL", "logs": ("logs/a.log",)}
    folder = make_run(evidence(**red, reason="line 3"), evidence(**red, gate="h", reason="line 5"))
    (folder / "logs" / "a.log").write_text("".join(f"only {n}\n" for n in range(1, 400)))

    text = write_html(folder).read_text()

    assert text.count("only 399<") == 1
    assert text.count("shown above") == 1
    assert {"#log0-3", "#log0-5"} <= {a.get("href") for a in Page(text).all("a")}


def test_the_page_asks_for_nothing_and_its_policy_forbids_it(whole_run) -> None:
    page = page_of(whole_run)

    assert not page.all("script", "link", "iframe", "img", "object", "embed", "base", "form", "audio", "video")
    for _, attributes in page.tags:
        assert not LOADED & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
    for link in page.all("a"):
        inline = link["href"].startswith("data:") and "download" in link
        assert inline or re.match(r"#|\./", link["href"]), link
    css = "".join(page.text["style"])
    assert "url(" not in css
    assert "@import" not in css
    policy = next(m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_every_part_of_a_whole_run_is_there(whole_run) -> None:
    page = page_of(whole_run)

    sections = ["board", "red", "evidence", "figures", "memory", "launches", "arguments", "about"]
    assert [section["id"] for section in page.all("section")] == sections
    titles = " ".join(page.text["h3"])
    for title in ("tokens per second by concurrency", "acceptance by position", "all-reduce time by size, 8 ranks"):
        assert title in titles
    labels = [svg.get("aria-label") or "" for svg in page.all("svg")]
    for label in ("TP3, seen: ", "TP3, predicted: ", "start-up of spec: ", "GPU temperature: ", "PASS: 1.45 ratio"):
        assert any(one.startswith(label) for one in labels), label


def test_the_page_can_be_heard_and_walked_with_the_keyboard(whole_run) -> None:
    page = page_of(whole_run)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]

    assert len(ids) == len(set(ids))
    assert all(link["href"][1:] in ids for link in page.all("a") if link["href"].startswith("#"))
    assert next(a for a in page.all("a"))["class"] == "skip"
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    drawn = [svg for svg in page.all("svg") if svg.get("aria-hidden") != "true"]
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in drawn)
    assert all("scope" in th for th in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(div["tabindex"] == "0" and div["aria-label"] for div in page.all("div") if div.get("role") == "region")


def test_hostile_names_stay_text(make_run) -> None:
    names = {"candidate": HOSTILE, "gate": HOSTILE, "suite": HOSTILE, "metric": HOSTILE, "unit": HOSTILE}
    logs = (
        HOSTILE,
        "../../../../../../etc/passwd",
        "/etc/passwd",
        "//example.org/x",
        "javascript:alert(1)",
        "logs/ü <b>.log",
    )
    launch = {
        "candidate": HOSTILE,
        "log": HOSTILE,
        "problem": HOSTILE,
        "resolved": {HOSTILE: HOSTILE},
        "command": "'" + HOSTILE,
    }
    up = launch | {
        "candidate": f"{HOSTILE}--x",
        "problem": None,
        "phase_s": {HOSTILE: 1.0, "total": 2.0},
        "resolved": {},
    }
    folder = make_run(
        evidence(verdict="FAIL", reason=f"line 1 {HOSTILE}", logs=logs, value=2.0, interval=(1.0, 3.0), **names),
        launches=[launch, up, launch | {"candidate": f"{HOSTILE}--y", "resolved": {"a": 1}}],
        candidates={HOSTILE: {"reason": HOSTILE, "extends": HOSTILE}},
        stack={"digest": HOSTILE, "python": HOSTILE, "packages": {"sglang": HOSTILE}, "torch_build": {}},
        node={"cpu": HOSTILE, "cores": 1, "ram_gib": 1, "kernel": HOSTILE, "gpus": [HOSTILE]},
    )  # fmt: skip
    (folder / "logs" / "ü <b>.log").write_bytes(b"<script>alert(2)</script> \xff\x00\x9b\n")

    text = write_html(folder).read_text()
    page = Page(text)

    assert not page.all("script")
    assert "<b>.log" not in text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "root:" not in text, "a log outside of the run is not read"
    links = [a["href"] for a in page.all("a")]
    assert all(re.match(r"#|\./|data:application/octet-stream", link) for link in links)
    assert not any("passwd" in link or "example.org" in link or "javascript" in link for link in links)
    assert any(link.startswith("./logs/%C3%BC%20%3Cb%3E.log") for link in links)
    assert "x" * 5000 not in text, "long names are cut"


def test_half_a_surrogate_pair_does_not_stop_the_page(make_run) -> None:
    folder = make_run(evidence())
    info = json.loads((folder / "run.json").read_text())
    info["launches"] = [{"candidate": "c", "log": "logs/\ud83d.log", "problem": "half \ud83d"}]
    (folder / "run.json").write_text(json.dumps(info))

    assert "half \\xd83d" in write_html(folder).read_text()


def test_a_cut_run_says_so_and_is_not_green(make_run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(evidence(), finished=False)

    assert main(["report", str(folder)]) == 1

    assert "the run did not end" in (folder / "index.html").read_text()
    assert "1 of 1 gates green" in capsys.readouterr().out


def test_the_page_is_rebuilt_byte_for_byte(whole_run) -> None:
    first = write_html(whole_run).read_bytes()
    (whole_run / "index.html").unlink()
    (whole_run / "junit.xml").write_text("<testsuites/>")  # pytest writes it after the first page

    main(["report", str(whole_run)])

    assert (whole_run / "index.html").read_bytes() == first


def test_report_of_something_else_is_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "absent")]) == 2
    assert "not a run" in capsys.readouterr().err


def test_every_record_is_on_the_page_with_its_figures_and_in_it_for_download(make_run) -> None:
    folder = make_run(evidence(value=1234567, interval=(1.0, float("inf")), unit="tokens"))

    text = write_html(folder).read_text()

    assert "1\u202f234\u202f567" in text
    assert "1 … inf" in text
    inline = {a["download"]: a["href"].partition(",")[2] for a in Page(text).all("a") if "download" in a}
    assert base64.b64decode(inline["evidence.jsonl"]) == (folder / "evidence.jsonl").read_bytes()
    assert base64.b64decode(inline["run.json"]) == (folder / "run.json").read_bytes()


def test_500_red_gates_with_long_reasons_and_logs_are_a_page_that_can_be_sent(make_run) -> None:
    records = [
        evidence(candidate=f"c{n % 10}", gate=f"g{n // 10}", verdict="FAIL", reason=f"line 7 {HOSTILE}", metric=HOSTILE,
                 value=n, interval=(n - 1, n + 1), bound=1, direction="at_least", logs=(f"logs/{n}.log",))
        for n in range(500)
    ]  # fmt: skip
    folder = make_run()
    (folder / "evidence.jsonl").write_text("".join(f"{record.model_dump_json()}\n" for record in records))
    for n in range(500):
        (folder / "logs" / f"{n}.log").write_text(("x" * 390 + "\n") * 60)

    begin = time.perf_counter()
    page = write_html(folder)

    # Far above what benchmarks/store.py measures: this is no benchmark.
    assert time.perf_counter() - begin < 10
    assert page.stat().st_size < 5_000_000
