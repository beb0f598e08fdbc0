"""The Ray that the comparison runs on."""

import contextlib
from collections.abc import Iterator

from echelon.clusters.ray_session import Session


@contextlib.contextmanager
def started(workers: int) -> Iterator[None]:
    """Start a Ray that only this machine can reach."""
    session = Session(None, workers)
    try:
        yield
    finally:
        session.close()
