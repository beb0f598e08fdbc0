"""What `echelon report` says of other strategies, and of whom the rounds of a run waited for."""

from echelon.cli.console import out, print_table
from echelon.stream.what_if import WhatIf

_SHOWN = 8  # workers


def show_what_if(found: WhatIf) -> None:
    """Print the sentence and small tables."""
    worst = sorted((one for one in found.waited if one.rounds), key=lambda one: -one.seconds)
    if worst:
        print_table(
            "Waiting for the last worker",
            ["worker", "last in rounds", "waited for (s)", "at most (s)"],
            [[one.name, str(one.rounds), f"{one.seconds:.4g}", f"{one.most:.4g}"] for one in worst[:_SHOWN]],
        )
    if found.strategies:
        print_table(
            f"On the same times ({found.replayed} rounds replayed; ± holds in 99 of 100 cases)",
            ["strategy", "would have taken (s)", "saved (s)", "±"],
            [list(row) for row in found.rows],
        )
    out.print(found.sentence, soft_wrap=True)
    for note in found.notes if found.strategies else ():
        out.print(note, soft_wrap=True)
