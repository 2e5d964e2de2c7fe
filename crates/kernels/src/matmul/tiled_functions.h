// Puts what is fetched where the group finds them.
template <u32 LINES, u32 ALONG_K, u32 PITCH>
FUNCTION void put(SHARED Number* tile, PRIVATE const Number* fetched, u32 line, u32 depth) {
    UNROLL
    for (u32 turn = 0; turn < LINES * DEPTH / THREADS; ++turn) {
        tile[(depth + turn * DEPTH_STEP(LINES, ALONG_K)) * PITCH + line +
             turn * LINE_STEP(LINES, ALONG_K)] = fetched[turn];
    }
}
