/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a status as `autohete status` does, but without its age, which the document does not contain.
 */
#include "cli/inspect/inspect.h"
#include "cli/inspect/status_text.h"

void ah_inspect_status_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_status *status = document->body.status;
    ah_status_put(cli, status, 0);
    ah_inspect_pairs(cli, "annotations", status->annotations, status->n_annotations);
}

void ah_inspect_status_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_status *status = document->body.status;
    struct ah_arena arena = {0};
    struct ah_status_behind *behind = NULL;
    size_t n = 0;
    if (ah_status_find_behind(status, &arena, &behind, &n, NULL) && emit->out)
        emit->out->failed = true;
    ah_emit_integer(emit, "step", status->step);
    ah_emit_integer(emit, "steps", status->steps);
    ah_emit_text(emit, "ended", status->ended ? ah_words_status_ended[status->ended] : NULL);
    ah_emit_integer(emit, "ranks", status->n_ranks);
    ah_emit_open(emit, "behind", '[');
    for (size_t i = 0; i < n; i++)
        ah_emit_integer(emit, NULL, behind[i].rank);
    ah_emit_close(emit);
    ah_arena_release(&arena);
}
