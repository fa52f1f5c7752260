/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes an instruction's name. Loads, stores and comparisons are read word by word. All others are rows of tables.
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

#include <stdlib.h>
#include <string.h>

static bool take(const char **name, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*name, word, n) != 0)
        return false;
    *name += n;
    return true;
}

/* Decodes names such as ld.global.v4.f32 and st.shared.u16. */
static bool decode_access(struct ptx_insn *insn, const char *name)
{
    const bool loads = take(&name, "ld.");
    if (!loads && !take(&name, "st."))
        return false;
    insn->space = take(&name, "global.") ? PTX_GLOBAL : take(&name, "shared.") ? PTX_SHARED : PTX_PARAM;
    if (insn->space == PTX_PARAM && !(loads && take(&name, "param.")))
        return false;
    insn->elements = take(&name, "v2.") ? 2 : take(&name, "v4.") ? 4 : 1;
    if (!strchr("bfu", name[0]))
        return false;
    insn->bytes = (uint32_t)strtoul(name + 1, NULL, 10) / 8;
    insn->op = (struct ptx_op){.name = loads ? "ld" : "st",
                               .way = PTX_ACTS,
                               .sort = insn->space == PTX_PARAM ? PTX_CONTROL : PTX_MEMORY,
                               .act = loads ? ptx_load : ptx_store,
                               .results = loads ? insn->elements : 0};
    return insn->bytes != 0;
}

/* setp.lt.u32 */
static bool decode_comparison(struct ptx_insn *insn, const char *name)
{
    char relation[8] = "";
    if (!take(&name, "setp."))
        return false;
    const size_t n = strcspn(name, ".");
    if (n >= sizeof relation || !name[n])
        return false;
    memcpy(relation, name, n);
    insn->op = (struct ptx_op){.name = "setp",
                               .way = PTX_ALONE,
                               .sort = PTX_ARITHMETIC,
                               .scalar = ptx_compare_find(relation, name + n + 1),
                               .results = 1};
    return insn->op.scalar != NULL;
}

static const struct ptx_op controls[] = {
    {.name = "bra", .way = PTX_BRANCHES, .sort = PTX_CONTROL},
    {.name = "bra.uni", .way = PTX_BRANCHES, .sort = PTX_CONTROL},
    {.name = "ret", .way = PTX_RETURNS, .sort = PTX_CONTROL},
    {.name = "bar.sync", .way = PTX_BARRIER, .sort = PTX_EXCHANGE},
    {.name = "bar.red.and.pred", .way = PTX_BARRIER, .sort = PTX_EXCHANGE, .results = 1},
};

static const struct ptx_op *find_control(const char *name)
{
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        if (strcmp(controls[i].name, name) == 0)
            return &controls[i];
    return NULL;
}

bool ptx_decode(struct ptx_insn *insn, const char *name)
{
    if (decode_access(insn, name) || decode_comparison(insn, name))
        return true;
    const struct ptx_op *op = ptx_scalar_find(name);
    op = op ? op : ptx_warp_find(name);
    op = op ? op : ptx_copy_find(name);
    op = op ? op : find_control(name);
    if (op)
        insn->op = *op;
    return op != NULL;
}
