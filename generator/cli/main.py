"""``stowplan``: parse arguments, load the one command that was asked for, run it.

Exit codes of every command: 0 fine; 1 errors found, or (``--check``, ``diff``) differences; 2 wrong
usage or unreadable input; 3 a ``--fail-on`` limit was reached; 130 interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType

from generator.cli.streams import discard_output, failed_io, open_missing_streams

# name → (module, one line for --help). Modules are imported only for the command that runs.
COMMANDS: dict[str, tuple[str, str]] = {
    "compile": ("generator.cli.compile", "render the inventory into compiled/"),
    "check": ("generator.cli.check", "judge manifests: schemas, references and policies"),
    "diff": ("generator.cli.diff", "say what a change of compiled/ does to running clusters"),
    "bootstrap": (
        "generator.cli.bootstrap",
        "print what a cluster needs beforehand: gcloud, Terraform, KCC",
    ),
    "doctor": ("generator.cli.doctor", "say what is wrong in a live cluster; reads only"),
    "explain": ("generator.cli.explain", "explain a rule, or list all of them"),
    "import": ("generator.cli.import_manifests", "bring existing YAML into the inventory"),
    "init": ("generator.cli.init", "write a small working tree of your own"),
    "size": ("generator.cli.size", "explain RAM disk sizes, or try out others"),
    "schema": ("generator.cli.schema", "print the JSON Schema of inventory files, for editors"),
}

EPILOG = """exit codes:
  0  fine
  1  errors found, or (--check, diff) differences
  2  wrong usage, or input that cannot be read
  3  a --fail-on limit was reached
  130  interrupted (143: terminated)
"""


def version() -> str:
    """The installed version, looked up only when it is asked for."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("stowplan")
    except PackageNotFoundError:
        return "not installed"


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *args: object, **kwargs: object) -> None:
        print(f"stowplan {version()}")
        parser.exit()


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stowplan",
        description="Manifests, checks and policies for GKE training fleets, from one inventory.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == command:
            import_module(module).add_arguments(sub)
    return parser


class Terminated(KeyboardInterrupt):
    """SIGTERM: end like Ctrl-C does, with what was begun cleaned up."""


def _terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    command = next((word for word in argv if word in COMMANDS), None)
    open_missing_streams()
    try:
        signal.signal(signal.SIGTERM, _terminated)
        options = _parser(command).parse_args(argv)
        status = int(import_module(COMMANDS[options.command][0]).run(options))
        sys.stdout.flush()
    except Terminated:
        print("terminated", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        discard_output()  # the reader (head, less) went away; its right
        return 0
    except OSError as error:
        discard_output()
        print(f"stowplan: {failed_io(error)}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
