"""The bits of random jobs on distributed fields, of two, three and four devices, equal those of one."""

import distributed_equal
import pytest

from fdtest import BUILD, ONE_DEVICE


@pytest.mark.parametrize("count", [2, 3, 4])
def test_distributed_jobs_have_the_bits_of_one_device(count):
    devices = ["host" if ONE_DEVICE == "host" else f"cuda:{i}" for i in range(count)]
    distributed_equal.main(["--build", str(BUILD), "--devices", ",".join(devices), "--jobs", "150"])
