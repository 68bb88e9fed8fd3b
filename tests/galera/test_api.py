"""The API suites on a node of the cluster."""

import os
import subprocess
import sys

from tests.support.deployment import ROOT
from tests.support.galera import Cluster


def test_every_suite_passes(cluster: Cluster) -> None:
    (url, *_) = cluster.create_database("api")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "tests/functional/test_gabbi.py"],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=300,
        env={**os.environ, "PLACEMENT_TEST_DATABASE": url},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
