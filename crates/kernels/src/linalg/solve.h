    // Each thread solves for a column of X, the rows from p.first on; the triangle is Y.
    const u32 size = u32(p.inner);
    for (u32 index = lane; index < SIDE * SIDE; index += threads) {
        const u32 row = index / SIDE, column = index % SIDE;
        const bool inside = row < size && column < size && (UPPER ? column >= row : column <= row);
        triangle[index] = inside && !(UNIT && row == column) ? Y(row, column) : Number(row == column ? 1 : 0);
    }
    BARRIER();
    const i64 number = i64(group_x) * threads + lane;
    if (number >= p.columns) { return; }
    // The columns of the panel itself are left out.
    const i64 column = number < p.left ? number : number + p.skipped;
#if EXCHANGE
    for (u32 step = 0; step < size; ++step) {
        const i64 row = p.first + step, other = Z(step, 0);
        if (other == row) { continue; }
        const Number upper = X(row, column);
        X(row, column) = X(other, column);
        X(other, column) = upper;
    }
    if (number < p.left) { return; }
#endif
    Number values[SIDE];
    UNROLL
    for (u32 row = 0; row < SIDE; ++row) {
        values[row] = Number(0);
        if (row < size) { values[row] = X(p.first + row, column); }
    }
    UNROLL
    for (u32 step = 0; step < SIDE; ++step) {
        const u32 row = UPPER ? SIDE - 1 - step : step;
        Number value = values[row];
        UNROLL
        for (u32 known = 0; known < SIDE; ++known) {
            if (UPPER ? known > row : known < row) { value -= triangle[row * SIDE + known] * values[known]; }
        }
        values[row] = UNIT ? value : value / triangle[row * SIDE + row];
    }
    UNROLL
    for (u32 row = 0; row < SIDE; ++row) {
        if (row < size) { X(p.first + row, column) = values[row]; }
    }
