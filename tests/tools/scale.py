# SPDX-License-Identifier: Apache-2.0
"""The number of random cases a script tries: $AH_TEST_SCALE (default 0.1) times its full number, at least one. The rule
is that of check_scaled() in tests/support/check.c."""
import math
import os


def scaled(full):
    return max(1, math.ceil(full * float(os.environ.get("AH_TEST_SCALE", "0.1"))))
