"""The bits of random jobs on distributed fields, of two, three and four devices, equal those of one."""

import distributed_equal
import pytest

from fdtest import BUILD, ONE_DEVICE


@pytest.mark.parametrize("count, node", [(2, ""), (3, ""), (4, ""), (3, "n1/")])
def test_distributed_jobs_have_the_bits_of_one_device(count, node):
    devices = ["host" if ONE_DEVICE == "host" else f"cuda:{i}" for i in range(count)]
    if node:  # the last two are on another one
        devices[1:] = [node + one + f":{i}" * (one == "host" and i > 0) for i, one in enumerate(devices[1:])]
    distributed_equal.main(["--build", str(BUILD), "--devices", ",".join(devices), "--jobs", "150"])
