    // A whole matrix, in shared memory.
    const u32 rows = u32(p.rows), columns = u32(p.columns);
    for (u32 row = lane / 32; row < rows; row += threads / 32) {
        for (u32 column = lane % 32; column < columns; column += 32) { block[row * columns + column] = Y(row, column); }
    }
    BARRIER();
    factorise(block, i64(columns), i64(1), rows, columns, z + z_at, p.z_row, 0u, sizes, places, lane, threads);
    for (u32 row = lane / 32; row < rows; row += threads / 32) {
        for (u32 column = lane % 32; column < columns; column += 32) { X(row, column) = block[row * columns + column]; }
    }
