// Fetches the rows from `first` on, zeros where there is none.
template <u32 LENGTH>
FUNCTION void fetch(SHARED u16* tile, GLOBAL const u16* from, i64 row_step, i64 column_step, u32 first, u32 rows,
                    u32 columns, u32 lane) {
#if DENSE
    UNROLL
    for (u32 turn = 0; turn < KEYS * (LENGTH / 8) / THREADS + (KEYS * (LENGTH / 8) % THREADS != 0); ++turn) {
        const u32 index = turn * THREADS + lane;
        if (KEYS * (LENGTH / 8) % THREADS != 0 && index >= KEYS * (LENGTH / 8)) { break; }
        const u32 row = index / (LENGTH / 8), column = index % (LENGTH / 8) * 8;
        const bool inside = first + row < rows && column < columns;
        copy_async(tile + row * (LENGTH + 8) + column, from + (inside ? i64(first + row) * row_step + column : 0), inside);
    }
#else
    for (u32 index = lane; index < KEYS * LENGTH; index += THREADS) {
        const u32 row = index / LENGTH, column = index % LENGTH;
        const bool inside = first + row < rows && column < columns;
        tile[row * (LENGTH + 8) + column] = inside ? from[i64(first + row) * row_step + i64(column) * column_step] : u16(0);
    }
#endif
}
