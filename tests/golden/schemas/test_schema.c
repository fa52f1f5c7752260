/* SPDX-License-Identifier: Apache-2.0
 *
 * schemas/<kind>.schema.json must equal the schema printed from the tables. After changing a table, regenerate with
 *
 *     for kind in model machine cluster plan cluster-plan inventory moves runlog checkpoint resume status; do
 *         autohete schema $kind > schemas/$kind.schema.json
 *     done
 */
#include "base/file.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

TEST(schema, equals_the_committed_file)
{
    for (int kind = AH_DOCUMENT_ANY + 1; kind < AH_DOCUMENT_KINDS; kind++) {
        char path[64];
        struct ah_buffer committed = {0};
        struct ah_buffer printed = {0};
        struct ah_error err = {0};
        snprintf(path, sizeof path, "schemas/%s.schema.json", ah_document_word((enum ah_document_kind)kind));
        CHECK_OK(ah_file_read(path, 1 << 20, &committed, &err), err);
        CHECK_OK(ah_document_schema((enum ah_document_kind)kind, &printed, &err), err);
        if (strcmp(committed.data, printed.data) != 0)
            fail_msg("%s is not what the table prints; regenerate it (see this file's head)", path);
        ah_buffer_release(&committed);
        ah_buffer_release(&printed);
    }
}

static void check_references(const cJSON *tree, const cJSON *definitions)
{
    static const char prefix[] = "#/$defs/";
    const cJSON *item;
    cJSON_ArrayForEach(item, tree)
    {
        if (item->string && !strcmp(item->string, "$ref")) {
            assert_memory_equal(item->valuestring, prefix, sizeof prefix - 1);
            if (!cJSON_GetObjectItemCaseSensitive(definitions, item->valuestring + sizeof prefix - 1))
                fail_msg("%s is not defined", item->valuestring);
        }
        check_references(item, definitions);
    }
}

/* Every reference has a definition, and nothing is defined twice. */
TEST(schema, defines_what_it_refers_to)
{
    for (int kind = AH_DOCUMENT_ANY + 1; kind < AH_DOCUMENT_KINDS; kind++) {
        struct ah_buffer printed = {0};
        struct ah_error err = {0};
        CHECK_OK(ah_document_schema((enum ah_document_kind)kind, &printed, &err), err);
        cJSON *tree = cJSON_Parse(printed.data);
        assert_non_null(tree);
        const cJSON *definitions = cJSON_GetObjectItemCaseSensitive(tree, "$defs"), *item, *other;
        check_references(tree, definitions);
        cJSON_ArrayForEach(item, definitions)
        {
            for (other = item->next; other; other = other->next)
                if (!strcmp(item->string, other->string))
                    fail_msg("%s: '%s' is defined twice", ah_document_word((enum ah_document_kind)kind),
                             item->string);
        }
        cJSON_Delete(tree);
        ah_buffer_release(&printed);
    }
}

TEST(schema, has_no_schema_of_nothing)
{
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    CHECK_FAILS(ah_document_schema(AH_DOCUMENT_ANY, &out, &err), err, AH_E_USAGE, "one kind");
    ah_buffer_release(&out);
}
