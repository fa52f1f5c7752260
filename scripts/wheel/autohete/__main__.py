# SPDX-License-Identifier: Apache-2.0
"""python3 -m autohete"""
from autohete import main

main()
