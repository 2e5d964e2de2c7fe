#define COUNT (ROWS * WIDTH)
// Rows of `b` that a group reads at once.
#define STEP (WARPS * 32u / LINES)
// Threads of a warp that read the same columns.
#define SPREAD (32u / LINES)
// Columns of a group.
#define COLUMNS (LINES * WIDTH)
// Results of a group, and how many of them each thread finishes.
#define RESULTS (ROWS * COLUMNS)
#define FINISHES ((RESULTS + WARPS * 32u - 1u) / (WARPS * 32u))

// Loads parts of TURNS rows of `b`, all before the first is used, and adds them multiplied.
template <bool WHOLE>
FUNCTION void multiply(PRIVATE f32* sums, GLOBAL const Stored* a, PRIVATE const u32* row_at,
                       GLOBAL const Stored* b, i64 line, u32 at, u32 k) {
    Line weights[TURNS];
    Stored inputs[TURNS * ROWS];
    UNROLL
    for (u32 turn = 0; turn < TURNS; ++turn) {
        const u32 here = at + turn * STEP;
        weights[turn] = Line{};
        if (WHOLE || here < k) { weights[turn] = load_line(b + here * line); }
    }
    UNROLL
    for (u32 turn = 0; turn < TURNS; ++turn) {
        const u32 here = at + turn * STEP;
        UNROLL
        for (u32 row = 0; row < ROWS; ++row) {
            inputs[turn * ROWS + row] = Stored(0);
            if (WHOLE || here < k) { inputs[turn * ROWS + row] = a[row_at[row] + here]; }
        }
    }
    UNROLL
    for (u32 turn = 0; turn < TURNS; ++turn) {
        f32 y[WIDTH];
        UNROLL
        for (u32 index = 0; index < WIDTH; ++index) { y[index] = element(weights[turn], index); }
        UNROLL
        for (u32 row = 0; row < ROWS; ++row) {
            const f32 x = loaded(inputs[turn * ROWS + row]);
            UNROLL
            for (u32 index = 0; index < WIDTH; ++index) { sums[row * WIDTH + index] += x * y[index]; }
        }
    }
}
