/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests, with numbers worked out by hand, that an op takes no less time than its launches.
 */
#include "runtime/schedule/costs.h"
#include "tests/support/check.h"

TEST(costs, work_takes_no_less_than_its_launches)
{
    check_near(ah_costs_launched(100, 7, 10), 100, 0);
    check_near(ah_costs_launched(100, 10, 10), 100, 0);
    check_near(ah_costs_launched(100, 30, 10), 300, 0);
    check_near(ah_costs_launched(0, 2, 10), 20, 0);
    check_near(ah_costs_launched(0.1, UINT64_C(1) << 40, 0), 0.1, 0); /* the launch time is not known */
}

TEST(costs, updates_are_launched)
{
    struct ah_job_group groups[] = {{.own_trained_parameters = 10}, {.own_trained_parameters = 1000}};
    struct ah_cost_group prices[] = {{.update_ops = 2}, {.update_ops = 3}};
    const struct ah_job job = {.groups = groups, .n_groups = 2};
    const struct ah_costs costs = {.groups = prices, .device_adam_us = 0.5, .launch_us = 8};
    check_near(ah_costs_update_us(&costs, &job, 0), 16, 0);
    check_near(ah_costs_update_us(&costs, &job, 1), 500, 0);
}
