"""The torch tests, by whatever torch this interpreter has: `python -m bench.torch_tests`, on a GPU if there is one.

The suite runs them with the torch of `constraints.txt`; any from 2.4 on is promised. Needs pytest beside what echelon
needs.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "tests" / "torch"
OTHERS = ("lightning", "transformers", "sklearn")  # libraries that some of the tests are about


def main(arguments: list[str]) -> int:
    if find_spec("pytest") is None:
        print("bench.torch_tests needs pytest; pip install pytest", file=sys.stderr)
        return 2
    import pytest
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    missing = [name for name in OTHERS if find_spec(name) is None]
    print(f"torch {torch.__version__}, {device}; not installed: {', '.join(missing) or 'nothing'}", flush=True)
    return int(pytest.main([str(FOLDER), "--quiet", *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
