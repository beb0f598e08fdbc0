"""An actor of Ray that is a worker: its class, and what the driver knows of one."""

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

from echelon.clusters.pace import Pace
from echelon.clusters.ray_adder import Held, Summed

_LOOK_S = 1.0  # how often a reader looks whether it is still needed


def actor_class() -> Any:
    """Return the class of actors. It travels whole: its constructor sets the stage before anything is imported."""
    import ray  # here, so that the cluster reports a missing Ray

    class EchelonWorker:
        def __init__(self, environment: dict[str, str], path: list[str], places: int, pace: Pace | None) -> None:
            import os
            import sys

            os.environ.update(environment)
            sys.path.extend(entry for entry in path if entry not in sys.path and os.path.exists(entry))
            import ray

            from echelon.clusters.ray_worker import RayWorker

            where = f"{ray.get_runtime_context().get_node_id()} {ray.util.get_node_ip_address()}"
            self._worker = RayWorker(where, places, pace, ray.get)

        @ray.method(concurrency_group="orders", num_returns=0)  # type: ignore[untyped-decorator]
        def order(self, data: bytes, references: list[Any] = []) -> None:  # noqa: B006
            self._worker.order(data, references)

        @ray.method(concurrency_group="messages", num_returns="streaming")  # type: ignore[untyped-decorator]
        def messages(self, most: int) -> Any:
            yield from self._worker.messages(most)

    return ray.remote(concurrency_groups={"orders": 1, "messages": 1}, max_restarts=0)(EchelonWorker)


class RayActor:
    """An actor as the driver sees it."""

    def __init__(self, number: int, place: int, actor: Any) -> None:
        self.number, self.place, self.actor = number, place, actor
        self.order = actor.order
        self.up = False
        self.gone = False  # its messages are no longer read
        self.pid, self.node = 0, ""
        self.round = 0
        self.tasks: deque[tuple[int, int]] = deque()  # of that round, without a message so far
        self.since = 0.0  # when the first of them was begun, as far as the driver knows
        self.cut = 0  # the last round that ended before it had sent all
        self.thread: Thread | None = None

    def tell(self, *order: Any, references: Sequence[Any] = ()) -> None:
        """Send an order; to an actor that is dead it goes nowhere."""
        data = pickle.dumps(order, protocol=5)
        if references:
            self.order.remote(data, list(references))
        else:
            self.order.remote(data)

    def read(self, items: Any) -> Iterator[Any]:
        """Return what its generator yields, until that ends or the actor is gone; slices are not read, but `Held`."""
        held: list[Any] = []
        while (reference := self._next(items)) is not None:
            item = self._get(reference)
            del reference
            if isinstance(item, int):
                held = [self._next(items) for _ in range(item)]
            elif isinstance(item, tuple) and not isinstance(item, Summed) and not item[1]:
                yield item[0], Held(held)
                held = []
            elif item is not None:
                yield item

    def _next(self, items: Any) -> Any:
        import ray

        while not self.gone:
            if ray.wait([items], timeout=_LOOK_S, fetch_local=False)[0]:
                return next(items, None)
        return None

    def _get(self, reference: Any) -> Any:
        import ray

        while not self.gone:
            with suppress(ray.exceptions.GetTimeoutError):
                return ray.get(reference, timeout=_LOOK_S)
        return None
