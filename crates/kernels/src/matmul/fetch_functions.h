// Tiles of ROWS lines of `a` and COLUMNS lines of `b`, DEPTH elements of each, fetched by THREADS threads as `Element`s:
// what `element` makes of what is stored.
#define ROW_FETCHES (ROWS * DEPTH / THREADS)
#define COLUMN_FETCHES (COLUMNS * DEPTH / THREADS)

// A thread fetches one element of a tile on each turn. The first is at FIRST_LINE and FIRST_DEPTH; on each turn
// it moves by a step either in lines, if neighbouring threads read along the inner dimension, or in depth.
#define FIRST_LINE(LINES, ALONG_K) (ALONG_K ? lane / DEPTH : lane % LINES)
#define FIRST_DEPTH(LINES, ALONG_K) (ALONG_K ? lane % DEPTH : lane / LINES)
#define LINE_STEP(LINES, ALONG_K) (ALONG_K ? THREADS / DEPTH : 0u)
#define DEPTH_STEP(LINES, ALONG_K) (ALONG_K ? 0u : THREADS / LINES)

// Fetches this thread's elements, the first of which is at `from`; what is beyond the matrix is zero.
template <u32 LINES, u32 ALONG_K>
FUNCTION void fetch(PRIVATE Element* fetched, GLOBAL const Stored* from, i64 step, u32 lines, i64 depths,
                    u32 line, u32 depth) {
    UNROLL
    for (u32 turn = 0; turn < LINES * DEPTH / THREADS; ++turn) {
        const bool inside = line + turn * LINE_STEP(LINES, ALONG_K) < lines &&
                            depth + turn * DEPTH_STEP(LINES, ALONG_K) < depths;
        fetched[turn] = Element(0);
        if (inside) { fetched[turn] = element(from[turn * step]); }
    }
}
