"""The operators, accuracies and boundaries over which tests iterate, and the rounding of the types."""

import numpy as np

ORDERS = [1, 2, 3, 4]  # of derivatives
ACCURACIES = [2, 4, 6, 8]
DTYPES = ["<f4", "<f8"]


def epsilon(dtype):
    return float(np.finfo(dtype).eps)
