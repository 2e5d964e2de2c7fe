// 256 threads, 16 by 16: each has the scores of ROW_RUN neighbouring queries and COLUMNS keys, and sums of these
// queries' values.
#define THREADS 256u
#define SIDE 16u
#define ROW_RUN 4u
#define ROWS (SIDE * ROW_RUN)
#define COLUMNS (KEYS / SIDE)
// Unused numbers behind each line of a tile: lines begin in different banks.
#define GAP 4u
#define ROW_PITCH (ROWS + GAP)
#define KEY_PITCH (KEYS + GAP)
#define VALUE_BLOCKS (VALUE_WIDTH / (SIDE * VALUE_RUN))

struct alignas(sizeof(f32) * ROW_RUN) RowRun { f32 numbers[ROW_RUN]; };
struct alignas(sizeof(f32) * VALUE_RUN) ValueRun { f32 numbers[VALUE_RUN]; };

// Fetches a slice of rows, its elements from `depth` on, one line for each; zeros where there are none.
template <u32 LINES, u32 PITCH>
FUNCTION void fetch(SHARED f32* tile, GLOBAL const Stored* from, i64 row_step, i64 column_step, u32 first, u32 rows,
                    u32 depth, u32 columns, u32 lane) {
    UNROLL
    for (u32 turn = 0; turn < LINES * DEPTH / THREADS; ++turn) {
        const u32 line = turn * (THREADS / DEPTH) + lane / DEPTH, column = lane % DEPTH;
        const bool inside = first + line < rows && depth + column < columns;
        f32 number = 0.0f;
        if (inside) { number = loaded(from[i64(first + line) * row_step + i64(depth + column) * column_step]); }
        tile[column * PITCH + line] = number;
    }
}
