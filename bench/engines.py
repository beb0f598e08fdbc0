"""Ray and MPI: what our clusters add to a bare exchange of the same bytes, and emulated runs against predictions."""

from importlib.util import find_spec

from bench.results import markdown_table

HOW = (
    "Five workers; each result is an array that the worker has ready. A round gives out all tasks and takes in all "
    "results; times are medians, and both sides take turns in one run. Wanted: at most 1.5 times the bare exchange, "
    "and iterations within 7 % of the exact prediction; ± is one standard error. MPI's Send and Recv move bytes from C "
    "to C; an exchange of Python objects says what our frames say (round, slot, row, seconds), pickled. The "
    "least with our Python is the bare time plus our Python along the longest chain, measured with frames handed over "
    "within one process: a floor for this code, with warm caches."
)


def report() -> str:
    rows = [row for name, make in ENGINES.items() if find_spec(name) is not None for row in make()]
    return f"{markdown_table(['what', 'size', 'ours', 'bare', 'ratio'], rows)}\n\n{HOW}"


def ray_rows() -> list[list[str]]:
    from bench import engines_ray

    return engines_ray.ray_rows()


def mpi_rows() -> list[list[str]]:
    from bench import engines_mpi

    return engines_mpi.mpi_rows()


ENGINES = {"ray": ray_rows, "mpi4py": mpi_rows}  # by the package each needs

if __name__ == "__main__":
    print(report())
