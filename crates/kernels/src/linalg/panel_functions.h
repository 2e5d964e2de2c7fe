// Factorises columns in place, and tells with which row each was exchanged; `first` is the number of the first.
template <typename P>
FUNCTION void factorise(P a, i64 row_step, i64 column_step, u32 rows, u32 columns, GLOBAL i32* pivots,
                        i64 pivot_step, u32 first, SHARED Number* sizes, SHARED u32* places, u32 lane, u32 threads) {
    const u32 steps = rows < columns ? rows : columns;
    for (u32 step = 0; step < steps; ++step) {
        // The largest of the column: the first of equals, and none with NaN unless it is the first.
        Number largest = Number(-1);
        u32 chosen = step;
        for (u32 row = step + lane; row < rows; row += threads) {
            const Number value = a[i64(row) * row_step + i64(step) * column_step];
            const Number size = value < Number(0) ? -value : value;
            if (size > largest) {
                largest = size;
                chosen = row;
            }
        }
        for (u32 distance = 16; distance > 0; distance /= 2) {
            const Number size = shuffle_xor(largest, distance);
            const u32 place = shuffle_xor(chosen, distance);
            const bool better = size > largest || (size == largest && place < chosen);
            largest = better ? size : largest;
            chosen = better ? place : chosen;
        }
        if (lane % 32 == 0) {
            sizes[lane / 32] = largest;
            places[lane / 32] = chosen;
        }
        BARRIER_ALL();
        largest = sizes[0];
        chosen = places[0];
        for (u32 part = 1; part < threads / 32; ++part) {
            const bool better = sizes[part] > largest || (sizes[part] == largest && places[part] < chosen);
            largest = better ? sizes[part] : largest;
            chosen = better ? places[part] : chosen;
        }
        if (lane == 0) { pivots[i64(step) * pivot_step] = i32(first + chosen); }
        if (chosen != step) {
            for (u32 column = lane; column < columns; column += threads) {
                const i64 at = i64(column) * column_step;
                const Number upper = a[i64(step) * row_step + at];
                a[i64(step) * row_step + at] = a[i64(chosen) * row_step + at];
                a[i64(chosen) * row_step + at] = upper;
            }
        }
        BARRIER_ALL();
        const Number pivot = a[i64(step) * row_step + i64(step) * column_step];
        // Of a column of zeros nothing is left to eliminate: the factors exist all the same.
        if (!(pivot == Number(0))) {
            for (u32 row = step + 1 + lane; row < rows; row += threads) {
                const i64 at = i64(row) * row_step + i64(step) * column_step;
                a[at] = a[at] / pivot;
            }
        }
        BARRIER_ALL();
        if (!(pivot == Number(0))) {
            for (u32 row = step + 1 + lane / 32; row < rows; row += threads / 32) {
                const Number factor = a[i64(row) * row_step + i64(step) * column_step];
                for (u32 column = step + 1 + lane % 32; column < columns; column += 32) {
                    const i64 at = i64(column) * column_step;
                    a[i64(row) * row_step + at] -= factor * a[i64(step) * row_step + at];
                }
            }
        }
        BARRIER_ALL();
    }
}
