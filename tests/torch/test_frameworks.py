"""Frameworks are loaded by who asks for them, and missing ones are named with what to install."""

import subprocess
import sys

import pytest


def ended(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_echelon_torch_loads_no_framework():
    code = "import sys, echelon.torch; print({'lightning', 'transformers', 'accelerate'} & set(sys.modules))"
    assert ended(code).stdout == "set()\n"


@pytest.mark.parametrize(
    ("missing", "module", "said"),
    [
        ("lightning", "lightning", "echelon.torch.lightning needs Lightning; pip install 'echelon-compute[lightning]'"),
        (
            "accelerate",
            "hf_trainer",
            "echelon.torch.hf_trainer needs transformers and accelerate; pip install 'echelon-compute[transformers]'",
        ),
    ],
)
def test_without_a_framework_the_error_says_what_to_install(missing, module, said):
    code = f"import sys; sys.modules[{missing!r}] = None; import echelon.torch.{module}"
    assert f"ModuleNotFoundError: {said}" in ended(code).stderr
