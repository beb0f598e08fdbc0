"""Expectation maximisation for a mixture of Gaussians on a line: workers return sufficient statistics in a dict."""

import numpy as np

import echelon as ec

CHUNKS = 11
State = dict[str, np.ndarray]


def data(seed: int, rows: int) -> tuple[np.ndarray, State]:
    """Return numbers drawn from three Gaussians, shape (rows,), and a mixture to begin with."""
    rng = np.random.default_rng(seed)
    means, spreads = np.array([-4.0, 0.5, 5.0]), np.array([1.0, 0.7, 1.5])
    drawn = rng.choice(3, size=rows, p=[0.3, 0.5, 0.2])
    numbers = means[drawn] + spreads[drawn] * rng.standard_normal(rows)
    begin = {"shares": np.full(3, 1 / 3), "means": np.quantile(numbers, [0.1, 0.5, 0.9]), "variances": np.ones(3)}
    return numbers, begin | {"likelihood": -np.inf}


def expect(state: State, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return what a chunk contributes to the moments of each Gaussian; runs on the workers."""
    squares = (numbers[:, None] - state["means"]) ** 2 / state["variances"]
    densities = state["shares"] * np.exp(-squares / 2) / np.sqrt(2 * np.pi * state["variances"])
    whole = densities.sum(axis=1)
    belongs = densities / whole[:, None]  # shape (numbers, 3), rows sum to 1
    return {
        "counts": belongs.sum(axis=0),
        "sums": numbers @ belongs,
        "squares": numbers**2 @ belongs,
        "likelihood": np.log(whole).sum(),
    }


def maximise(state: State, total: dict[str, np.ndarray]) -> State:
    """Return the mixture that has these moments; runs on the master."""
    means = total["sums"] / total["counts"]
    return {
        "shares": total["counts"] / total["counts"].sum(),
        "means": means,
        "variances": total["squares"] / total["counts"] - means**2,
        "likelihood": total["likelihood"],  # of the mixture before this step
    }


def job(seed: int = 1, rows: int = 3000, iterations: int = 30) -> ec.SumJob:
    """Return the job: a chunk is a piece of the numbers."""
    numbers, begin = data(seed, rows)
    return ec.SumJob(
        partial=expect,
        update=maximise,
        state=begin,
        chunks=np.array_split(numbers, CHUNKS),
        iterations=iterations,
        name="EM",
    )


def plain(seed: int = 1, rows: int = 3000, iterations: int = 30) -> tuple[State, int]:
    """Return the same mixture from one process, one Gaussian after the other, and the number of iterations."""
    numbers, begin = data(seed, rows)
    shares, means, spreads = begin["shares"], begin["means"], np.sqrt(begin["variances"])
    for _ in range(iterations):
        logs = np.array(
            [
                np.log(share) - ((numbers - mean) / spread) ** 2 / 2 - np.log(spread * np.sqrt(2 * np.pi))
                for share, mean, spread in zip(shares, means, spreads, strict=True)
            ]
        )
        whole = np.logaddexp.reduce(logs, axis=0)
        belongs = np.exp(logs - whole)
        shares = belongs.mean(axis=1)
        means = np.array([np.average(numbers, weights=line) for line in belongs])
        variances = np.array(
            [np.average((numbers - mean) ** 2, weights=line) for line, mean in zip(belongs, means, strict=True)]
        )
        spreads = np.sqrt(variances)
    return {"shares": shares, "means": means, "variances": variances, "likelihood": whole.sum()}, iterations


def main() -> None:
    """Run the job on two processes."""
    with ec.Stream(workers=2) as stream:
        delivery = stream.submit(job()).delivery()
    state, _ = plain()
    print(
        f"{delivery.name}: delay {delivery.delay:.3f} s, {delivery.iterations} iterations, "
        f"error {delivery.error_estimate.relative_to_terms:.1e} of the terms"
    )
    difference = max(np.abs(delivery.result[key] - state[key]).max() for key in state)
    print(f"largest difference from plain NumPy: {difference:.1e}")


if __name__ == "__main__":
    main()
