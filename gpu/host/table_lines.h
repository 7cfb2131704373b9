/* Lines of a pass of a plan of the engine PLAN_TABLE, for one element type. */

static void NAME(table_lines)(const struct table_lines *lines)
{
    const struct table_header *table = lines->table;
    const struct table_pass *pass = lines->pass;
    const int64_t n = table->axis_of[AXIS_X].n, ny = table->axis_of[AXIS_Y].n;
    const int64_t field_lines = ny * table->axis_of[AXIS_Z].n;
    for (int64_t line = lines->from; line < lines->to; line++) {
        struct TABLE_NAME(view) view =
            TABLE_NAME(begin)(table, table, pass, (uint64_t)(line / field_lines));
        const int64_t y = line % ny, z = line % field_lines / ny;
        for (int c = 0; c < table->outputs; c++) {
            REAL *out = (REAL *)pass->out[c] + line * n;
            for (int64_t x = 0; x < n; x++) {
                TABLE_NAME(move)(&view, x, y, z);
                out[x] = pass->impose ? TABLE_NAME(impose)(&view) : TABLE_NAME(evaluate)(&view, c);
            }
        }
    }
}
