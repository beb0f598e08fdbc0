"""Metrics as a file that a monitor reads: `Stream(metrics="echelon.prom")`."""

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

from echelon.errors import ArgumentError
from echelon.files import whole
from echelon.page.metrics import Metrics

log = logging.getLogger("echelon.stream")

EVERY_S = 5.0  # between two writes; monitors look every 15 seconds or so
_LAST_S = 5.0  # how long the end of a stream waits for the last one, on a disk that hangs


class MetricsFile(Metrics):
    """Metrics that are written to a file every few seconds and at the end, whole each time.

    A thread of its own writes, so the stream never waits for a disk. While the file can't be written, that is logged
    once, and tried again. The file stays when the stream is closed, with the last counts.
    """

    def __init__(self, path: Path, names: Sequence[str] = (), *, every_s: float = EVERY_S) -> None:
        super().__init__(names)
        # absolute, since the program may change its folder while the stream is open
        self._path, self._every_s, self._warned = path.absolute(), every_s, False
        try:
            self._write()
        except OSError as error:
            raise ArgumentError(f"metrics: {str(path)!r} is not allowed; {error.strerror}") from None
        self._closed = Event()
        self._thread = Thread(target=self._run, name="echelon-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Have the last counts written."""
        self._closed.set()
        self._thread.join(_LAST_S)

    def _run(self) -> None:
        over = False
        while not over:
            over = self._closed.wait(self._every_s)
            try:
                self._write()
            except OSError as error:
                if not self._warned:
                    self._warned = True
                    log.warning("metrics can't be written to %s: %s; the run goes on", self._path, error.strerror)

    def _write(self) -> None:
        # a collector of files takes all that end as this one does, also one that is only half written
        with whole(self._path, ending=".part") as beside:
            beside.write_bytes(self.text().encode("utf-8", "replace"))
