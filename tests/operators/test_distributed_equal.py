"""The bits of random jobs on distributed fields, of two, three and four devices, equal those of one."""

import distributed_equal
import pytest

from fdtest import BUILD, ON_HOST_NCCL, ONE_DEVICE


@pytest.mark.parametrize("count, node", [(2, ""), (3, ""), (4, ""), (3, "n1/")])
def test_distributed_jobs_have_the_bits_of_one_device(count, node):
    devices = ["host" if ONE_DEVICE == "host" else f"cuda:{i}" for i in range(count)]
    if node:  # the last two are on another one
        devices[1:] = [node + one + f":{i}" * (one == "host" and i > 0) for i, one in enumerate(devices[1:])]
    distributed_equal.main(["--build", str(BUILD), "--devices", ",".join(devices), "--jobs", "150"])


@pytest.mark.skipif(not ON_HOST_NCCL.exists(), reason="needs emulated GPUs")
def test_jobs_on_nodes_that_have_nccl(monkeypatch, tmp_path):
    monkeypatch.setenv("FDSERVER_NCCL", str(ON_HOST_NCCL))
    monkeypatch.setenv("NCCL_ON_HOST", str(tmp_path / "fault"))
    distributed_equal.main(["--build", str(BUILD), "--devices", "cuda:0,n1/cuda:1,n2/cuda:2", "--jobs", "150"])
    assert (tmp_path / "fault.done").stat().st_size > 150  # exchanges
