"""Fixtures every test file may use."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Some linear algebra libraries read these at import time, before torch.set_num_threads can act.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the real data that lies beside a checkout; the test is skipped where it is absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the real data in ../shared, which is not part of the repository")
    return folder


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
