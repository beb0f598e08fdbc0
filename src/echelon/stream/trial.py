"""Whether it pays to do something about late workers: rounds with and without are compared as they were.

What is repeated for nothing has a price that no law of task times shows: a part can't be interrupted, so whoever
repeats one when the round ends begins the next one late; and workers that share processors slow each other down.
"""

from collections import deque

import numpy as np

TRIED = 8  # rounds of either kind before they are compared
KEPT = 24  # rounds of either kind that are remembered
SURE = 1.5  # standard deviations by which rounds must be worse
OUTLIER = 3.0  # times the median: what takes longer counts as this
WAIT, LONGEST = 100, 3200  # rounds until it is tried again where it did not pay; twice as many each time
WARM = 2  # rounds at the beginning that say nothing
CHECKED = 100  # rounds after which plain ones are tried again where help paid a little; four times as many each time
LITTLE = 2.0  # times a round with help: plain ones that took longer are not tried again
CLEAR = 1.3  # times a round with help: one plain round that takes longer ends the check


class Trial:
    """One job's rounds, plain ones first; `helped` says whether the next one is to do something.

    >>> trial = Trial()
    >>> for _ in range(10):
    ...     trial.note(1.0, helped=False)
    >>> trial.helped()
    True
    >>> for _ in range(8):
    ...     trial.note(1.5, helped=True)
    >>> trial.helped(), trial.failed
    (False, True)
    """

    def __init__(self, *, failed: bool = False, proven: bool = False) -> None:
        self.failed = failed
        self.proven = proven  # by an earlier job
        self._plain: deque[float] = deque(maxlen=KEPT)
        self._helped: deque[float] = deque(maxlen=KEPT)
        self._rounds, self._wait = 0, WAIT
        self._again = WAIT if failed else 0
        self._check, self._checking = CHECKED, False
        self._fresh: list[float] = []

    @property
    def settled(self) -> bool:
        """Whether rounds with help were tried, and are not worse."""
        return not self.failed and (self.proven or len(self._helped) >= TRIED)

    def note(self, seconds: float, *, helped: bool) -> None:
        """Note a round."""
        self._rounds += 1
        if self._rounds <= WARM:
            return
        if self._checking and not helped:
            self._checked(seconds)
        else:
            (self._helped if helped else self._plain).append(seconds)
        if not self.failed and self._rounds >= self._check and len(self._helped) == KEPT:
            self._check = 4 * self._rounds
            self._checking = not self._plain or float(np.mean(self._plain)) < LITTLE * float(np.mean(self._helped))
            self._fresh = []
        if not self._checking and len(self._helped) >= TRIED and len(self._plain) >= TRIED and self._worse():
            self.failed, self.proven = True, False
            self._again = self._rounds + self._wait
            self._wait = min(LONGEST, 2 * self._wait)
            self._helped.clear()

    def _checked(self, seconds: float) -> None:
        """Note a plain round of a check."""
        self._fresh.append(seconds)
        clear = seconds > CLEAR * float(np.mean(self._helped))
        self._checking = not clear and len(self._fresh) < TRIED
        if len(self._fresh) == TRIED:
            self._plain = deque(self._fresh, maxlen=KEPT)

    def restart(self) -> None:
        """Forget the rounds with help: from now on it is another kind of help."""
        self._helped.clear()

    def helped(self) -> bool:
        """Return whether the next round is to do something about late workers."""
        if self.failed and self._rounds >= self._again:
            self.failed = False
        return not self.failed and not self._checking and (self.settled or len(self._plain) >= TRIED)

    def _worse(self) -> bool:
        plain, helped = np.array(self._plain), np.array(self._helped)
        most = OUTLIER * float(np.median(plain))
        plain, helped = np.minimum(plain, most), np.minimum(helped, most)
        deviation = (plain.var() / len(plain) + helped.var() / len(helped)) ** 0.5
        return bool(helped.mean() > plain.mean() + SURE * deviation + 1e-9 * most)
