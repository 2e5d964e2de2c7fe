// Each thread sums a block of rows and columns, in runs that lie next to each other in the tiles.
#define BLOCK_ROWS (ROWS / SIDE)
#define BLOCK_COLUMNS (COLUMNS / SIDE)

struct alignas(sizeof(Number) * ROW_RUN) RowRun { Number numbers[ROW_RUN]; };
struct alignas(sizeof(Number) * COLUMN_RUN) ColumnRun { Number numbers[COLUMN_RUN]; };

// Puts what is fetched where the group finds them.
template <u32 LINES, u32 ALONG_K, u32 PITCH>
FUNCTION void put(SHARED Number* tile, PRIVATE const Number* fetched, u32 line, u32 depth) {
    UNROLL
    for (u32 turn = 0; turn < LINES * DEPTH / THREADS; ++turn) {
        tile[(depth + turn * DEPTH_STEP(LINES, ALONG_K)) * PITCH + line +
             turn * LINE_STEP(LINES, ALONG_K)] = fetched[turn];
    }
}

// Where the numbers of this thread's block begin, of all lines of a tile.
template <u32 RUN> FUNCTION u32 block_line(u32 place, u32 index) {
    return index / RUN * (SIDE * RUN) + place * RUN + index % RUN;
}
