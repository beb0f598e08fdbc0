"""The `echelon` command."""

import sys
from typing import Annotated

import typer

import echelon
from echelon.cli.block import block
from echelon.cli.plan import plan
from echelon.cli.profile import profile
from echelon.cli.report import report
from echelon.cli.reproduce import reproduce
from echelon.cli.run import run
from echelon.cli.simulate import simulate
from echelon.cli.trace import trace
from echelon.cli.tune import tune
from echelon.errors import EchelonError

app = typer.Typer(
    name="echelon",
    help="Straggler-proof iterative distributed computation: plan, predict, simulate, run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (plan, simulate, tune, block, run, profile, report, trace, reproduce):
    app.command()(command)


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


def main() -> None:
    """Run the command line; a wrong file or argument is one line on standard error and exit code 2."""
    try:
        app()
    except (EchelonError, OSError) as error:
        print(f"echelon: {error}", file=sys.stderr)
        sys.exit(2)
