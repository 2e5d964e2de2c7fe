// Each thread sums a block of rows and columns, in runs that lie next to each other in the tiles.
#define BLOCK_ROWS (ROWS / SIDE)
#define BLOCK_COLUMNS (COLUMNS / SIDE)
#define ROW_FETCHES (ROWS * DEPTH / THREADS)
#define COLUMN_FETCHES (COLUMNS * DEPTH / THREADS)

struct alignas(sizeof(Number) * ROW_RUN) RowRun { Number numbers[ROW_RUN]; };
struct alignas(sizeof(Number) * COLUMN_RUN) ColumnRun { Number numbers[COLUMN_RUN]; };

// A thread fetches one element of a tile on each turn. The first is at FIRST_LINE and FIRST_DEPTH; on each turn
// it moves by a step either in lines, if neighbouring threads read along the inner dimension, or in depth.
#define FIRST_LINE(LINES, ALONG_K) (ALONG_K ? lane / DEPTH : lane % LINES)
#define FIRST_DEPTH(LINES, ALONG_K) (ALONG_K ? lane % DEPTH : lane / LINES)
#define LINE_STEP(LINES, ALONG_K) (ALONG_K ? THREADS / DEPTH : 0u)
#define DEPTH_STEP(LINES, ALONG_K) (ALONG_K ? 0u : THREADS / LINES)

// Fetches this thread's elements, the first of which is at `from`; what is beyond the matrix is zero.
template <u32 LINES, u32 ALONG_K>
FUNCTION void fetch(PRIVATE Number* fetched, GLOBAL const Stored* from, i64 step, u32 lines, i64 depths,
                    u32 line, u32 depth) {
    UNROLL
    for (u32 turn = 0; turn < LINES * DEPTH / THREADS; ++turn) {
        const bool inside = line + turn * LINE_STEP(LINES, ALONG_K) < lines &&
                            depth + turn * DEPTH_STEP(LINES, ALONG_K) < depths;
        fetched[turn] = Number(0);
        if (inside) { fetched[turn] = loaded(from[turn * step]); }
    }
}

// Puts them where the group finds them.
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
