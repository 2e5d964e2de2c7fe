    const u32 row_place = lane / SIDE, column_place = lane % SIDE;
    SHARED Number* const a_tile = (SHARED Number*)a_runs;
    SHARED Number* const b_tile = (SHARED Number*)b_runs;

    Number sums[BLOCK_ROWS * BLOCK_COLUMNS];
    UNROLL
    for (u32 index = 0; index < BLOCK_ROWS * BLOCK_COLUMNS; ++index) { sums[index] = Number(0); }

    for (i64 left = p.k; left > 0; left -= DEPTH) {
        put<ROWS, A_ALONG_K, ROW_PITCH>(a_tile, a_next, a_line, a_depth);
        put<COLUMNS, B_ALONG_K, COLUMN_PITCH>(b_tile, b_next, b_line, b_depth);
        BARRIER();
        a_from += DEPTH * p.a_column;
        b_from += DEPTH * p.b_row;
        fetch<ROWS, A_ALONG_K>(a_next, a_from, a_step, rows, left - DEPTH, a_line, a_depth);
        fetch<COLUMNS, B_ALONG_K>(b_next, b_from, b_step, columns, left - DEPTH, b_line, b_depth);
