"""Are the files of every model whole?"""

from __future__ import annotations

from fixtures.lane import Lane
from sglgate.errors import MisuseError
from sglgate.node import NodeSource
from sglgate.node.facts import ModelFiles
from sglgate.preflight import host


def test_models(node: NodeSource, lane: Lane, judge) -> None:
    """Index against shards, each shard's size against its own header."""
    found: dict[str, ModelFiles | str] = {}
    for name in host.distinct_models(lane.candidates):
        try:
            found[name] = node.model(name)
        except MisuseError as error:
            found[name] = str(error)
    judge(host.models_whole(found))
