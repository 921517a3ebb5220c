"""One thread per test process: these tensors are small, and threads of several processes would only wait for each other."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
