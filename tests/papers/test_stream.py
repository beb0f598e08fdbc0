import csv

import numpy as np
import pytest

from echelon.papers import stream
from echelon.papers.claims import NOT_ENOUGH_DATA, NOT_REPRODUCED, REPRODUCED, markdown, table
from echelon.papers.stream_workers import example2 as printed
from echelon.papers.stream_workers import hundred, strong_five, weak_five

FILES = ["example2.csv", "table2.csv", "claims.csv", "figures6_7.csv"]
FILES += [f"figure{i}.{kind}" for i in (2, 3, 4, 5) for kind in ("csv", "png")] + ["figure6.png", "figure7.png"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    patch = pytest.MonkeyPatch()
    patch.setattr(stream, "_SEEDS", 24)
    patch.setattr(stream, "_CRITICALS", range(50, 601, 50))
    told = []
    claims = stream.reproduce(folder, progress=lambda done, total: told.append((done, total)))
    patch.undo()
    return folder, claims, told


def test_every_figure_and_table_is_written(outcome):
    folder, _, told = outcome
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert all(path.stat().st_size > 100 for path in folder.iterdir())
    assert told[-1][0] == told[-1][1]


def test_every_claim_has_a_verdict_and_a_reason(outcome):
    _, claims, _ = outcome
    assert len(claims) >= 12
    for claim in claims:
        assert claim.verdict in {REPRODUCED, NOT_REPRODUCED, NOT_ENOUGH_DATA}
        assert claim.why
        assert claim.ours


def test_the_verdicts_that_the_rulings_foresee(outcome):
    _, claims, _ = outcome
    verdicts = {claim.claim: claim.verdict for claim in claims}
    assert verdicts["lower bound (9) on the delay"] == NOT_REPRODUCED
    assert verdicts["delay falls by a factor of more than 2.5 against the uniform split"] == REPRODUCED
    assert verdicts["delays at K = 110, 200, 350, 510"] == NOT_ENOUGH_DATA
    assert verdicts["mismatch measures how unequal the workers' finishing times are"] == NOT_REPRODUCED


def test_tables_of_claims_hold_them_all(outcome):
    folder, claims, _ = outcome
    assert table(claims).row_count == len(claims)
    assert markdown(claims).count("\n") == len(claims) + 1
    with (folder / "claims.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(claims)


def test_example_2_is_the_file_in_examples(example2):
    assert printed() == example2


def test_our_own_workers_are_seeded():
    for make in (weak_five, strong_five, hundred):
        assert make() == make()
        np.testing.assert_array_equal(make().speeds.mean, make().speeds.mean)
    assert len(hundred().workers) == 100
