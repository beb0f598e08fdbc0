"""Estimators of scikit-learn whose fits run on a cluster, and outlast slow and dying workers.

    model = echelon.sklearn.LogisticRegression(C=0.1, cluster="processes", workers=4).fit(X, y)

    with Stream(cluster="ray") as stream, echelon.sklearn.using(stream):  # one stream for many fits
        GridSearchCV(make_pipeline(StandardScaler(), echelon.sklearn.Ridge()), grid).fit(X, y)

The rows of X are cut into chunks that stay with the workers; every step of a fit is one sum over them. All take
these keywords besides those from scikit-learn:

cluster: where to run, a name that `Stream` knows: "processes", "threads", "virtual", "ray", "mpi".
workers: how many; by default as many as the machine has processors.
redundancy: what is computed per needed part; by default no more than needed, and workers that would be idle repeat what
    is late where that pays (`Stream`). With c chunks, each worker computes c(1 - 1/redundancy) more chunks, and a step
    does not wait for that share of the rows.
chunks: how many; by default four per worker, and at least eight.

Numbers are float64 throughout, whatever X has. With redundancy, sums are recovered from the rows that came first, so
two fits of the same data may differ in the last few digits; by default they do not.

Import it by name; `import echelon` alone does not load scikit-learn. Nor do the workers: estimators are loaded when
first used, and what runs on a worker needs only NumPy and SciPy.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if find_spec("sklearn") is None:
    raise ModuleNotFoundError(
        "echelon.sklearn needs scikit-learn; pip install 'echelon-compute[sklearn]'", name="sklearn"
    )

from echelon.sklearn.rounds import using

if TYPE_CHECKING:
    from echelon.sklearn.kmeans import KMeans
    from echelon.sklearn.logistic import LogisticRegression
    from echelon.sklearn.ridge import Ridge

_HOMES = {"KMeans": "kmeans", "LogisticRegression": "logistic", "Ridge": "ridge"}

__all__ = ["KMeans", "LogisticRegression", "Ridge", "using"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
