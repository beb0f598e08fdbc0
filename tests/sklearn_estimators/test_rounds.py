"""Where fits run: streams of their own, one that is open, workers that die; and what is left in a fitted model."""

import contextvars
import pickle
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from echelon import Stream
from echelon.errors import ArgumentError, ClusterError
from echelon.sklearn import KMeans, LogisticRegression, Ridge, using
from tests.sklearn_estimators.data import HERE, diabetes, digits, iris

NOWHERE = {"cluster": "nowhere"}  # fits fail but inside of `using`


def models(**where):
    X, y = digits()
    X, y = X[:500], y[:500]
    return [
        (LogisticRegression(C=0.1, tol=1e-6, max_iter=500, **where), X, y),
        (Ridge(**where), X, y),
        (Ridge(**where), X[:50], y[:50]),
        (KMeans(10, init=X[:10], **where), X, None),
    ]


def assert_same(found, expected):
    for name in ("coef_", "intercept_", "cluster_centers_", "labels_", "inertia_"):
        if hasattr(expected, name):
            assert np.allclose(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-5), name


def count_kept(stream, monkeypatch):
    kept, keep = [], stream.keep
    monkeypatch.setattr(stream, "keep", lambda job: kept.append(job) or keep(job))
    return kept


def test_fits_inside_use_the_stream_that_is_given_and_leave_it_open(monkeypatch):
    with Stream("threads", workers=3) as stream:
        kept = count_kept(stream, monkeypatch)
        with using(stream):
            for model, X, y in models(**NOWHERE):
                assert_same(model.fit(X, y), clone(model).set_params(**HERE).fit(X, y))
        assert len(kept) == 8  # and those of the other cluster, too: it plays no part
        with pytest.raises(ArgumentError, match="cluster: 'nowhere'"):
            Ridge(**NOWHERE).fit(*diabetes())


def test_the_innermost_stream_counts(monkeypatch):
    with Stream("threads", workers=1) as outer, Stream("threads", workers=1) as inner:
        outside, inside = count_kept(outer, monkeypatch), count_kept(inner, monkeypatch)
        with using(outer):
            with using(inner):
                Ridge(**NOWHERE).fit(*diabetes())
            assert (len(outside), len(inside)) == (0, 1)
            with pytest.raises(RuntimeError), using(inner):
                raise RuntimeError
            Ridge(**NOWHERE).fit(*diabetes())
        assert (len(outside), len(inside)) == (1, 1)


def test_threads_have_their_own(monkeypatch):
    found = {}

    def fit(name, stream=None):
        try:
            if stream is None:
                Ridge(**NOWHERE).fit(*diabetes())
            else:
                with using(stream):
                    Ridge(**NOWHERE).fit(*diabetes())
            found[name] = "fitted"
        except ArgumentError:
            found[name] = "refused"

    with Stream("threads", workers=1) as one, Stream("threads", workers=1) as other, using(one):
        ones, others = count_kept(one, monkeypatch), count_kept(other, monkeypatch)
        threads = [
            Thread(target=fit, args=("new",)),
            Thread(target=contextvars.copy_context().run, args=(fit, "copied")),
            Thread(target=fit, args=("own", other)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {"new": "refused", "copied": "fitted", "own": "fitted"}
    assert (len(ones), len(others)) == (1, 1)


def test_what_is_no_open_stream_is_refused():
    with pytest.raises(ArgumentError, match="stream: 'ray' is not allowed"), using("ray"):
        pass
    with Stream("threads", workers=1) as stream:
        pass
    with pytest.raises(ClusterError, match="closed"), using(stream):
        Ridge().fit(*diabetes())


def test_a_worker_that_dies_in_mid_fit_changes_nothing(monkeypatch):
    with Stream("processes", workers=2, redundancy=1.3) as stream:
        rounds_begun, broadcast = [], stream._cluster.broadcast

        def broadcast_and_kill(*arguments):
            broadcast(*arguments)
            rounds_begun.append(arguments[0])
            if len(rounds_begun) == fatal:
                stream._cluster.kill(max(stream._cluster.pids()))

        monkeypatch.setattr(stream._cluster, "broadcast", broadcast_and_kill)
        for (model, X, y), fatal in zip(models(), [3, 1, 1, 2], strict=True):
            rounds_begun.clear()
            with using(stream):
                model.fit(X, y)
            assert len(rounds_begun) >= fatal
            assert_same(model, clone(model).set_params(**HERE).fit(X, y))


def test_a_fit_opens_processes_of_its_own_and_closes_them(monkeypatch):
    closed, close = [], Stream.close

    def note(self, **how):
        closed.append((type(self._cluster).__name__, self.workers))
        close(self, **how)

    monkeypatch.setattr(Stream, "close", note)
    model = Ridge(workers=1, chunks=3).fit(*diabetes())
    assert closed == [("ProcessCluster", 1)]
    assert_same(model, Ridge(**HERE).fit(*diabetes()))


def test_chunks_are_as_many_as_asked_for_and_never_empty(monkeypatch):
    X, y = diabetes()
    X, y = X[:40], y[:40]
    with Stream("threads", workers=3) as stream, using(stream):
        kept = count_kept(stream, monkeypatch)
        for chunks in (None, 5, 1000):
            assert_same(Ridge(chunks=chunks).fit(X, y), Ridge(chunks=1).fit(X, y))
    assert [job.parts for job in kept[::2]] == [12, 5, len(X)]


def test_without_redundancy_a_fit_is_the_same_to_the_last_bit():
    X, y = iris()
    fits = [LogisticRegression(redundancy=1, max_iter=200, **HERE).fit(X, y) for _ in range(3)]
    assert all(np.array_equal(fit.coef_, fits[0].coef_) for fit in fits)


@pytest.mark.parametrize("number", range(4))
def test_a_fitted_model_holds_no_stream_and_can_be_pickled(number):
    model, X, y = models(**HERE)[number]
    model.fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert not [value for value in vars(model).values() if type(value).__module__.startswith("echelon.stream")]
    assert repr(again) == repr(model)


def test_narrow_numbers_are_computed_with_as_wide_ones():
    for model, X, y in models(**HERE):
        narrow = X.astype(np.float32)
        found, expected = clone(model).fit(narrow, y), clone(model).fit(narrow.astype(np.float64), y)
        assert_same(found, expected)
        kept = [value for value in vars(found).values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
        assert {value.dtype for value in kept} == {np.dtype(np.float64)}


def test_memory_mapped_samples_reach_workers_by_their_file(tmp_path, monkeypatch):
    X, y = digits()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    with Stream("threads", workers=2) as stream, using(stream):
        kept = count_kept(stream, monkeypatch)
        found = [model.fit(mapped, y) for model in (Ridge(), LogisticRegression(C=0.1, max_iter=200), KMeans(4))]
    assert all(type(job._chunks[0][0]) is np.memmap for job in kept)
    assert_same(found[0], Ridge(**HERE).fit(X, y))


def test_a_grid_is_searched_on_one_stream():
    X, y = iris()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(**NOWHERE)), {"logisticregression__C": [0.001, 1.0, 10.0]}
    )
    with Stream("threads", workers=2) as stream, using(stream):
        search.fit(X, y)
    assert search.best_params_["logisticregression__C"] > 0.001
    assert search.best_score_ > 0.95
    assert search.score(X, y) > 0.95


def test_workers_do_without_scikit_learn():
    names = ["rounds", "logistic_loss", "moments", "lloyd"]
    code = (
        f"import sys; {'; '.join(f'import echelon.sklearn.{name}' for name in names)}; print('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_scikit_learn_the_error_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None; import echelon.sklearn"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    wanted = "ModuleNotFoundError: echelon.sklearn needs scikit-learn; pip install 'echelon-compute[sklearn]'"
    assert wanted in ended.stderr
