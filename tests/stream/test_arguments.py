"""What streams and jobs refuse at the door, by name."""

import os
from dataclasses import replace

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import ThreadCluster
from echelon.errors import ArgumentError
from echelon.jobs import LinearJob, SumJob
from tests.stream.jobs import doubled, linear_job, normalised, sum_job
from tests.stream.test_stream import stream


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: stream(redundancy=0.9), "redundancy: 0.9 is not allowed"),
        (lambda: stream(split="fair"), "split: 'fair' is not allowed"),
        (lambda: stream(cluster="cloud"), "cluster: 'cloud' is not allowed"),
        (lambda: stream(workers=0), "workers: 0 is not allowed"),
        (lambda: ec.Stream("virtual"), "workers: None is not allowed"),
        (lambda: stream(patience_s=0), "patience_s: 0 is not allowed"),
        (lambda: stream(part_timeout_s=-1), "part_timeout_s: -1 is not allowed"),
        (lambda: stream(cluster=ThreadCluster(1), workers=3), "not allowed together with a cluster"),
        (lambda: stream(record="/nowhere/at/all"), "record: '/nowhere/at/all' is not allowed"),
        (lambda: stream(journal="/nowhere/at/all"), "journal: '/nowhere/at/all' is not allowed"),
        (lambda: sum_job(iterations=None), "iterations, until: missing"),
        (lambda: sum_job(iterations=0), "iterations: 0 is not allowed"),
        (lambda: sum_job(tolerance=-1.0), "tolerance: -1.0 is not allowed"),
        (lambda: sum_job(name=3), "name: 3 is not allowed"),
        (lambda: sum_job(chunks=0), "chunks: their number: 0 is not allowed"),
        (lambda: sum_job(parts=3), "parts: 3 is not allowed together with chunks"),
        (lambda: sum_job(load=len), "one of them must be given, not both"),
        (lambda: linear_job(parts=31), "parts: 31 is not allowed"),
        (lambda: linear_job(until=3), "until: 3 is not allowed"),
        (
            lambda: LinearJob(matrix=np.ones(3), update=normalised, state=1, parts=1, iterations=1),
            "matrix: shape \\(3,\\) of float64 is not allowed",
        ),
        (
            lambda: SumJob(partial=3, update=normalised, state=1, chunks=[1], iterations=1),
            "partial: 3 is not allowed; must be a function",
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()


@pytest.mark.parametrize("cluster", ["processes", "threads"])
def test_without_a_number_there_are_as_many_workers_as_processors(cluster):
    with ec.Stream(cluster) as running:
        assert running.workers == os.cpu_count()


def test_what_is_no_job_is_refused():
    with stream() as running, pytest.raises(ArgumentError, match="job: int is not allowed"):
        running.submit(3)


def test_a_profile_of_another_size_is_refused():
    profile = ec.read_profile("examples/example2.toml")
    with pytest.raises(ArgumentError, match="profile: 5 workers; must be 3"):
        stream(profile=profile)
    with pytest.raises(ArgumentError, match="workers: 3 is not allowed; must be 5"):
        stream(emulate=profile)
    assert replace(profile).workers


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ec.Stream(2), "cluster: 2 is not allowed"),
        (lambda: ec.Stream(ThreadCluster), "cluster: .* is not allowed"),
        (lambda: stream(profile={}), "profile: {} is not allowed; must be a Profile"),
        (lambda: stream(emulate="x"), "emulate: 'x' is not allowed"),
        (lambda: stream(split=["uniform"]), r"split: \['uniform'\] is not allowed"),
        (lambda: stream(journal=3), "journal: 3 is not allowed"),
        (
            lambda: SumJob(partial=doubled, update=doubled, state=1, chunks=5, iterations=1),
            "chunks: int is not allowed",
        ),
        (lambda: SumJob(partial=doubled, update=doubled, state=1, chunks={}, iterations=1), "chunks: dict is not"),
        (lambda: SumJob(partial=doubled, update=doubled, state=1, chunks="abc", iterations=1), "chunks: str is not"),
        (
            lambda: LinearJob(matrix=np.ma.ones((2, 2)), update=doubled, state=1, parts=1, iterations=1),
            "matrix: MaskedArray is not allowed",
        ),
        (
            lambda: LinearJob(matrix=np.full((2, 2), np.nan), update=doubled, state=1, parts=1, iterations=1),
            "matrix: must be finite",
        ),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_by_name(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()
