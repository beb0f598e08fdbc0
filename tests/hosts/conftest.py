"""Tests on several hosts are run by ``make test-hosts`` alone: they need root, and make networks."""

import os

collect_ignore_glob = [] if os.environ.get("ECHELON_TEST_HOSTS") else ["test_*.py"]
