// Each of four simdgroups sums a quarter of the tile, in matrices of 8 x 8.
#define PART_ROWS (ROWS / 2)
#define PART_COLUMNS (COLUMNS / 2)
#define MATRIX_ROWS (PART_ROWS / 8)
#define MATRIX_COLUMNS (PART_COLUMNS / 8)
// Eight rows of a quarter are finished at a time, and this many of them by a simdgroup at once.
#define STRIP_PITCH (PART_COLUMNS + STRIP_GAP)
#define ROWS_AT_ONCE (32 / PART_COLUMNS)

// A tile lies as it is fetched: in lines along the inner dimension, or across it.
#define PITCH(LINES, ALONG_K) ((ALONG_K ? DEPTH : LINES) + GAP)
#define LENGTH(LINES, ALONG_K) ((ALONG_K ? LINES : DEPTH) * PITCH(LINES, ALONG_K))
template <u32 LINES, u32 ALONG_K> FUNCTION u32 tile_place(u32 line, u32 depth) {
    return ALONG_K ? line * PITCH(LINES, ALONG_K) + depth : depth * PITCH(LINES, ALONG_K) + line;
}

// Puts what is fetched where the group finds it.
template <u32 LINES, u32 ALONG_K>
FUNCTION void put(SHARED Factor* tile, PRIVATE const Stored* fetched, u32 line, u32 depth) {
    UNROLL
    for (u32 turn = 0; turn < LINES * DEPTH / THREADS; ++turn) {
        const u32 to = tile_place<LINES, ALONG_K>(line + turn * LINE_STEP(LINES, ALONG_K),
                                                  depth + turn * DEPTH_STEP(LINES, ALONG_K));
        tile[to] = as_type<Factor>(fetched[turn]);
    }
}
