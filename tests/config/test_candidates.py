"""A candidate file is read as meant, or refused with file, key and the nearest right name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglgate.config import Candidate, Profile, load_candidates, load_profiles
from sglgate.config.candidate_files import select
from sglgate.errors import MisuseError

PROFILE = Profile.model_validate(
    {"name": "cpu", "reason": "tests", "arguments": {"device": "cpu"}, "environment": {"OMP": "1"}}
)
EXPECTED = '[expect.failure]\ncause = "{}"\nreason = "r"\nlink = "l"\n'
MINIMAL = 'name = "{name}"\nreason = "a test"\nmodel = "m"\n'


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, text: str = "", minimal: bool = True) -> Path:
        path = tmp_path / f"{name}.toml"
        path.write_text((MINIMAL.format(name=name) if minimal else "") + text, encoding="utf-8")
        return path

    return write


def load(folder: Path) -> list[Candidate]:
    return load_candidates(folder, PROFILE)


def test_the_profile_lies_below_the_candidate(write, tmp_path: Path) -> None:
    write("a", '[arguments]\ndevice = "cuda"\npage-size = 16\n[environment]\nX = "2"\n')

    (candidate,) = load(tmp_path)

    assert candidate.arguments == {"device": "cuda", "page-size": 16}
    assert candidate.environment == {"OMP": "1", "X": "2"}


def test_extends_lays_child_over_parent_and_wants_a_reason_of_its_own(write, tmp_path: Path) -> None:
    write("base", "[arguments]\na = 1\nb = 1\n[expect.kv]\nmin_tokens = 5\n")
    write("child", 'name = "child"\nreason = "other"\nextends = "base"\n[arguments]\nb = 2\n', minimal=False)

    child = load(tmp_path)[1]

    assert child.arguments == {"device": "cpu", "a": 1, "b": 2}
    assert child.expect.kv.min_tokens == 5
    assert child.model == "m"
    write("child", 'name = "child"\nextends = "base"\n', minimal=False)
    with pytest.raises(MisuseError, match=r"child.toml: reason: missing key"):
        load(tmp_path)


def test_an_abstract_candidate_is_only_extended(write, tmp_path: Path) -> None:
    write("base", "abstract = true\n")
    write("child", 'name = "child"\nreason = "r"\nextends = "base"\n', minimal=False)

    assert [c.name for c in load(tmp_path)] == ["child"]


def test_a_matrix_spans_its_product_with_telling_names(write, tmp_path: Path) -> None:
    write("a", '[matrix]\n"arguments.page-size" = [1, 16]\n"environment.NCCL_ALGO" = ["Ring", "Tree"]\n')

    candidates = load(tmp_path)

    assert [c.name for c in candidates] == [
        "a--page-size-1--nccl_algo-ring",
        "a--page-size-1--nccl_algo-tree",
        "a--page-size-16--nccl_algo-ring",
        "a--page-size-16--nccl_algo-tree",
    ]
    assert candidates[3].arguments["page-size"] == 16
    assert candidates[3].environment["NCCL_ALGO"] == "Tree"


def test_the_command_line_has_bare_flags_and_no_false_ones(write, tmp_path: Path) -> None:
    write("a", "[arguments]\nenable-x = true\nenable-y = false\nbs = [1, 2]\n")

    assert load(tmp_path)[0].command_line() == ["--device", "cpu", "--enable-x", "--bs", "1", "2"]


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ("argument = 1\n", "argument", "did you mean 'arguments'?"),
        ("[expect.kv]\nmin_token = 3\n", "expect.kv.min_token", "did you mean 'min_tokens'?"),
        ('suites = ["kvv"]\n', "suites.0", "Input should be 'launch', 'kv', 'allreduce' or 'eagle3'"),
        ("[expect]\nxyz = 1\n", "expect.xyz", "known keys: allreduce, eagle3, failure, kv"),
        ('[expect.kv]\nmin_tokens = "many"\n', "expect.kv.min_tokens", "tokens on every rank"),
        ("[expect.kv]\nfill = 1.5\n", "expect.kv.fill", "share of the pool"),
        ("[arguments]\nmem_fraction = 0.3\n", "arguments", "write it as 'mem-fraction'"),
        ('[arguments]\n"--page-size" = 1\n', "arguments", "write it as 'page-size'"),
        ("[arguments]\nport = 1\n", "arguments", "belongs to the suite"),
        (EXPECTED.format("unknown"), "expect.failure.cause", "one of bad_flag"),
        (EXPECTED.format("runtime_oo"), "expect.failure.cause", "'runtime_oom'?"),
        ("[environment]\nX = 1\n", "environment.X", "valid string"),
        ('extends = "nobody"\n', "extends", "known: a"),
        ('[matrix]\n"page-size" = [1]\n', "matrix.page-size", "arguments.X or environment.X"),
        ('[matrix]\n"arguments.page-size" = []\n', "matrix.arguments.page-size", "without values"),
        ('[matrix]\n"arguments.a" = [1,2,3,4,5,6,7,8,9]\n"arguments.b" = [1,2,3,4,5,6,7,8]\n', "matrix", "at most 64"),
    ],
)
def test_a_mistake_names_file_key_and_what_would_be_right(
    write, tmp_path: Path, text: str, key: str, hint: str
) -> None:
    path = write("a", text)

    with pytest.raises(MisuseError) as caught:
        load(tmp_path)

    assert str(caught.value).startswith(f"{path}: {key}: ")
    assert hint in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_cycle_is_shown_whole(write, tmp_path: Path) -> None:
    write("a", 'extends = "b"\n')
    write("b", 'extends = "a"\n')

    with pytest.raises(MisuseError, match=r"a cycle: a -> b -> a"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"name = ", "not valid TOML"), (b'name = "\xff"', "not UTF-8 at byte 8"), (b"", "missing key")],
)
def test_a_file_that_is_no_toml_says_where(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "a.toml").write_bytes(content)

    with pytest.raises(MisuseError, match=problem):
        load(tmp_path)


def test_a_name_that_is_not_the_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(MINIMAL.format(name="b"))

    with pytest.raises(MisuseError, match="must equal the file's name"):
        load(tmp_path)


def test_an_empty_folder_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="no candidate found"):
        load(tmp_path)


def test_an_unknown_selection_names_the_nearest(write, tmp_path: Path) -> None:
    write("smollm2")

    with pytest.raises(MisuseError, match="did you mean 'smollm2'"):
        select(load(tmp_path), ["smolm2"])


def test_every_profile_and_candidate_of_this_repository_loads() -> None:
    root = Path(__file__).parents[2] / "fixtures"
    profiles = load_profiles(root / "profiles")

    assert {"cpu", "blackwell"} <= set(profiles)
    for folder in (root / "candidates").iterdir():
        assert load_candidates(folder, profiles[folder.name])
