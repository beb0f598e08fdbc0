"""Metrics as the official parser reads them."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def totals(text):
    """Return the sum of each sample over its labels, buckets left out."""
    found = {}
    for family in families(text).values():
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def by_label(text, name, label):
    """Return the sums of a sample by the values of one label."""
    found = {}
    for family in families(text).values():
        for sample in family.samples:
            if sample.name == name:
                found[sample.labels[label]] = found.get(sample.labels[label], 0) + sample.value
    return found
