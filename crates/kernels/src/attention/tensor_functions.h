#define WARPS 4u
#define THREADS (32u * WARPS)
#define WARP_ROWS (16u * ROW_TILES)
#define ROWS (WARPS * WARP_ROWS)
// Rows of a tile begin in different banks.
#define KEY_PITCH (WIDTH + 8u)
#define VALUE_PITCH (VALUE_WIDTH + 8u)
#if BRAIN
#define MULTIPLY_TILES multiply_bf16
#define PAIR pair_bf16
#else
#define MULTIPLY_TILES multiply_f16
#define PAIR pair_f16
#endif

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

// Two neighbours of a row.
FUNCTION u32 fetch_pair(GLOBAL const u16* row, u32 column, i64 step, u32 columns) {
#if DENSE
    return column < columns ? *(GLOBAL const u32*)(row + column) : 0u;
#else
    const u32 first = column < columns ? row[i64(column) * step] : 0u;
    const u32 second = column + 1 < columns ? row[i64(column + 1) * step] : 0u;
    return first | second << 16;
#endif
}
