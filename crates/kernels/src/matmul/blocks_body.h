    SHARED Factor* const a_tile = (SHARED Factor*)words;
    SHARED Factor* const b_tile = a_tile + LENGTH(ROWS, A_ALONG_K);
    const u32 part = lane / 32, place = lane % 32;
    const u32 part_row = part / 2 * PART_ROWS, part_column = part % 2 * PART_COLUMNS;

    simdgroup_matrix<f32, 8, 8> sums[MATRIX_ROWS * MATRIX_COLUMNS];
    UNROLL
    for (u32 index = 0; index < MATRIX_ROWS * MATRIX_COLUMNS; ++index) {
        sums[index] = make_filled_simdgroup_matrix<f32, 8, 8>(0.0f);
    }
    for (i64 left = p.k; left > 0; left -= DEPTH) {
        put<ROWS, A_ALONG_K>(a_tile, a_next, a_line, a_depth);
        put<COLUMNS, B_ALONG_K>(b_tile, b_next, b_line, b_depth);
        BARRIER();
        a_from += DEPTH * p.a_column;
        b_from += DEPTH * p.b_row;
        fetch<ROWS, A_ALONG_K>(a_next, a_from, a_step, rows, left - DEPTH, a_line, a_depth);
        fetch<COLUMNS, B_ALONG_K>(b_next, b_from, b_step, columns, left - DEPTH, b_line, b_depth);
        UNROLL
        for (u32 depth = 0; depth < DEPTH; depth += 8) {
            simdgroup_matrix<Factor, 8, 8> a_parts[MATRIX_ROWS], b_parts[MATRIX_COLUMNS];
            UNROLL
            for (u32 row = 0; row < MATRIX_ROWS; ++row) {
                const u32 from = tile_place<ROWS, A_ALONG_K>(part_row + row * 8, depth);
                simdgroup_load(a_parts[row], a_tile + from, PITCH(ROWS, A_ALONG_K), 0, !A_ALONG_K);
            }
            UNROLL
            for (u32 column = 0; column < MATRIX_COLUMNS; ++column) {
                const u32 from = tile_place<COLUMNS, B_ALONG_K>(part_column + column * 8, depth);
                simdgroup_load(b_parts[column], b_tile + from, PITCH(COLUMNS, B_ALONG_K), 0, B_ALONG_K);
            }
            UNROLL
            for (u32 row = 0; row < MATRIX_ROWS; ++row) {
                UNROLL
                for (u32 column = 0; column < MATRIX_COLUMNS; ++column) {
                    const u32 sum = row * MATRIX_COLUMNS + column;
                    simdgroup_multiply_accumulate(sums[sum], a_parts[row], b_parts[column], sums[sum]);
                }
            }
        }
        BARRIER();
    }

    // Nobody knows which thread holds which sum, so each simdgroup puts its own where its threads find them.
    SHARED f32* const strip = (SHARED f32*)words + part * (8 * STRIP_PITCH);
    const u32 first_row = place / PART_COLUMNS, own_column = place % PART_COLUMNS;
    const u32 tile_column = part_column + own_column;
    UNROLL
    for (u32 row = 0; row < MATRIX_ROWS; ++row) {
        UNROLL
        for (u32 column = 0; column < MATRIX_COLUMNS; ++column) {
            simdgroup_store(sums[row * MATRIX_COLUMNS + column], strip + column * 8, STRIP_PITCH);
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        // All that is added is fetched before the first result is stored.
        Number finishing[8 / ROWS_AT_ONCE];
        UNROLL
        for (u32 turn = 0; turn < 8 / ROWS_AT_ONCE; ++turn) {
            const u32 strip_row = first_row + turn * ROWS_AT_ONCE, tile_row = part_row + row * 8 + strip_row;
            Number added = Number(0);
            if (tile_row < rows && tile_column < columns) {
                added = BIAS(row_0 + tile_row, column_0 + tile_column);
            }
            finishing[turn] = ALPHA * strip[strip_row * STRIP_PITCH + own_column] + added;
        }
        UNROLL
        for (u32 turn = 0; turn < 8 / ROWS_AT_ONCE; ++turn) {
            const u32 tile_row = part_row + row * 8 + first_row + turn * ROWS_AT_ONCE;
            if (tile_row < rows && tile_column < columns) {
                OUT(row_0 + tile_row, column_0 + tile_column) = finished(finishing[turn]);
            }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
