
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
