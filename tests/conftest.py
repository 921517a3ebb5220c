"""Quiet frameworks, and one seed for every test that draws data.

``METAOP_TEST_BACKENDS=numpy,torch`` restricts the tests to some backends; otherwise every framework must be installed,
and one that is missing fails. ``METAOP_TEST_SEED`` draws other data. ``METAOP_TEST_THOROUGH=1`` leaves out
nothing where a backend has to compile each sample.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def pytest_report_header() -> str:
    from tests import checks

    return f"metaop: backends {', '.join(checks.BACKENDS)}; seed {checks.SEED}"
