# SPDX-License-Identifier: Apache-2.0
"""How many random cases a script tries: $AH_TEST_SCALE times its full number, a tenth where it is not set, at least one.
The same rule as check_scaled() in tests/support/check.c."""
import math
import os


def scaled(full):
    return max(1, math.ceil(full * float(os.environ.get("AH_TEST_SCALE", "0.1"))))
