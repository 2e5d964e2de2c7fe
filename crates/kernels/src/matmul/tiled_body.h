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
