/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/cluster/mixed.h"

struct mixing {
    const struct ah_instance *const *instances;
    size_t n;
    struct ah_instance_kind *kinds;
    struct ah_instance_class *classes;
    struct ah_instance_link *links;
    size_t *class_in_first; /* (classes): of the same node */
};

/* Adds the classes that all instances have for one node of the first instance. */
static void add_node(struct mixing *m, struct ah_instance *mixed, size_t first_class)
{
    size_t node = m->instances[0]->classes[first_class].node, kinds = 0;
    for (size_t i = 0; i < m->n; kinds += m->instances[i++]->n_kinds)
        for (size_t c = 0; c < m->instances[i]->n_classes; c++) {
            if (m->instances[i]->classes[c].node != node)
                continue;
            m->class_in_first[mixed->n_classes] = first_class;
            m->classes[mixed->n_classes] = m->instances[i]->classes[c];
            m->classes[mixed->n_classes++].kind += kinds;
        }
}

static void add_links(const struct mixing *m, const struct ah_instance *mixed)
{
    size_t n = mixed->n_classes;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            m->links[a * n + b] =
                m->instances[0]
                    ->links[m->class_in_first[a] * m->instances[0]->n_classes + m->class_in_first[b]];
}

int ah_mixed_build(const struct ah_instance *const *instances, size_t n, struct ah_arena *arena,
                   struct ah_instance *ret_mixed, struct ah_error *err)
{
    struct ah_instance mixed = *instances[0];
    struct mixing m = {.instances = instances, .n = n};
    size_t kinds = 0, classes = 0;
    for (size_t i = 0; i < n; i++) {
        kinds += instances[i]->n_kinds;
        classes += instances[i]->n_classes;
    }
    m.kinds = ah_arena_array(arena, kinds, sizeof *m.kinds);
    m.classes = ah_arena_array(arena, classes, sizeof *m.classes);
    m.class_in_first = ah_arena_array(arena, classes, sizeof *m.class_in_first);
    m.links = ah_arena_array(arena, classes * classes, sizeof *m.links);
    if (!m.kinds || !m.classes || !m.class_in_first || !m.links)
        return ah_error_memory(err);
    mixed.n_kinds = mixed.n_classes = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < instances[i]->n_kinds; k++)
            m.kinds[mixed.n_kinds++] = instances[i]->kinds[k];
    for (size_t c = 0; c < instances[0]->n_classes; c++)
        add_node(&m, &mixed, c);
    add_links(&m, &mixed);
    mixed.kinds = m.kinds;
    mixed.classes = m.classes;
    mixed.links = m.links;
    *ret_mixed = mixed;
    return AH_OK;
}
