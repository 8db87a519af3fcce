"""The ``sglgate`` command: one module of :mod:`sglgate.commands` a subcommand."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

from sglgate import __version__, commands
from sglgate.errors import ExitCode, SglgateError


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; each module of ``sglgate.commands`` adds itself by ``register``."""
    parser = argparse.ArgumentParser(prog="sglgate", description=__doc__)
    parser.add_argument("--version", action="version", version=f"sglgate {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in sorted(pkgutil.iter_modules(commands.__path__), key=lambda m: m.name):
        if not module.name.startswith("_"):
            importlib.import_module(f"sglgate.commands.{module.name}").register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (0 green, 1 red, 2 misuse, 3 unfit)."""
    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except SglgateError as error:
        print(f"sglgate {args.command}: {error}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has gone; python must not complain again while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.GREEN)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
