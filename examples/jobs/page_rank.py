"""PageRank of a small random graph: its matrix says where links lead, and damping lets the reader jump anywhere."""

import numpy as np

import echelon as ec

PARTS = 7
DAMPING = 0.85


def data(seed: int, pages: int) -> np.ndarray:
    """Return which page links to which, shape (to, from); some pages have no links."""
    rng = np.random.default_rng(seed)
    linked = rng.random((pages, pages)) < 0.1 * rng.pareto(2.0, pages)[:, None]
    linked[:, rng.random(pages) < 0.1] = False
    np.fill_diagonal(linked, False)
    return linked


def damp(ranks: np.ndarray, product: np.ndarray) -> np.ndarray:
    """Return the next ranks: most readers follow a link, the others begin anywhere; runs on the master."""
    return DAMPING * product + (1 - DAMPING) / len(ranks)


def job(seed: int = 1, pages: int = 100, iterations: int = 40) -> ec.LinearJob:
    """Return the job: a reader on a page without links goes to any page, so that every column sums to 1."""
    linked = data(seed, pages)
    links = linked.sum(axis=0)
    return ec.LinearJob(
        matrix=np.where(links > 0, linked / np.maximum(links, 1), 1 / pages),
        update=damp,
        state=np.full(pages, 1 / pages),
        parts=PARTS,
        iterations=iterations,
        name="PageRank",
    )


def plain(seed: int = 1, pages: int = 100, iterations: int = 40) -> tuple[np.ndarray, int]:
    """Return the same ranks from one process, link by link without a matrix, and the number of iterations."""
    linked = data(seed, pages)
    to, since = np.nonzero(linked)
    links = np.bincount(since, minlength=pages)
    ranks = np.full(pages, 1 / pages)
    for _ in range(iterations):
        followed = np.bincount(to, weights=ranks[since] / links[since], minlength=pages)
        lost = ranks[links == 0].sum()
        ranks = (1 - DAMPING) / pages + DAMPING * (followed + lost / pages)
    return ranks, iterations


def main() -> None:
    """Run the job on two processes."""
    with ec.Stream(workers=2) as stream:
        delivery = stream.submit(job()).delivery()
    ranks, _ = plain()
    print(
        f"{delivery.name}: delay {delivery.delay:.3f} s, {delivery.iterations} iterations, "
        f"error {delivery.error_estimate.relative_to_terms:.1e} of the terms"
    )
    print(f"largest difference from plain NumPy: {np.abs(delivery.result - ranks).max():.1e}")


if __name__ == "__main__":
    main()
