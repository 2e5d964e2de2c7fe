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
