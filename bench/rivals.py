"""The same exchange by Ray, Dask and loky, in the quickest ways we found."""

import asyncio
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any
from unittest import mock

import numpy as np

from bench.exchange import NEEDED, TASKS, WORKERS, Contender, Rounds, task, timed

OBJECT_STORE = 2 << 30


class Streamer:
    """Ray's actor."""

    def stream(self, length: int) -> Iterator[np.ndarray]:
        for number in range(TASKS):
            yield task(length, number)

    def lane(self, length: int) -> list[np.ndarray]:
        return [task(length, number) for number in range(TASKS)]


@contextmanager
def _ray(exchange: Callable[[Sequence[Any], int], int]) -> Iterator[Rounds]:
    import ray

    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        mock.patch.dict(os.environ, RAY_USAGE_STATS_ENABLED="0"),
    ):
        try:
            ray.init(
                num_cpus=WORKERS,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
                object_store_memory=OBJECT_STORE,
                _temp_dir=folder,
            )
            actors = [ray.remote(Streamer).options(num_cpus=1).remote() for _ in range(WORKERS)]
            yield timed(partial(exchange, actors))
        finally:
            ray.shutdown()


def _ray_streams(actors: Sequence[Any], length: int) -> int:
    import ray

    streams = [actor.stream.options(num_returns="streaming").remote(length) for actor in actors]
    references = []
    while len(references) < NEEDED:
        (stream,), _ = ray.wait(streams, num_returns=1, fetch_local=False)
        reference = next(stream, None)
        if reference is None:
            streams.remove(stream)
        else:
            references.append(reference)
    return sum(result.size for result in ray.get(references))


def _ray_lanes(actors: Sequence[Any], length: int) -> int:
    import ray

    lanes = [actor.lane.options(num_returns=TASKS).remote(length) for actor in actors]
    references, _ = ray.wait([reference for lane in lanes for reference in lane], num_returns=NEEDED)
    return sum(result.size for result in ray.get(references))


@contextmanager
def _local_cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    warnings.filterwarnings("ignore", message="Port 8787 is already in use", category=UserWarning)
    with (
        tempfile.TemporaryDirectory(prefix="dask-", ignore_cleanup_errors=True) as folder,
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            local_directory=folder,
        ) as cluster,
    ):
        yield cluster


def _addresses(cluster: Any) -> list[str]:
    return [worker.worker_address for worker in cluster.workers.values()]


@contextmanager
def _dask_futures() -> Iterator[Rounds]:
    from distributed import Client

    with _local_cluster() as cluster, Client(cluster, direct_to_workers=True) as client:
        yield timed(partial(_dask_exchange, client, _addresses(cluster)))


def _dask_exchange(client: Any, addresses: Sequence[str], length: int) -> int:
    from distributed import as_completed

    futures = [
        future
        for address in addresses
        for future in client.map(partial(task, length), range(TASKS), workers=address, pure=False)
    ]
    held = []
    for _, result in as_completed(futures, with_results=True):
        held.append(result)
        if len(held) == NEEDED:
            break
    client.cancel([future for future in futures if not future.done()])
    return sum(result.size for result in held)


class Ready:
    """Dask's actor."""

    def result(self, length: int, number: int) -> np.ndarray:
        return task(length, number)

    def lane(self, length: int) -> list[np.ndarray]:
        return [task(length, number) for number in range(TASKS)]


@contextmanager
def _dask_actors(exchange: Callable[[Sequence[Any], int], Coroutine[Any, Any, int]]) -> Iterator[Rounds]:
    from distributed import Client

    with _local_cluster() as cluster, asyncio.Runner() as runner:

        async def opened() -> tuple[Any, list[Any]]:
            client = await Client(cluster.scheduler_address, asynchronous=True, direct_to_workers=True)
            made = [client.submit(Ready, workers=[at], actor=True, pure=False) for at in _addresses(cluster)]
            return client, [await actor for actor in made]

        client, actors = runner.run(opened())
        try:
            yield timed(lambda length: runner.run(exchange(actors, length)))
        finally:
            runner.run(client.close())


async def _dask_calls(actors: Sequence[Any], length: int) -> int:
    calls = [asyncio.ensure_future(actor.result(length, number)) for number in range(TASKS) for actor in actors]
    held = [await call for call in islice(asyncio.as_completed(calls), NEEDED)]
    await asyncio.gather(*calls)
    return sum(result.size for result in held)


async def _dask_lanes(actors: Sequence[Any], length: int) -> int:
    lanes = await asyncio.gather(*(actor.lane(length) for actor in actors))
    return sum(result.size for result in list(chain.from_iterable(lanes))[:NEEDED])


@contextmanager
def _loky() -> Iterator[Rounds]:
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(max_workers=WORKERS)
    try:
        yield timed(partial(_loky_exchange, executor))
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _loky_exchange(executor: Any, length: int) -> int:
    futures = [executor.submit(task, length, number) for number in range(WORKERS * TASKS)]
    held = []
    for future in as_completed(futures):
        held.append(future.result())
        if len(held) == NEEDED:
            break
    for future in futures:
        future.cancel()
    return sum(result.size for result in held)


OTHERS = [
    Contender(
        name="Ray, streams",
        rival="Ray",
        package="ray",
        open=partial(_ray, _ray_streams),
        rounds={1: 100, 10_000: 60, 1_000_000: 10},
        how="five actors with streaming generators; `ray.wait` over the generators, one `ray.get` for the 50 "
        "references, the rest forgotten with its generator",
        warm_up=40,  # its object store keeps getting quicker for this long
    ),
    Contender(
        name="Ray, 11 returns per call",
        rival="Ray",
        package="ray",
        open=partial(_ray, _ray_lanes),
        rounds={1: 100, 10_000: 60, 1_000_000: 10},
        how="five actors with `num_returns=11`; one `ray.wait` for 50 of the references and one `ray.get`; results "
        "leave an actor when all 11 are there",
        warm_up=40,
    ),
    Contender(
        name="Dask, futures",
        rival="Dask",
        package="distributed",
        open=_dask_futures,
        rounds={1: 24, 10_000: 20, 1_000_000: 6},
        how="`LocalCluster`; one `client.map` per worker, pinned to it (quicker than 55 `submit`), "
        "`as_completed(with_results=True)` straight from the workers, the rest cancelled",
    ),
    Contender(
        name="Dask, actors",
        rival="Dask",
        package="distributed",
        open=partial(_dask_actors, _dask_calls),
        rounds={1: 24, 10_000: 20, 1_000_000: 6},
        how="an actor on each worker, called straight (`direct_to_workers`) from an asynchronous client, 55 calls",
    ),
    Contender(
        name="Dask, actors, 11 results per call",
        rival="Dask",
        package="distributed",
        open=partial(_dask_actors, _dask_lanes),
        rounds={1: 24, 10_000: 20, 1_000_000: 6},
        how="the same with five calls, each of which returns a list of 11 results",
    ),
    Contender(
        name="loky",
        rival="loky",
        package="joblib",
        open=_loky,
        rounds={1: 60, 10_000: 40, 1_000_000: 4},
        how="`get_reusable_executor`; 55 `submit`, `as_completed`, the rest cancelled; tasks go to any worker",
    ),
]
