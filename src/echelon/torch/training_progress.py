"""A line that tells how a training goes on, while it does."""

from statistics import median

from echelon.closing import Closing
from echelon.profile import Speeds
from echelon.stream import Stream
from echelon.torch.trained import Trained

_SLOW = 1.2  # times as long as the usual worker for the same work, from which one is told


class TrainingProgress(Closing):
    """Step and epoch, loss, time left, and the slowest worker, on standard error."""

    def __init__(self, stream: Stream, steps: int, per_epoch: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._stream, self._steps, self._per_epoch = stream, steps, per_epoch
        self._shown = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._shown.add_task("starting", total=steps)
        self._shown.start()

    def show(self, step: int, found: Trained) -> None:
        """Show where it is after a step."""
        self._shown.update(self._task, completed=step, description=line(step, self._per_epoch, found, self._speeds()))

    def _speeds(self) -> Speeds | None:
        return self._stream.speeds()

    def _leave(self, *, well: bool) -> None:
        self.close()

    def close(self) -> None:
        """Leave the last line as it is."""
        self._shown.stop()


def line(step: int, per_epoch: int | None, found: Trained, speeds: Speeds | None) -> str:
    """Return where a training is, in words.

    >>> line(7, 5, Trained(losses=[0.5]), Speeds([1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]))
    'epoch 2, loss 0.5, w3 takes 2.0 times as long as usual'
    """
    told = [] if per_epoch is None else [f"epoch {1 + (step - 1) // per_epoch}"]
    told.append(f"loss {found.losses[-1]:.4g}")
    if found.validated:
        told.append(f"validated {found.validated[-1].loss:.4g}")
    if speeds is not None and len(speeds) > 1:
        slowest, usual = int(speeds.mean.argmax()), median(speeds.mean.tolist())
        if speeds.mean[slowest] > _SLOW * usual:
            told.append(f"w{slowest + 1} takes {speeds.mean[slowest] / usual:.1f} times as long as usual")
    return ", ".join(told)
