"""scikit-learn's own checks of estimators, all of them, with none that is expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from echelon.sklearn import KMeans, LogisticRegression, Ridge
from tests.sklearn_estimators.data import HERE


@parametrize_with_checks([LogisticRegression(max_iter=200, **HERE), Ridge(**HERE), KMeans(n_clusters=2, **HERE)])
def test_an_estimator_does_as_scikit_learn_wants(estimator, check):
    check(estimator)
