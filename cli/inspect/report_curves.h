/* SPDX-License-Identifier: Apache-2.0
 *
 * Report curves: the numbers of a run over its steps. The CSV file, the event file and the page all take them from
 * here, so that they agree.
 *
 *     for (size_t i = 0; i < AH_REPORT_CURVES; i++)
 *         ... ah_report_curves[i].column ...
 *     ah_report_each_row(runlog, put_row, &out);  // put_row() calls ah_report_curves[i].value(row)
 */
#ifndef AH_CLI_INSPECT_REPORT_CURVES_H
#define AH_CLI_INSPECT_REPORT_CURVES_H

#include "schemas/runlog.h"

#include <stddef.h>
#include <stdint.h>

/* A row of the curves: a step, or an evaluation after it. */
struct ah_report_row {
    const struct ah_runlog *runlog;
    uint64_t number;                               /* of the step */
    const struct ah_runlog_step *step;             /* NULL: an evaluation */
    const struct ah_runlog_evaluation *evaluation; /* NULL: a step */
};

struct ah_report_curve {
    const char *column, *tag;                         /* in CSV and the page; in TensorBoard */
    double (*value)(const struct ah_report_row *row); /* NAN: the row has none */
};

enum { AH_REPORT_CURVES = 9 };
extern const struct ah_report_curve ah_report_curves[AH_REPORT_CURVES];

/* How the value of a row is printed as text: the same number in the CSV file and in the page. */
#define AH_REPORT_NUMBER "%.9g"

/* Calls `put` for all rows: an evaluation comes after its step, and before all steps if that is not in the log. */
void ah_report_each_row(const struct ah_runlog *runlog,
                        void (*put)(void *context, const struct ah_report_row *row), void *context);

#endif
