"""The same exchange by Ray, Dask and loky, each driven in the quickest way that was found."""

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from functools import partial
from unittest import mock

import numpy as np

from bench.exchange import NEEDED, TASKS, WORKERS, Contender, Exchange, task

OBJECT_STORE = 2 << 30


class Streamer:
    """Ray's actor."""

    def stream(self, length: int) -> Iterator[np.ndarray]:
        for number in range(TASKS):
            yield task(length, number)


@contextmanager
def _ray() -> Iterator[Exchange]:
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
            yield partial(_ray_exchange, actors)
        finally:
            ray.shutdown()


def _ray_exchange(actors: Sequence, length: int) -> int:
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


@contextmanager
def _dask() -> Iterator[Exchange]:
    from distributed import Client, LocalCluster

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
        Client(cluster, direct_to_workers=True) as client,
    ):
        yield partial(_dask_exchange, client, [worker.worker_address for worker in cluster.workers.values()])


def _dask_exchange(client, addresses: Sequence[str], length: int) -> int:
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


@contextmanager
def _loky() -> Iterator[Exchange]:
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(max_workers=WORKERS)
    try:
        yield partial(_loky_exchange, executor)
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _loky_exchange(executor, length: int) -> int:
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
        name="Ray",
        package="ray",
        open=_ray,
        rounds={1: 200, 10_000: 120, 1_000_000: 20},
        how="five actors with streaming generators; `ray.wait` over the generators, one `ray.get` for the 50 "
        "references, the rest forgotten with its generator",
        warm_up=40,  # its object store becomes quicker for so long
    ),
    Contender(
        name="Dask",
        package="distributed",
        open=_dask,
        rounds={1: 60, 10_000: 48, 1_000_000: 12},
        how="`LocalCluster`; one `client.map` a worker, pinned to it (quicker than 55 `submit`), "
        "`as_completed(with_results=True)` straight from the workers, the rest cancelled",
    ),
    Contender(
        name="loky",
        package="joblib",
        open=_loky,
        rounds={1: 160, 10_000: 100, 1_000_000: 8},
        how="`get_reusable_executor`; 55 `submit`, `as_completed`, the rest cancelled; tasks go to any worker",
    ),
]
