"""The `echelon` command. Each of its commands is a module here, imported when it is run."""

import re
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import echelon
from echelon.errors import ArgumentError, EchelonError

_LONGEST = 1000  # characters of an error
_PLACE = r"(\S+:)?\d{1,5}"  # a port, after an address or alone

# what each command is for, its docstring's first line, and an example
COMMANDS = {
    "demo": (
        "Let five unequal workers train a model, by an equal split and by ours; measure, and compare with predictions.",
        "echelon demo --out demo --jobs 5",
    ),
    "plan": (
        "Split the rows of an iteration over the workers and predict the delay of a job.",
        "echelon plan examples/example2.toml",
    ),
    "simulate": (
        "Simulate streams of jobs: delay with its interval, percentiles, how busy each worker is.",
        "echelon simulate examples/example2.toml --jobs 300 --scheme gradient_coding:load=2",
    ),
    "schemes": (
        "List all schemes, endings, codes, laws and clusters, each with its arguments and one line on what it is.",
        "echelon schemes --json",
    ),
    "tune": (
        "Search the code parameters K and Omega on the predicted delay, next to Algorithm 1 of the paper.",
        "echelon tune examples/example2.toml --top 5",
    ),
    "advise": (
        "Predict every strategy on these workers, at true cost, and say which to take.",
        "echelon advise examples/example2.toml --work linear --picture advice.png",
    ),
    "block": (
        "Partition the coordinates of a gradient into blocks of rising redundancy, and say what that gains.",
        "echelon block --workers 20 --rate 1e-3 --shift 50 --coordinates 20000",
    ),
    "run": (
        "Run a stream of jobs on real workers, or in virtual time; they are delivered in order of arrival.",
        "echelon run examples/digits.py:jobs --workers 2 --record run.jsonl --journal run.db",
    ),
    "journal": (
        "List the jobs of a journal; drop one, let it go on, or export its state.",
        "echelon journal run.db",
    ),
    "profile": (
        "Measure real workers: mean and spread of their task times, their links, what messages and rounds cost.",
        "echelon profile --workers 2 --seconds 2 --out here.toml",
    ),
    "check": (
        "Measure workers before a run: who is slow, who is far, who keeps changing.",
        "echelon check --cluster virtual --workers 4 --seconds 60",
    ),
    "watch": (
        "Show a recorded run, or one that is still going on, as a page in a browser.",
        "echelon watch run.jsonl",
    ),
    "report": (
        "Say how a recorded run went: jobs and their delays, iterations, workers and messages.",
        "echelon report run.jsonl",
    ),
    "trace": (
        "Turn a recorded run into a profile: laws of task times, corrected for the tasks that purges cut short.",
        "echelon trace run.jsonl --out traced.toml",
    ),
    "reproduce": (
        "Regenerate a paper's figures and tables, and say of each claim whether it holds.",
        "echelon reproduce stream --out stream",
    ),
}


class _Later(TyperGroup):
    """Commands that are imported when they are run: their purpose is enough to list them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order in which one would use them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in for a command."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][0]) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, stand_in if name is None else _loaded(name), rest


class _Command(TyperCommand):
    """A command whose option `--page` may stand without a value, which Typer does not know."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with any free port for a `--page` that is followed by none."""
        if any("--page" in option.opts for option in self.params):
            ports = [bool(re.fullmatch(_PLACE, word)) for word in [*args[1:], ""]]
            args = [
                "--page=0" if word == "--page" and not port else word for word, port in zip(args, ports, strict=True)
            ]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def _loaded(name: str) -> Any:
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    function = getattr(import_module(f"echelon.cli.{name}"), name)
    single.command(name, cls=_Command, epilog=f"Example: {COMMANDS[name][1]}")(function)
    return typer.main.get_command(single)


app = typer.Typer(
    name="echelon",
    cls=_Later,
    help="Straggler-proof iterative distributed computation: plan, predict, simulate, run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"echelon {echelon.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _brief(error: ArgumentError) -> str:
    """Return what an error says, without its middle where it is long: it may show a value out of a damaged file."""
    said = str(error)
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST // 2]} … {said[-_LONGEST // 2 :]}"


def main() -> None:
    """Run the command line; a wrong file or argument is one line on standard error and exit code 2."""
    try:
        app()
    except (EchelonError, ModuleNotFoundError, OSError) as error:
        print(f"echelon: {_brief(error) if isinstance(error, ArgumentError) else error}", file=sys.stderr)
        sys.exit(2)
