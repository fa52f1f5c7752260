# SPDX-License-Identifier: Apache-2.0
# The device of known speed that the unit tests use.
target_sources(fault.profiler PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/profiler/fake_device.c)
