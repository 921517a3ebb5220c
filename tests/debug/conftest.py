"""One thread per test process: tensors are small here, and threads of several processes would wait for each other."""

import pytest

from tests import checks


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    if "torch" not in checks.BACKENDS:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
