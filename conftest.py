"""Options, markers and the choice of the lane; what the suites stand on is in fixtures/."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

from sglgate.config import load_candidates, load_profiles
from sglgate.config.candidate_files import fitting, select
from sglgate.errors import MisuseError

ROOT = Path(__file__).parent
pytest_plugins = [
    "fixtures.lane",
    "fixtures.session",
    "fixtures.gate",
    "fixtures.preflight",
    "fixtures.server",
    "fixtures.speed",
    "fixtures.worlds",
    "fixtures.resume",
    "fixtures.side_by_side",
    "fixtures.pace",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """All options of the suite."""
    group = parser.getgroup("sglgate", "sglgate: judge real SGLang servers (choose a lane with -m)")
    group.addoption(
        "--stack", metavar="PYTHON", help="interpreter with the sglang to judge, or a container (default: .stacks/cpu)"
    )
    group.addoption(
        "--against", metavar="PYTHON", help="interpreter with the sglang that serves now: speed is held against it"
    )
    group.addoption(
        "--attach", metavar="URL", help="judge a server that runs already, without launching or stopping one"
    )
    group.addoption("--attach-log", type=Path, metavar="FILE", help="the log that it writes: more gates can judge then")
    group.addoption("--candidate", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    group.addoption(
        "--candidates",
        type=Path,
        metavar="FOLDER",
        help="folder of candidate files (default: fixtures/candidates/LANE)",
    )
    group.addoption("--reports", type=Path, default=ROOT / "reports", metavar="FOLDER", help="where runs are written")
    group.addoption(
        "--replay", type=Path, metavar="FOLDER", help="judge a recorded node: every verdict is marked, none is green"
    )
    group.addoption("--record", type=Path, metavar="FOLDER", help="keep what the node answers, to be replayed")
    group.addoption(
        "--keep-going", action="store_true", help="judge on although preflight is red: figures of an unfit machine"
    )
    group.addoption(
        "--resume", type=Path, metavar="RUN", help="folder of a run to go on with, where it stopped; same everything"
    )
    group.addoption(
        "--fail-fast-gate", action="append", default=[], metavar="NAME", help="stop once this gate is red; repeatable"
    )
    group.addoption(
        "--wait-for-node", type=float, default=0, metavar="SECONDS", help="wait for another run to end, do not refuse"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the profiles as markers; load the candidates of the lane that ``-m`` names, if it names one."""
    # Not at the top: pytest rewrites a plugin's asserts only if it is the first to import it.
    from fixtures.lane import LANE, Lane
    from fixtures.resume import resume_selection
    from fixtures.session import prepare
    from sglgate.errors import UnfitError

    try:
        profiles = load_profiles(ROOT / "fixtures" / "profiles")
        for profile in profiles.values():
            config.addinivalue_line("markers", f"{profile.name}: lane: {profile.reason}")
        resume_selection(config, profiles)
        # The tokens of a mark expression, as pytest scans them.
        named = [p for name, p in profiles.items() if name in re.findall(r"[\w:+.\[\]\\/-]+", config.option.markexpr)]
        if len(named) > 1:
            raise MisuseError("names two lanes", key="-m", value=config.option.markexpr, expected="one lane a run")
        if named:
            folder = config.option.candidates or ROOT / "fixtures" / "candidates" / named[0].candidates_folder
            candidates = select(fitting(load_candidates(folder, named[0]), named[0]), config.option.candidate)
            config.stash[LANE] = Lane(named[0], tuple(candidates), ROOT)
            # First of all plugins: pytest's JUnit writer reads its path in its own pytest_configure.
            prepare(config)
    except (MisuseError, UnfitError) as error:
        pytest.exit(f"sglgate: {error}", returncode=int(error.exit_code))


def pytest_collection_finish() -> None:
    """What was imported stays: pytest's garbage collections at the end need not walk all of it five times."""
    gc.freeze()
