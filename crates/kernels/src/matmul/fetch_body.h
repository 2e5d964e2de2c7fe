    const i64 row_0 = i64(group_x / p.tiles_n) * ROWS;
    const i64 column_0 = i64(group_x % p.tiles_n) * COLUMNS;
    const u32 rows = p.m - row_0 < ROWS ? u32(p.m - row_0) : ROWS;
    const u32 columns = p.n - column_0 < COLUMNS ? u32(p.n - column_0) : COLUMNS;
    const u32 a_line = FIRST_LINE(ROWS, A_ALONG_K), a_depth = FIRST_DEPTH(ROWS, A_ALONG_K);
    const u32 b_line = FIRST_LINE(COLUMNS, B_ALONG_K), b_depth = FIRST_DEPTH(COLUMNS, B_ALONG_K);
    GLOBAL const Stored* a_from = a + a_at + (row_0 + a_line) * p.a_row + a_depth * p.a_column;
    GLOBAL const Stored* b_from = b + b_at + (column_0 + b_line) * p.b_column + b_depth * p.b_row;
    const i64 a_step = LINE_STEP(ROWS, A_ALONG_K) * p.a_row + DEPTH_STEP(ROWS, A_ALONG_K) * p.a_column;
    const i64 b_step = LINE_STEP(COLUMNS, B_ALONG_K) * p.b_column + DEPTH_STEP(COLUMNS, B_ALONG_K) * p.b_row;

    // The next tile is fetched while this one is multiplied.
    Element a_next[ROW_FETCHES], b_next[COLUMN_FETCHES];
    fetch<ROWS, A_ALONG_K>(a_next, a_from, a_step, rows, p.k, a_line, a_depth);
    fetch<COLUMNS, B_ALONG_K>(b_next, b_from, b_step, columns, p.k, b_line, b_depth);
