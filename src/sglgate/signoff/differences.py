"""What differs between the two sides beside the results: packages, resolved arguments, the question itself."""

from __future__ import annotations

from sglgate.resolved import ABSENT, Difference, differing, does_nothing, resolved
from sglgate.signoff.side import Side
from sglgate.speed.releases import AGAINST
from sglgate.stack import HEADLINE_PACKAGES


def packages(old: Side, new: Side) -> list[Difference]:
    """Python, libc, torch's build and every package, those that matter most first."""
    sides = [
        {
            "python": side.info.stack.get("python", ABSENT),
            "libc": side.info.stack.get("libc", ABSENT),
            **{f"torch {key}": str(value) for key, value in side.info.stack.get("torch_build", {}).items()},
            **side.info.stack.get("packages", {}),
        }
        for side in (old, new)
    ]
    first = [*HEADLINE_PACKAGES, "torch cuda", "python"]
    found = differing(*sides)
    return sorted(found, key=lambda d: (first.index(d.name) if d.name in first else len(first), d.name))


def arguments(old: Side, new: Side, candidate: str) -> list[Difference]:
    """The server's resolved arguments.

    One that neither side asked for is a default that changed; one that both asked for alike, SGLang overruled.
    """
    a, b = old.launch(candidate), new.launch(candidate)
    # A server that did not come up has resolved nothing that it could be asked for.
    if a is None or b is None or not a.get("resolved") or not b.get("resolved"):
        return []
    both = [resolved(launch) for launch in (a, b)]
    asked = [
        # false leaves the flag out: nothing was asked.
        {n.replace("-", "_"): v for n, v in side.info.candidates[candidate]["arguments"].items() if v is not False}
        for side in (old, new)
    ]
    found = []
    for one in differing(*both):
        if does_nothing(one):
            continue
        if one.name not in both[0] or one.name not in both[1]:
            note = "new argument" if one.old == ABSENT else "argument removed"
        else:
            before, after = (names.get(one.name) for names in asked)
            note = "asked for" if before != after else "default changed" if before is None else "asked alike, overruled"
        found.append(Difference(one.name, one.old, one.new, note))
    return found


def question(old: Side, new: Side) -> list[Difference]:
    """What must be the same: the client, and each candidate's model, arguments, environment and expectations."""
    found = [
        Difference(f"{name} {key}", one.old, one.new, "not the same question")
        for name in old.info.candidates
        if name in new.info.candidates
        for key in ("model", "arguments", "environment", "expect")
        for one in differing({key: old.info.candidates[name].get(key)}, {key: new.info.candidates[name].get(key)})
    ]
    if old.info.sglgate != new.info.sglgate:
        found.append(Difference("sglgate", old.info.sglgate, new.info.sglgate, "not the same client"))
    held_against = {e.detail[AGAINST] for e in new.evidence if AGAINST in e.detail}
    before = old.info.stack.get("digest")
    found += [
        Difference("the stack that speed was held against", str(before), str(one), "not the same question")
        for one in sorted(held_against - {before})
    ]
    return found


def machines(old: Side, new: Side) -> list[Difference]:
    """The two machines."""
    return differing(old.info.node, new.info.node)
