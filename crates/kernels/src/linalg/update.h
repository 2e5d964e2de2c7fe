    // X -= Y Z, a tile for each group, a block of four by four in each thread.
    const i64 row_0 = i64(group_x) / p.tiles * TILE, column_0 = i64(group_x) % p.tiles * TILE;
    if (LOWER && column_0 >= row_0 + TILE) { return; }
    const u32 inner = u32(p.inner);
    for (u32 index = lane; index < TILE * SIDE; index += threads) {
        const u32 line = index / SIDE, depth = index % SIDE;
        const bool inside = row_0 + line < p.rows && depth < inner;
        left[depth * TILE + line] = inside ? Y(row_0 + line, depth) : Number(0);
    }
    for (u32 index = lane; index < TILE * SIDE; index += threads) {
        const u32 line = index % TILE, depth = index / TILE;
        const bool inside = column_0 + line < p.columns && depth < inner;
        right[depth * TILE + line] = inside ? Z(depth, column_0 + line) : Number(0);
    }
    BARRIER();
    const u32 row_place = lane / 16, column_place = lane % 16;
    Number sums[16];
    UNROLL
    for (u32 index = 0; index < 16; ++index) { sums[index] = Number(0); }
    for (u32 depth = 0; depth < inner; ++depth) {
        UNROLL
        for (u32 row = 0; row < 4; ++row) {
            const Number factor = left[depth * TILE + row * 16 + row_place];
            UNROLL
            for (u32 column = 0; column < 4; ++column) {
                sums[row * 4 + column] += factor * right[depth * TILE + column * 16 + column_place];
            }
        }
    }
    UNROLL
    for (u32 part = 0; part < 16; ++part) {
        const i64 row = row_0 + part / 4 * 16 + row_place, column = column_0 + part % 4 * 16 + column_place;
        if (row < p.rows && column < p.columns && (!LOWER || column <= row)) { X(row, column) -= sums[part]; }
    }
