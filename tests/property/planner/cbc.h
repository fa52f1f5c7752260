/* SPDX-License-Identifier: Apache-2.0
 *
 * CBC, another solver, as an oracle. It reads the file written by ah_solver_write().
 */
#ifndef AH_TESTS_PROPERTY_PLANNER_CBC_H
#define AH_TESTS_PROPERTY_PLANNER_CBC_H

#include "planner/bound/solver.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Solves the problem. Returns false if it is infeasible. Needs the program `cbc` (Debian's coinor-cbc). */
static bool cbc_solve(const struct ah_solver_problem *problem, double *ret_objective)
{
    char folder[] = "/tmp/autohete-cbc-XXXXXX", path[64], solution[64], command[256], line[256] = "";
    struct ah_error err = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/problem.lp", folder);
    snprintf(solution, sizeof solution, "%s/solution", folder);
    CHECK_OK(ah_solver_write(problem, path, &err), err);
    snprintf(command, sizeof command, "cbc %s ratioGap 0 allowableGap 0 solve solution %s >/dev/null", path,
             solution);
    if (system(command) != 0)
        fail_msg("'%s' failed: install coinor-cbc", command);
    FILE *file = fopen(solution, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    unlink(path);
    unlink(solution);
    rmdir(folder);
    const char *value = strstr(line, "objective value");
    assert_non_null(value);
    *ret_objective = strtod(value + strlen("objective value"), NULL);
    if (strncmp(line, "Optimal", 7) != 0 && strncmp(line, "Infeasible", 10) != 0 &&
        strncmp(line, "Integer infeasible", 18) != 0)
        fail_msg("cbc says: %s", line);
    return strncmp(line, "Optimal", 7) == 0;
}

#endif
