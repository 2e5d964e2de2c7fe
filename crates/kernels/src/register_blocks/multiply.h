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
