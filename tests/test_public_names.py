import echelon as ec
from echelon import codes, delays, schemes, simulation, splits, stragglers, theory


def test_public_names_change_only_on_purpose():
    assert sorted(ec.__all__) == [
        "Arrivals",
        "BlockJob",
        "Costs",
        "EchelonError",
        "JobFailed",
        "LinearJob",
        "MatmulStream",
        "Observer",
        "Plan",
        "Profile",
        "Stream",
        "SumJob",
        "Worker",
        "Workload",
        "advise",
        "blocks",
        "clusters",
        "codes",
        "delays",
        "endings",
        "errors",
        "linear_operator",
        "predict_jobs",
        "predict_rounds",
        "prediction",
        "read_profile",
        "schemes",
        "search",
        "simulate_jobs",
        "simulate_rounds",
        "simulation",
        "split_rows",
        "theory",
        "write_profile",
    ]


def test_every_public_name_exists_and_has_a_docstring():
    for module in (ec, codes, delays, schemes, simulation, splits, stragglers, theory):
        for name in module.__all__:
            item = getattr(module, name)
            if callable(item):
                assert item.__doc__, f"{module.__name__}.{name}"
