"""Records of all workers at once: what they shared stays shared, in every evaluator."""

from dataclasses import replace

import numpy as np
import pytest

import echelon as ec
from echelon.blocks.sampling import sorted_times
from echelon.clusters.pace import Pace, paces
from echelon.delays import Exponential, Recorded, RecordedTimes, RoundPace, begin_all, fit, sample_all, task_laws
from echelon.errors import ArgumentError, ProfileError
from echelon.files import read_profile, read_times, write_profile, write_times
from echelon.schemes import any_k, coded_rows, pull, uncoded_products
from echelon.search.rehearsal import Rehearsal, Rehearsed
from echelon.seeds import place_generator
from echelon.simulation import RoundSampler, simulate_chain, simulate_jobs, simulate_rounds
from tests.conftest import ROOT
from tests.simulation.in_virtual_time import run

ROUNDS, WORKERS = 7, 3
TABLE = np.random.default_rng(4).uniform(1.0, 9.0, (ROUNDS, WORKERS))
LAWS = [Recorded(times=column) for column in TABLE.T.tolist()]
LATEST = TABLE.max(axis=1)
PLAN = any_k([1] * WORKERS, WORKERS)
LINKS = np.zeros(WORKERS)
LAMBDA = ROOT / "examples" / "lambda" / "lambda.npz"


def profile(part=None, iterations=5):
    workload = ec.Workload(
        critical=WORKERS, redundancy=1.0, iterations=iterations, arrivals=ec.Arrivals.recorded([1000.0])
    )
    laws = [Recorded(times=law.times, part=part) for law in LAWS]
    told = [{"times": list(law.times)} | ({} if part is None else {"part": part}) for law in laws]
    workers = [
        ec.Worker(f"w{p}", mean=law.mean, std=law.std, law="recorded", parameters=told[p]) for p, law in enumerate(laws)
    ]
    return ec.Profile(workload, workers)


def starts(durations, latest=LATEST):
    """Return at which round of the record rounds began, which then follow one another as recorded."""
    durations = np.asarray(durations)
    start = int(np.abs(latest - durations[0]).argmin())
    np.testing.assert_allclose(durations, latest[(start + np.arange(len(durations))) % len(latest)], rtol=1e-9)
    return start


def by_sampler(seed):
    sampler, rng = RoundSampler(PLAN, LAWS, LINKS), np.random.default_rng(seed)
    first, state = sampler.draw(sampler.begin(5, rng), 5, 4, rng)
    second, _ = sampler.draw(state, 5, 9, rng)
    return np.concatenate([first.times, second.times], axis=1)


def by_sampler_beside_another_law(seed):
    """Beside a worker of another law, who is never the last, rounds do not come again, and each is drawn."""
    laws, links = [*LAWS, Exponential(rate=1e12)], np.zeros(WORKERS + 1)
    sampler, rng = RoundSampler(any_k([1] * len(laws), len(laws)), laws, links), np.random.default_rng(seed)
    return sampler.draw(sampler.begin(5, rng), 5, 9, rng)[0].times


def by_simulated_rounds(seed):
    return simulate_rounds(PLAN, LAWS, rounds=900, seed=seed).times.reshape(100, 9)


def by_rehearsal(seed):
    return Rehearsal(LAWS, LINKS, rounds=400, seed=seed).times([Rehearsed(PLAN)])[0]


def by_jobs(seed):
    return simulate_jobs(PLAN, profile(iterations=1), jobs=10, seeds=4, seed=seed).delays


def by_overlap(seed):
    return simulate_jobs(PLAN, profile(iterations=1), jobs=10, seeds=4, seed=seed, overlap=True).delays


def by_chain(seed):
    return WORKERS * simulate_chain(uncoded_products(WORKERS), LAWS, products=10, seeds=4, seed=seed).durations


def by_virtual_time(seed):
    return [run(PLAN, paces(None, profile(), seed), [0.0, 500.0], 5).durations]


EVALUATORS = [
    by_sampler, by_sampler_beside_another_law, by_simulated_rounds, by_rehearsal, by_jobs, by_overlap, by_chain,
    by_virtual_time,
]  # fmt: skip


@pytest.mark.parametrize("evaluate", EVALUATORS)
def test_all_workers_are_replayed_from_one_round_on_in_every_evaluator(evaluate):
    """Rounds take what the slowest worker of one recorded round took, then of the next; where it begins is drawn."""
    begun = {starts(durations) for seed in range(1, 21) for durations in evaluate(seed)}
    assert len(begun) > 3
    assert [list(one) for one in evaluate(1)] == [list(one) for one in evaluate(1)]


def test_an_evaluator_that_begins_each_worker_on_its_own_is_caught(monkeypatch):
    from echelon.simulation import rounds

    def alone(laws, seeds, rngs):
        return [law.begin(seeds, rng) for law, rng in zip(laws, rngs, strict=True)]

    monkeypatch.setattr(rounds, "begin_all", alone)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        [starts(durations) for durations in by_sampler_beside_another_law(1)]


def test_rounds_of_a_cycle_are_those_that_are_drawn_one_by_one():
    """What workers did in them, too: beside a law that is not replayed, with nothing to do, each round is drawn."""
    plan = any_k([2, 1, 3], 4)
    sampler = RoundSampler(plan, LAWS, LINKS)
    state = [np.arange(5)] * WORKERS
    found, after = sampler.draw(state, 5, 9, np.random.default_rng(1))
    drawn, _ = sampler._drawn(state, 5, 9, np.random.default_rng(1))
    assert sampler.cycle == ROUNDS
    for name in ("over", "times", "busy", "done", "load", "load_with_stop"):
        np.testing.assert_allclose(getattr(found, name), getattr(drawn, name), rtol=1e-12, err_msg=name)
    assert [one.tolist() for one in after] == [[(start + 9) % ROUNDS for start in range(5)]] * WORKERS


def test_work_that_is_handed_out_later_is_another_call():
    """Two workers, three rows, the last of them pulled: it takes what was recorded once more, and not only the part."""
    laws = [Recorded(times=[2.0], part=0.5), Recorded(times=[7.0], part=0.5)]
    plan = pull(workers=2, parts=3)
    sampler, rng = RoundSampler(plan, laws, np.zeros(2)), np.random.default_rng(1)
    assert sampler.draw(sampler.begin(1, rng), 1, 1, rng)[0].times.tolist() == [[7.5]]
    assert sampler.draw(sampler.begin(1, rng), 1, 1, rng)[0].busy.tolist() == [[[5.0, 7.5]]]
    pace = Pace(laws[0], 0.0, np.random.default_rng(1))
    pace.begin(round=1, start=10.0, parts=1)
    assert pace.due(1.0, given=10.0) == (12.5, 2.5)
    assert pace.due(1.0, given=10.0) == (13.0, 0.5)  # of the same lane
    assert pace.due(1.0, given=11.0) == (15.5, 2.5)
    assert pace.due(1.0, given=11.0) == (16.0, 0.5)


def test_draws_of_all_workers_begin_together_too():
    seen = np.stack(sample_all(LAWS, (50, 2, 1), [place_generator(1, p) for p in range(WORKERS)]))[..., 0]
    for at in range(50):
        assert starts(seen[:, at].max(axis=0)) == starts(seen[:, at].max(axis=0))
    rng = np.random.default_rng(1)
    ordered = sorted_times(LAWS, WORKERS, 50, rng)
    known = {tuple(sorted(row)) for row in TABLE.tolist()}
    assert {tuple(row) for row in ordered.tolist()} <= known


def test_paces_over_a_record_stay_together_and_other_laws_draw_for_themselves():
    laws = [RoundPace(base=LAWS[0]), RoundPace(base=LAWS[1]), Exponential(rate=1.0), LAWS[2], Recorded(times=[1.0, 2])]
    one, other, none, third, short = begin_all(laws, 100, [np.random.default_rng(1)] * 5)
    assert none is None
    np.testing.assert_array_equal(one, other)
    assert (one != third).any()  # paces and rounds are not of one record
    assert short.max() == 1
    one[:] = -1
    assert (other >= 0).all()


def test_a_lane_takes_the_round_once_and_each_part_after_that():
    law = Recorded(times=[10.0, 20.0], part=0.5)
    costs = np.array([1.0, 2.0, 1.5])
    times, after = law.advance_tasks(np.array([0]), costs, (1, 3), np.random.default_rng(1))
    assert times[0].tolist() == [[10.5, 1.0, 0.75], [20.5, 1.0, 0.75], [10.5, 1.0, 0.75]]
    assert after.tolist() == [1]
    assert (law.mean, law.std, law.one_pace) == (15.5, 5.0, False)
    assert Recorded(times=[10.0, 20.0]).one_pace
    assert fit("recorded", 31.0, 0.0, times=[10.0, 20.0], part=0.5) == Recorded(times=[20.0, 40.0], part=1.0)


@pytest.mark.parametrize("part", [None, 0.25])
def test_a_lane_that_grows_and_a_worker_that_missed_rounds_stay_where_the_others_are(part):
    law = Recorded(times=[1.0, 2.0, 4.0], part=part)
    first = np.array([0])
    whole, grown, late = (Pace(law, 0.0, place_generator(1, 0), first) for _ in range(3))
    takes = {}
    for name, pace, rounds, parts in (("whole", whole, range(1, 6), 300), ("grown", grown, range(1, 6), 2),
                                      ("late", late, (2, 5), 300)):  # fmt: skip
        for round in rounds:
            pace.begin(round=round, start=0.0, parts=parts)
            takes[name, round] = [pace.due(1.0, given=0.0)[1] for _ in range(300)]
    for round in range(1, 6):
        time = law.times[(round - 1) % 3]
        expected = [time] * 300 if part is None else [time + part, *[part] * 299]
        assert takes["whole", round] == takes["grown", round] == expected
    assert takes["late", 2] == takes["whole", 2]
    assert takes["late", 5] == takes["whole", 5]


def test_virtual_time_and_the_sampler_agree_on_tasks_of_several_parts():
    plan = coded_rows(ec.codes.cyclic(rows=6, load=3, rng=np.random.default_rng(1)), [2, 2, 2])
    known = profile(part=0.3)
    sampler, rng = RoundSampler(plan, task_laws(known), LINKS), np.random.default_rng(1)
    latest = sampler.draw([np.zeros(1, dtype=int)] * WORKERS, 1, ROUNDS, rng)[0].times[0]
    seen = run(plan, paces(None, known, 3), [0.0], ROUNDS).durations
    starts(seen, latest)


def test_times_at_a_load_lie_between_the_recorded_ones_round_by_round():
    rng = np.random.default_rng(1)
    tables = {load: rng.uniform(1.0, 2.0, (4, 3)) for load in (0.5, 0.1, 1.0)}
    table = RecordedTimes(tables)
    assert (table.loads.tolist(), table.rounds, table.workers, table.names) == (
        [0.1, 0.5, 1.0],
        4,
        3,
        ("w1", "w2", "w3"),
    )
    for load in tables:
        np.testing.assert_array_equal(table.at(load), tables[load])
    for load in (0.2, 0.77):
        each = [
            [np.interp(load, [0.1, 0.5, 1.0], [tables[at][t, p] for at in (0.1, 0.5, 1.0)]) for p in range(3)]
            for t in range(4)
        ]
        np.testing.assert_allclose(table.at(load), each, rtol=1e-12)
    for load in (0.0, 0.0999, 1.01):
        with pytest.raises(ArgumentError, match=r"load: .* is not allowed; must be from 0.1 to 1, as recorded"):
            table.at(load)


def test_laws_of_a_table_take_what_was_recorded_at_their_load_and_a_line_around_it():
    table = RecordedTimes({0.0: [[1.0, 3.0], [2.0, 1.0]], 0.5: [[2.0, 3.5], [4.0, 3.0]]})
    laws = table.laws(parts=8, load=0.5, slope=2.0)
    for p, law in enumerate(laws):
        for parts in (1, 4, 7):
            times = law.advance_tasks(np.array([0]), np.array([float(parts)]), (1, 2), np.random.default_rng(1))[0]
            np.testing.assert_allclose(times[0, :, 0], table.at(0.5)[:, p] + 2.0 * (parts / 8 - 0.5))
    with pytest.raises(ArgumentError, match=r"slope: 5 is not allowed; a round of no parts would take -0\.5 s"):
        table.laws(parts=8, load=0.5, slope=5.0)
    with pytest.raises(ArgumentError, match="slope: not known, since only one load was recorded"):
        RecordedTimes({0.0: [[1.0]]}).laws(parts=1)
    falling = RecordedTimes({0.0: [[2.0]], 1.0: [[1.0]]})
    with pytest.raises(ArgumentError, match="slope: the medians fall with the load"):
        falling.laws(parts=1)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "tables: {} is not allowed"),
        ({-1.0: [[1.0]]}, "a load: -1"),
        ({0.0: [1.0]}, "times: shapes"),
        ({0.0: [[1.0]], 1.0: [[1.0, 2.0]]}, "must be one shape"),
        ({0.0: [[0.0]]}, "times: must be finite and > 0"),
        ({0.0: [[np.nan]]}, "times: must be finite and > 0"),
    ],
)
def test_tables_that_make_no_sense_are_refused(tables, said):
    with pytest.raises(ArgumentError, match=said):
        RecordedTimes(tables)


def test_tables_are_read_from_npz_by_family_and_from_csv(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, **{"x@0": TABLE, "x@0.5": 2 * TABLE, "y@1": TABLE})
    seen = read_times(file, "x")
    assert seen.loads.tolist() == [0.0, 0.5]
    np.testing.assert_array_equal(seen.at(0.5), 2 * TABLE)
    plain, loaded = tmp_path / "plain.csv", tmp_path / "loaded.csv"
    plain.write_text("anna,ben\n1,2.5\n3,4\n")
    assert (read_times(plain).names, read_times(plain).at(0).tolist()) == (("anna", "ben"), [[1.0, 2.5], [3.0, 4.0]])
    loaded.write_text("load,a,b\n0,1,2\n0,3,4\n0.5,2,3\n0.5,4,5\n")
    assert read_times(loaded).at(0.25).tolist() == [[1.5, 2.5], [3.5, 4.5]]


@pytest.mark.parametrize(
    ("name", "content", "family", "said"),
    [
        ("none.csv", None, None, "can't be read"),
        ("none.npz", None, None, "can't be read"),
        ("bad.npz", b"nothing", None, "bad.npz: "),
        ("bad.csv", b"a,b\n1,x\n", None, "could not convert"),
        ("short.csv", b"a,b\n1\n", None, "line 2: 1 values; must be 2"),
        ("empty.csv", b"\n", None, "empty.csv: no lines; must be one of names"),
        ("nameless.csv", b"1,2\n2,3\n", None, "line 1: must be the names of the workers; its numbers would be a round"),
        ("late.csv", b"load,a\n0,1\n0,2\n1,3\n", None, "must be one shape"),
        ("family.csv", b"a\n1\n", "x", "family: must be left out"),
    ],
)
def test_files_that_hold_no_table_are_refused_by_name(tmp_path, name, content, family, said):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProfileError, match=said):
        read_times(path, family)


@pytest.mark.parametrize("name", ["a.npz", "a.csv"])
def test_tables_that_were_written_are_read_as_they_were(tmp_path, name):
    table = RecordedTimes({0.0: TABLE, 1 / 3: 2 * TABLE}, ["anna", "ben, the slow", "1"])
    write_times(table, tmp_path / name)
    found = read_times(tmp_path / name)
    assert found.loads.tolist() == [0.0, 1 / 3]
    np.testing.assert_array_equal(found.times, table.times)
    assert found.names == (table.names if name == "a.csv" else ("w1", "w2", "w3"))
    with pytest.raises(ArgumentError, match=r"must end in \.npz or \.csv"):
        write_times(table, tmp_path / "a.txt")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_with_bytes_that_were_changed_is_read_or_refused_in_one_line(tmp_path, save):
    """Whatever of it they hit: archives, streams that are packed, headers of arrays."""
    draw, path = np.random.default_rng(1), tmp_path / "a.npz"
    save(path, **{"x@0": TABLE, "x@1": TABLE + 1})
    whole, said = path.read_bytes(), []
    for _ in range(300):
        damaged = bytearray(whole[: draw.integers(1, len(whole) + 1)] if draw.random() < 0.1 else whole)
        for at in draw.integers(0, len(damaged), 3).tolist():
            damaged[at] = draw.integers(256)
        path.write_bytes(damaged)
        try:
            read_times(path)
        except ProfileError as error:
            said.append(str(error))
    assert len(said) > 200
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in said)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x@0": TABLE, "x@0.0": TABLE, "x@1": TABLE}, "load 0 of x is there twice"),
        ({"x@0": TABLE + 0j}, "x@0: numbers of type complex128 are not allowed; must be seconds"),
        ({"x@0": TABLE.astype(str)}, "x@0: numbers of type <U.* are not allowed"),
        ({"x@0": TABLE > 3}, "x@0: numbers of type bool are not allowed"),
        ({"x": TABLE, "@1": TABLE}, r"keys: must be family@load, such as cnn@0\.25; found: '@1, x'"),
        ({}, "found: 'none'"),
    ],
)
def test_arrays_that_are_no_recorded_seconds_are_refused(tmp_path, arrays, said):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ProfileError, match=said):
        read_times(tmp_path / "a.npz")


def test_arrays_beside_those_of_a_family_do_not_matter(tmp_path):
    np.savez(tmp_path / "a.npz", **{"x@0": TABLE, "names": np.array(["anna"])})
    np.testing.assert_array_equal(read_times(tmp_path / "a.npz").at(0), TABLE)


def test_medians_that_do_not_grow_have_no_slope():
    """By rounding it would be a little more or less than none."""
    assert RecordedTimes({load: TABLE for load in (0.0, 0.1, 0.3, 0.7)}).slope == 0.0


def test_a_fixed_cost_of_any_data_is_a_step_and_noise_is_none():
    """The residual network's data costs 16 s; the small network's lies on its line."""
    network, small = read_times(LAMBDA, "resnet18"), read_times(LAMBDA, "cnn")
    assert (network.step, small.step) == (pytest.approx(16.3, abs=0.1), 0.0)
    above = network.above(0.02)
    assert (above.loads[0], above.step, above.names) == (0.02, 0.0, network.names)
    assert above.slope == pytest.approx(0.9, abs=0.05)
    with pytest.raises(ArgumentError, match=r"load: 1\.5 is not allowed; must be at most 1, as recorded"):
        network.above(1.5)
    draw = np.random.default_rng(2)
    for _ in range(200):
        noisy = {load: 1 + load + draw.exponential(1.0, (9, 8)) for load in (0.0, 0.25, 0.5, 1.0)}
        assert RecordedTimes(noisy).step == 0.0


def test_a_family_must_be_named_where_there_are_several():
    with pytest.raises(ProfileError, match=r"family: must be given; must be one of cnn, resnet18"):
        read_times(LAMBDA)


def test_profiles_keep_the_record(tmp_path):
    table = read_times(LAMBDA, "resnet18")
    with pytest.raises(ArgumentError, match="must be from 0 to 1"):
        table.at(2.0)
    workers = table.profiled(parts=256, load=0.02, slope=0.9)
    file = tmp_path / "workers.toml"
    write_profile(replace(profile(), workers=workers), file)
    read = read_profile(file)
    laws = task_laws(read)
    expected = np.stack([law.times for law in table.laws(parts=256, load=0.02, slope=0.9)])
    np.testing.assert_allclose(np.stack([law.times for law in laws]), expected, rtol=1e-5)
    assert 15 < np.median(expected) < 18
    assert len({law.together for law in laws}) == 1


def test_the_example_profile_is_the_table():
    known = read_profile(ROOT / "examples" / "lambda" / "cnn.toml")
    table = read_times(LAMBDA, "cnn")
    for law, exact in zip(task_laws(known), table.laws(parts=256), strict=True):
        np.testing.assert_allclose(law.times, exact.times, rtol=1e-5)
        assert law.part == pytest.approx(exact.part)
