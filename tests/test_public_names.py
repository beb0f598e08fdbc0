import echelon as ec
from echelon import codes, delays, schemes, simulation, splits, stragglers, theory


def test_public_names_change_only_on_purpose():
    assert sorted(ec.__all__) == [
        "Advice",
        "ArgumentError",
        "Arrivals",
        "BlockJob",
        "ChainResult",
        "ChainSearch",
        "ClusterError",
        "CompletionPrediction",
        "CompletionResult",
        "CorruptMessages",
        "Costs",
        "Delivery",
        "DesignSearch",
        "EchelonError",
        "Handle",
        "Job",
        "JobFailed",
        "JournalError",
        "LinearJob",
        "MatmulStream",
        "NoClosedForm",
        "NotDecodable",
        "Observer",
        "Plan",
        "Prediction",
        "Profile",
        "ProfileError",
        "Slot",
        "SpeedEstimator",
        "Speeds",
        "Split",
        "Stream",
        "StreamResult",
        "SumJob",
        "Task",
        "Worker",
        "add_until_stable",
        "advise",
        "algorithm1",
        "best_code",
        "blocks",
        "clusters",
        "code_grid",
        "codes",
        "delays",
        "jobs",
        "linear_operator",
        "master",
        "optimise_chain",
        "optimise_multi_message",
        "plan_law",
        "predict",
        "products",
        "read_profile",
        "schemes",
        "simulate",
        "simulate_chain",
        "simulate_law",
        "simulation",
        "split_rows",
        "splits",
        "stragglers",
        "theory",
        "write_profile",
    ]


def test_every_public_name_exists_and_has_a_docstring():
    for module in (ec, codes, delays, schemes, simulation, splits, stragglers, theory):
        for name in module.__all__:
            item = getattr(module, name)
            if callable(item):
                assert item.__doc__, f"{module.__name__}.{name}"
