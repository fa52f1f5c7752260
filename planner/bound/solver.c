/* SPDX-License-Identifier: Apache-2.0
 *
 * Solver: GLPK 5.0 behind three functions.
 *
 *   1. GLPK reports misuse and lack of memory by glp_error(), which aborts unless its hook does not return. Our hook
 *      leaves by longjmp. All memory belongs to the thread's environment, and glp_free_env() frees all of it.
 *   2. glp_init_env() is called first, because every other function aborts if it fails.
 *   3. Return code 0 only says that a search ended; the status says what it found.
 *   4. Without GLPK's presolver, an integer search starts from the relaxation's optimal basis, which is made first.
 *   5. glp_exact() uses whole numbers exactly and others approximately, so nothing is scaled here. GLPK stores its
 *      scale factors separately; they affect floating-point pivots only.
 *   6. glp_error() prints even if glp_term_out() has switched output off, so a hook discards the text.
 *   7. Searches have limits of nodes but not of time: results must not depend on the machine's speed.
 */
#include "planner/bound/solver.h"

#include <glpk.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

enum { INIT_ENV_FRESH = 0, INIT_ENV_THERE = 1, SIMPLEX_STEPS = 100000 };

struct session {
    const struct ah_solver_problem *problem;
    const struct ah_solver_limits *limits;
    struct ah_solver_result *result;
    const char *path;
    glp_prob *glpk;
    size_t nodes;
    jmp_buf escape;
};

static int swallow(void *info, const char *text)
{
    (void)info, (void)text;
    return 1;
}

static void escape(void *info)
{
    struct session *s = info;
    longjmp(s->escape, 1);
}

/* ---- the problem ---- */

static int bound_type(double lower, double upper)
{
    if (isinf(lower))
        return isinf(upper) ? GLP_FR : GLP_UP;
    if (isinf(upper))
        return GLP_LO;
    return lower < upper ? GLP_DB : GLP_FX;
}

static void load_columns(struct session *s)
{
    const struct ah_solver_problem *p = s->problem;
    glp_add_cols(s->glpk, (int)p->n_columns);
    for (size_t j = 0; j < p->n_columns; j++) {
        int column = (int)j + 1;
        glp_set_obj_coef(s->glpk, column, p->objective[j]);
        glp_set_col_bnds(s->glpk, column, bound_type(0, p->upper[j]), 0, p->upper[j]);
        glp_set_col_kind(s->glpk, column, p->integer[j] ? GLP_IV : GLP_CV);
    }
}

/* Adds the rows one after another, with room for the longest row. */
static void load_rows(struct session *s)
{
    const struct ah_solver_problem *p = s->problem;
    int *index = glp_calloc((int)p->n_columns + 1, sizeof *index);
    double *value = glp_calloc((int)p->n_columns + 1, sizeof *value);
    glp_add_rows(s->glpk, (int)p->n_rows);
    for (size_t i = 0; i < p->n_rows; i++) {
        const double *row = &p->coefficients[i * p->n_columns];
        int n = 0;
        for (size_t j = 0; j < p->n_columns; j++) {
            if (row[j] == 0)
                continue;
            index[++n] = (int)j + 1;
            value[n] = row[j];
        }
        glp_set_mat_row(s->glpk, (int)i + 1, n, index, value);
        glp_set_row_bnds(s->glpk, (int)i + 1, bound_type(p->row_lower[i], p->row_upper[i]), p->row_lower[i],
                         p->row_upper[i]);
    }
    glp_free(index);
    glp_free(value);
}

static void load_problem(struct session *s)
{
    s->glpk = glp_create_prob();
    glp_set_obj_dir(s->glpk, GLP_MIN);
    load_columns(s);
    load_rows(s);
}

/* ---- solving ---- */

static int simplex(struct session *s)
{
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.it_lim = SIMPLEX_STEPS;
    glp_scale_prob(s->glpk, GLP_SF_GM | GLP_SF_EQ | GLP_SF_2N);
    glp_adv_basis(s->glpk, 0);
    return glp_simplex(s->glpk, &parameters);
}

static void read_values(struct session *s, double (*value)(glp_prob *, int))
{
    for (size_t j = 0; j < s->problem->n_columns; j++)
        s->result->values[j] = value(s->glpk, (int)j + 1);
}

static void read_prices(struct session *s)
{
    for (size_t i = 0; s->result->prices && i < s->problem->n_rows; i++)
        s->result->prices[i] = -glp_get_row_dual(s->glpk, (int)i + 1);
}

static int relax(struct session *s)
{
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    load_problem(s);
    simplex(s); /* makes a starting basis; if it fails, the exact simplex does more */
    int code = glp_exact(s->glpk, &parameters);
    if (code == GLP_EBADB || code == GLP_ESING) { /* the basis is unusable */
        glp_std_basis(s->glpk);
        code = glp_exact(s->glpk, &parameters);
    }
    if (code)
        return code;
    int status = glp_get_status(s->glpk);
    if (status == GLP_OPT) {
        s->result->status = AH_SOLVER_OPTIMAL;
        s->result->objective = glp_get_obj_val(s->glpk);
        read_values(s, glp_get_col_prim);
        read_prices(s);
        return 0;
    }
    s->result->status = status == GLP_UNBND ? AH_SOLVER_UNBOUNDED : AH_SOLVER_INFEASIBLE;
    return status == GLP_UNBND || status == GLP_NOFEAS ? 0 : GLP_EFAIL;
}

static void count_nodes(glp_tree *tree, void *info)
{
    struct session *s = info;
    if (glp_ios_reason(tree) == GLP_ISELECT && s->limits->nodes && ++s->nodes > s->limits->nodes)
        glp_ios_terminate(tree);
}

static int round_up_and_down(struct session *s)
{
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.mip_gap = s->limits->gap;
    parameters.cb_func = count_nodes;
    parameters.cb_info = s;
    load_problem(s);
    s->result->status = AH_SOLVER_INFEASIBLE;
    if (simplex(s) || glp_get_status(s->glpk) != GLP_OPT)
        return 0;
    int code = glp_intopt(s->glpk, &parameters);
    if (code && code != GLP_ESTOP && code != GLP_EMIPGAP)
        return code;
    int status = glp_mip_status(s->glpk);
    if (status != GLP_OPT && status != GLP_FEAS)
        return 0;
    s->result->status = code == GLP_ESTOP ? AH_SOLVER_FEASIBLE : AH_SOLVER_OPTIMAL;
    s->result->objective = glp_mip_obj_val(s->glpk);
    read_values(s, glp_mip_col_val);
    return 0;
}

static int write_problem(struct session *s)
{
    load_problem(s);
    return glp_write_lp(s->glpk, NULL, s->path);
}

/* ---- around each call ---- */

static int run_guarded(struct session *s, int (*work)(struct session *s), struct ah_error *err)
{
    int there = glp_init_env();
    if (there != INIT_ENV_FRESH && there != INIT_ENV_THERE)
        return ah_error_memory(err);
    glp_term_hook(swallow, NULL);
    glp_term_out(GLP_OFF);
    glp_error_hook(escape, s);
    int rc;
    if (setjmp(s->escape))
        rc = ah_error_set(err, AH_E_FAILED,
                          "the linear-program solver stopped: out of memory, or numbers that are not finite: "
                          "check the machine document");
    else {
        int code = work(s);
        rc = code
                 ? ah_error_set(err, AH_E_FAILED, "the linear-program solver gave up with GLPK code %d", code)
                 : AH_OK;
    }
    glp_error_hook(NULL, NULL);
    glp_free_env();
    return rc;
}

int ah_solver_relax(const struct ah_solver_problem *problem, struct ah_solver_result *result,
                    struct ah_error *err)
{
    struct session s = {.problem = problem, .result = result};
    return run_guarded(&s, relax, err);
}

int ah_solver_round(const struct ah_solver_problem *problem, const struct ah_solver_limits *limits,
                    struct ah_solver_result *result, struct ah_error *err)
{
    struct session s = {.problem = problem, .limits = limits, .result = result};
    return run_guarded(&s, round_up_and_down, err);
}

int ah_solver_write(const struct ah_solver_problem *problem, const char *path, struct ah_error *err)
{
    struct session s = {.problem = problem, .path = path};
    int rc = run_guarded(&s, write_problem, err);
    return rc ? ah_error_set(err, AH_E_IO, "'%s' could not be written: choose another folder", path) : AH_OK;
}
