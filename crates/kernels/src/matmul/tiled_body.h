    const i64 row_0 = i64(group_x / p.tiles_n) * ROWS;
    const i64 column_0 = i64(group_x % p.tiles_n) * COLUMNS;
    const u32 rows = p.m - row_0 < ROWS ? u32(p.m - row_0) : ROWS;
    const u32 columns = p.n - column_0 < COLUMNS ? u32(p.n - column_0) : COLUMNS;
    const u32 row_place = lane / SIDE, column_place = lane % SIDE;
    SHARED Number* const a_tile = (SHARED Number*)a_runs;
    SHARED Number* const b_tile = (SHARED Number*)b_runs;
    const u32 a_line = FIRST_LINE(ROWS, A_ALONG_K), a_depth = FIRST_DEPTH(ROWS, A_ALONG_K);
    const u32 b_line = FIRST_LINE(COLUMNS, B_ALONG_K), b_depth = FIRST_DEPTH(COLUMNS, B_ALONG_K);
    GLOBAL const Stored* a_from = a + a_at + (row_0 + a_line) * p.a_row + a_depth * p.a_column;
    GLOBAL const Stored* b_from = b + b_at + (column_0 + b_line) * p.b_column + b_depth * p.b_row;
    const i64 a_step = LINE_STEP(ROWS, A_ALONG_K) * p.a_row + DEPTH_STEP(ROWS, A_ALONG_K) * p.a_column;
    const i64 b_step = LINE_STEP(COLUMNS, B_ALONG_K) * p.b_column + DEPTH_STEP(COLUMNS, B_ALONG_K) * p.b_row;

    Number sums[BLOCK_ROWS * BLOCK_COLUMNS];
    UNROLL
    for (u32 index = 0; index < BLOCK_ROWS * BLOCK_COLUMNS; ++index) { sums[index] = Number(0); }

    // The next tile is fetched while this one is multiplied.
    Number a_next[ROW_FETCHES], b_next[COLUMN_FETCHES];
    fetch<ROWS, A_ALONG_K>(a_next, a_from, a_step, rows, p.k, a_line, a_depth);
    fetch<COLUMNS, B_ALONG_K>(b_next, b_from, b_step, columns, p.k, b_line, b_depth);
    for (i64 left = p.k; left > 0; left -= DEPTH) {
        put<ROWS, A_ALONG_K, ROW_PITCH>(a_tile, a_next, a_line, a_depth);
        put<COLUMNS, B_ALONG_K, COLUMN_PITCH>(b_tile, b_next, b_line, b_depth);
        BARRIER();
        a_from += DEPTH * p.a_column;
        b_from += DEPTH * p.b_row;
        fetch<ROWS, A_ALONG_K>(a_next, a_from, a_step, rows, left - DEPTH, a_line, a_depth);
        fetch<COLUMNS, B_ALONG_K>(b_next, b_from, b_step, columns, left - DEPTH, b_line, b_depth);
        UNROLL
        for (u32 depth = 0; depth < DEPTH; ++depth) {
            RowRun row_runs[BLOCK_ROWS / ROW_RUN];
            ColumnRun column_runs[BLOCK_COLUMNS / COLUMN_RUN];
            UNROLL
            for (u32 run = 0; run < BLOCK_ROWS / ROW_RUN; ++run) {
                row_runs[run] = a_runs[depth * (ROW_PITCH / ROW_RUN) + run * SIDE + row_place];
            }
            UNROLL
            for (u32 run = 0; run < BLOCK_COLUMNS / COLUMN_RUN; ++run) {
                column_runs[run] = b_runs[depth * (COLUMN_PITCH / COLUMN_RUN) + run * SIDE + column_place];
            }
            UNROLL
            for (u32 row = 0; row < BLOCK_ROWS; ++row) {
                UNROLL
                for (u32 column = 0; column < BLOCK_COLUMNS; ++column) {
                    sums[row * BLOCK_COLUMNS + column] +=
                        row_runs[row / ROW_RUN].numbers[row % ROW_RUN] *
                        column_runs[column / COLUMN_RUN].numbers[column % COLUMN_RUN];
                }
            }
        }
        BARRIER();
    }

    // All that is added is fetched before the first result is stored.
    UNROLL
    for (u32 row = 0; row < BLOCK_ROWS; ++row) {
        const u32 tile_row = block_line<ROW_RUN>(row_place, row);
        UNROLL
        for (u32 column = 0; column < BLOCK_COLUMNS; ++column) {
            const u32 tile_column = block_line<COLUMN_RUN>(column_place, column);
            Number added = Number(0);
            if (tile_row < rows && tile_column < columns) {
                added = BIAS(row_0 + tile_row, column_0 + tile_column);
            }
            sums[row * BLOCK_COLUMNS + column] = ALPHA * sums[row * BLOCK_COLUMNS + column] + added;
        }
    }
    UNROLL
    for (u32 row = 0; row < BLOCK_ROWS; ++row) {
        const u32 tile_row = block_line<ROW_RUN>(row_place, row);
        UNROLL
        for (u32 column = 0; column < BLOCK_COLUMNS; ++column) {
            const u32 tile_column = block_line<COLUMN_RUN>(column_place, column);
            if (tile_row < rows && tile_column < columns) {
                OUT(row_0 + tile_row, column_0 + tile_column) = finished(sums[row * BLOCK_COLUMNS + column]);
            }
        }
    }
