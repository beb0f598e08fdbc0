import numpy as np
import pytest

from echelon.papers import stream, stream_five, stream_hundred
from echelon.papers.claims import NOT_ENOUGH_DATA, NOT_REPRODUCED, REPRODUCED, table
from echelon.papers.stream_workers import example2 as printed
from echelon.papers.stream_workers import hundred, strong_five, weak_five
from tests.papers.tables import check_claims, check_files, rows_of

FILES = ["claims.csv", "figures6_7.csv", "figure4_jobs.csv"]
FILES += [f"{name}.{kind}" for name in ("example2", "table2") for kind in ("csv", "png")]
FILES += [f"figure{i}.{kind}" for i in (2, 3, 4, 5) for kind in ("csv", "png")] + ["figure6.png", "figure7.png"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    patch = pytest.MonkeyPatch()
    patch.setattr(stream, "SEEDS", 24)
    patch.setattr(stream_five, "DRAWS", 5)
    patch.setattr(stream_five, "SEEDS", 10)
    patch.setattr(stream_hundred, "CRITICALS", range(50, 601, 50))
    patch.setattr(stream_hundred, "DRAWS", 2)
    told = []
    claims = stream.reproduce(folder, progress=lambda done, total: told.append((done, total)))
    patch.undo()
    return folder, claims, told


def test_every_figure_and_table_is_written(outcome):
    check_files("stream", outcome, FILES)


def test_every_claim_has_a_verdict_and_a_reason(outcome):
    check_claims(outcome, least=12)


def test_the_verdicts_that_are_known_beforehand(outcome):
    """Of numbers that depend on no draw of workers, and of the bound that has no queue in it."""
    _, claims, _ = outcome
    verdicts = {claim.claim: claim.verdict for claim in claims}
    assert verdicts["lower bound (9) on the delay"] == NOT_REPRODUCED
    assert verdicts["the optimal split reaches the lower bound (9) with little redundancy"] == NOT_REPRODUCED
    assert verdicts["delay falls by a factor of more than two and a half against the uniform split"] == REPRODUCED
    assert verdicts["delays at K = 110, 200, 350, 510"] == NOT_ENOUGH_DATA


def test_tables_of_claims_hold_them_all(outcome):
    folder, claims, _ = outcome
    assert table(claims).row_count == len(claims)
    assert [row["claim"] for row in rows_of(folder, "claims")] == [claim.claim for claim in claims]


def test_no_column_of_a_table_hides_another(outcome):
    folder, _, _ = outcome
    for path in folder.glob("*.csv"):
        header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
        assert len(header) == len(set(header)), path.name


def test_example_2_is_the_file_in_examples(example2):
    assert printed() == example2


def test_our_own_workers_are_seeded():
    for make in (weak_five, strong_five, hundred):
        assert make() == make()
        np.testing.assert_array_equal(make().speeds.mean, make().speeds.mean)
    assert len(hundred().workers) == 100
