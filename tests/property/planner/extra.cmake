# SPDX-License-Identifier: Apache-2.0
# Chains of a search run side by side.
ah_test_set(property.planner.search LABELS "property;planner;threads")
