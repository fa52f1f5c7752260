/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/mixed.h"

struct mixing {
    const struct ah_cluster_problem *const *problems;
    size_t n;
    struct ah_problem_kind *kinds;
    struct ah_problem_class *classes;
    struct ah_problem_link *links;
    size_t *class_in_first; /* (classes): the first problem's class of the same node */
};

/* Adds the classes of one node from all problems. `first_class`: the node's class in the first problem. */
static void add_node(struct mixing *m, struct ah_cluster_problem *mixed, size_t first_class)
{
    size_t node = m->problems[0]->classes[first_class].node, kinds = 0;
    for (size_t i = 0; i < m->n; kinds += m->problems[i++]->n_kinds)
        for (size_t c = 0; c < m->problems[i]->n_classes; c++) {
            if (m->problems[i]->classes[c].node != node)
                continue;
            m->class_in_first[mixed->n_classes] = first_class;
            m->classes[mixed->n_classes] = m->problems[i]->classes[c];
            m->classes[mixed->n_classes++].kind += kinds;
        }
}

static void add_links(const struct mixing *m, const struct ah_cluster_problem *mixed)
{
    size_t n = mixed->n_classes;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            m->links[a * n + b] =
                m->problems[0]
                    ->links[m->class_in_first[a] * m->problems[0]->n_classes + m->class_in_first[b]];
}

int ah_mixed_build(const struct ah_cluster_problem *const *problems, size_t n, struct ah_arena *arena,
                   struct ah_cluster_problem *ret_mixed, struct ah_error *err)
{
    struct ah_cluster_problem mixed = *problems[0];
    struct mixing m = {.problems = problems, .n = n};
    size_t kinds = 0, classes = 0;
    for (size_t i = 0; i < n; i++) {
        kinds += problems[i]->n_kinds;
        classes += problems[i]->n_classes;
    }
    m.kinds = ah_arena_array(arena, kinds, sizeof *m.kinds);
    m.classes = ah_arena_array(arena, classes, sizeof *m.classes);
    m.class_in_first = ah_arena_array(arena, classes, sizeof *m.class_in_first);
    m.links = ah_arena_array(arena, classes * classes, sizeof *m.links);
    if (!m.kinds || !m.classes || !m.class_in_first || !m.links)
        return ah_error_memory(err);
    mixed.n_kinds = mixed.n_classes = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < problems[i]->n_kinds; k++)
            m.kinds[mixed.n_kinds++] = problems[i]->kinds[k];
    for (size_t c = 0; c < problems[0]->n_classes; c++)
        add_node(&m, &mixed, c);
    add_links(&m, &mixed);
    mixed.kinds = m.kinds;
    mixed.classes = m.classes;
    mixed.links = m.links;
    *ret_mixed = mixed;
    return AH_OK;
}
