"""The recorded rounds that came with the paper on sequential gradient coding: what reproduces on them."""

import numpy as np
import pytest

from echelon.papers import trace_chains, traces
from echelon.papers.claims import NOT_REPRODUCED, REPRODUCED
from echelon.papers.traces import recorded
from tests.papers.tables import check_claims, check_files, rows_of


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder, told = tmp_path_factory.mktemp("traces"), []
    patch = pytest.MonkeyPatch()
    patch.setattr(trace_chains, "CYCLES", 1)
    claims = traces.reproduce(folder, progress=lambda done, total: told.append((done, total)))
    patch.undo()
    return folder, claims, told


def test_every_figure_and_table_is_written(outcome):
    check_files("traces", outcome, ["chains.csv", "claims.csv", "codes.csv", "copies.png", "residual_network.csv"])


def test_every_claim_has_a_verdict_and_a_reason(outcome):
    check_claims(outcome, least=12)


def test_sparse_codes_and_the_order_of_the_chains_reproduce(outcome):
    verdicts = {claim.claim: claim.verdict for claim in outcome[1]}
    assert {found for name, found in verdicts.items() if "30 rounds" in name} == {REPRODUCED}
    assert verdicts["M-SGC before SR-SGC before GC before uncoded, by the paper's waiting rule"] == REPRODUCED
    first = "M-SGC before SR-SGC before GC before uncoded, by the first set that conforms"
    assert verdicts[first] == NOT_REPRODUCED


def test_rounds_of_gradient_codes_take_what_sorting_the_table_gives():
    """By the paper's rule twice as long as the fastest worker, or until any n - 15 are there."""
    table = recorded("cnn")
    times = np.sort(table.at(0) + table.slope * 16 / 256, axis=1)
    assert trace_chains.one_round(table, 15, "first set") == pytest.approx(times[:, -16].mean())
    doubled = np.maximum(times[:, -16], 2 * times[:, 0])
    assert trace_chains.one_round(table, 15, "paper") == pytest.approx(doubled.mean())


def test_codes_of_the_residual_network_take_what_is_recorded_at_their_load(outcome):
    took = {row["code"]: float(row["seconds"]) for row in rows_of(outcome[0], "residual_network")}
    table = recorded("resnet18")
    assert took["all data everywhere"] == pytest.approx(table.at(1.0).min(axis=1).sum())
    groups = table.at(8 / 256).reshape(25, 8, 32)
    assert took["repetition, 8 copies"] == pytest.approx(groups.min(axis=1).max(axis=1).sum())
