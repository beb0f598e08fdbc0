"""The text form, against the official parser."""

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from echelon.page.openmetrics import Histogram, Metric, exposition, number


def test_kinds_units_helps_labels_and_values_come_back():
    known = {
        "a_seconds": Metric("counter", "seconds", ("worker", "outcome"), "Time."),
        "b": Metric("gauge", "", (), "How many."),
    }
    text = exposition(known, {"a_seconds": [(("w1", "new"), 2.5), (("w2", "new"), 3)], "b": [((), math.nan)]})
    first, second = text_string_to_metric_families(text)
    assert (first.name, first.type, first.unit, first.documentation) == ("a_seconds", "counter", "seconds", "Time.")
    assert [(sample.name, sample.labels, sample.value) for sample in first.samples] == [
        ("a_seconds_total", {"worker": "w1", "outcome": "new"}, 2.5),
        ("a_seconds_total", {"worker": "w2", "outcome": "new"}, 3),
    ]
    assert (second.type, second.unit) == ("gauge", "")
    assert math.isnan(second.samples[0].value)


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "two\nlines", "<script>", "µ ü 工", "a,b=c}", ""])
def test_labels_may_hold_any_text(name):
    text = exposition({"up": Metric("gauge", "", ("worker",), "Up.")}, {"up": [((name,), 1)]})
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"worker": name}


def test_buckets_are_cumulated_and_a_value_on_a_bound_is_below_it():
    seen = Histogram([0.5, 1.0, 2.0])
    values = [0.1, 0.5, 0.50001, 2.0, 99.0]
    for value in values:
        seen.add(value)
    (family,) = text_string_to_metric_families(exposition({"h": Metric("histogram", "", (), "H.")}, {"h": seen}))
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    for bound in (0.5, 1.0, 2.0, math.inf):
        spelled = "+Inf" if bound == math.inf else str(bound)
        assert found["h_bucket", spelled] == sum(value <= bound for value in values)
    assert found["h_count", None] == len(values)
    assert found["h_sum", None] == pytest.approx(sum(values))


@pytest.mark.parametrize("value", [0, 1, 10**20, 0.1, 1e-300, 1.5e300, -2.0, math.inf, -math.inf])
def test_numbers_are_spelled_so_that_they_come_back(value):
    assert float(number(value)) == value
