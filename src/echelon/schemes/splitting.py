"""How many rows of a code each worker gets, by what rows of a lane cost."""

from echelon import checks
from echelon.codes import Code
from echelon.profile import Speeds
from echelon.schemes.coded_plan import LEAST
from echelon.splits import SPLITS, Split


def split_code(code: Code, speeds: Speeds, rule: str = "theorem2", gamma: float = 1.0) -> Split:
    """Return how many rows of a code each worker gets, where lanes are consecutive rows (`coded_rows`).

    The first row of a lane costs all parts that it combines, a further one those that the row before it does not
    share, on average over the code: one for a cyclic code.

    >>> from echelon.codes import fractional_repetition
    >>> split_code(fractional_repetition(rows=12, load=3), Speeds([1.0, 3.0], [0.1, 0.3], [0.0, 0.0])).counts.tolist()
    [10, 2]
    """
    alone, after = code.mean_costs
    further = max(LEAST, after)
    rows = Speeds(further * speeds.mean, further**0.5 * speeds.std, speeds.link)
    split = SPLITS[checks.one_of("split", rule, SPLITS)]
    return split(rows, code.rows, gamma, first=max(1.0, alone / further))
