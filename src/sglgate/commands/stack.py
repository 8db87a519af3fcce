"""``sglgate stack``: make a stack of another release beside the one that serves, to judge both."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = "example: sglgate stack create --from sglang==0.5.9 && pytest -m cpu --stack=.stacks/cpu-0.5.9"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("stack", help="make the software that is judged", epilog=EXAMPLE)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser(
        "create",
        help="a venv with an sglang release and its needs",
        description="Make a stack, or finish or repair one. Where there is no GPU, the package that lets the wheel "
        "serve on a CPU goes beside it.",
        epilog=EXAMPLE,
    )
    create.add_argument(
        "--from", dest="source", required=True, metavar="WHAT", help="sglang==RELEASE, or a requirements file"
    )
    create.add_argument(
        "--constraints",
        type=Path,
        metavar="FILE",
        help="exact versions (default: ci/constraints-stack-RELEASE.txt, if it is there)",
    )
    create.add_argument("--name", help="the link in .stacks (default: cpu-RELEASE or gpu-RELEASE)")
    create.add_argument("--root", type=Path, default=Path(), help="the checkout of sglgate (default: here)")
    create.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make it and print where it is."""
    from sglgate import making, venvs
    from sglgate.errors import ExitCode, MisuseError
    from sglgate.naming import file_name
    from sglgate.node import nvml

    root = args.root.resolve()
    ours = root / "fixtures" / "cpu_stack"
    if not ours.is_dir():
        raise MisuseError("not a checkout of sglgate", key="--root", value=str(root), expected="the folder of ci/")
    try:
        cpu = not nvml.read_nvml().gpus
    except nvml.NoGpuError:
        cpu = True
    if args.source.endswith(".txt") and not Path(args.source).is_file():
        raise MisuseError("no such requirements file", key="--from", value=args.source)
    release = args.source.partition("==")[2]
    constraints = args.constraints.resolve() if args.constraints else None
    if constraints is None and (known := root / "ci" / f"constraints-stack-{release}.txt").is_file():
        constraints = known
    if constraints is not None and not constraints.is_file():
        raise MisuseError("no such file", key="--constraints", value=str(args.constraints))
    recipe = making.StackRecipe(
        name=file_name(args.name or f"{'cpu' if cpu else 'gpu'}-{release or Path(args.source).stem}"),
        requirements=(args.source,),
        constraints=constraints,
        cpu=cpu,
    )
    venvs.check_machine()
    venvs.check_disk(0 if recipe.is_made else making.NEEDED_GB)
    with venvs.sole_maker():
        python = making.ensure_stack(recipe, root)
    pinned = f"pinned by {constraints.name}" if constraints else "not pinned: a later call may find newer packages"
    print(f"{python}: {args.source}, {pinned}")
    return int(ExitCode.GREEN)
