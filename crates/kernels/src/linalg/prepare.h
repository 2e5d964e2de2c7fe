    // Each group writes ROWS rows, 32 threads along one.
    const i64 row_0 = i64(group_x) * ROWS;
#if PERMUTED
    // Where each row was before the exchanges: back from the last to the first.
    if (lane < ROWS) {
        i64 row = row_0 + lane;
        for (i64 step = p.inner - 1; step >= 0; --step) {
            const i64 other = Z(step, 0);
            if (other < 0 || other >= p.rows) { continue; }
            row = row == step ? other : row == other ? step : row;
        }
        sources[lane] = row;
    }
    BARRIER();
#endif
    for (u32 place = lane / 32; place < ROWS; place += threads / 32) {
        const i64 row = row_0 + place;
        if (row >= p.rows) { break; }
#if PERMUTED
        const i64 from = sources[place];
#else
        const i64 from = row;
#endif
        for (i64 column = lane % 32; column < p.columns; column += 32) { X(row, column) = CONTENT; }
    }
