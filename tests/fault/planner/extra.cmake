# SPDX-License-Identifier: Apache-2.0
# GLPK's functions in the fault test of the solver: each may be told to fail.
target_link_libraries(fault.planner PRIVATE autohete_glpk)
target_link_options(fault.planner PRIVATE
  LINKER:--wrap=glp_simplex,--wrap=glp_exact,--wrap=glp_intopt,--wrap=glp_init_env,--wrap=glp_get_status)
