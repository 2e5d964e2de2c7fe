    // A block on the diagonal, in shared memory; above the diagonal it is zero.
    const u32 size = u32(p.rows);
    for (u32 row = lane / 32; row < size; row += threads / 32) {
        for (u32 column = lane % 32; column <= row; column += 32) { block[row * size + column] = Y(row, column); }
    }
    for (u32 step = 0; step < size; ++step) {
        BARRIER();
        const Number root = m_sqrt(block[step * size + step]);
        BARRIER();
        for (u32 row = step + lane; row < size; row += threads) {
            block[row * size + step] = row == step ? root : block[row * size + step] / root;
        }
        BARRIER();
        for (u32 row = step + 1 + lane / 32; row < size; row += threads / 32) {
            const Number factor = block[row * size + step];
            for (u32 column = step + 1 + lane % 32; column <= row; column += 32) {
                block[row * size + column] -= factor * block[column * size + step];
            }
        }
    }
    BARRIER();
    for (u32 row = lane / 32; row < size; row += threads / 32) {
        for (u32 column = lane % 32; column < size; column += 32) {
            X(row, column) = column <= row ? block[row * size + column] : Number(0);
        }
    }
