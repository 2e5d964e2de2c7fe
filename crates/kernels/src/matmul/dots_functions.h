#define COUNT (ROWS * COLUMNS)
// From one load of a thread to its next.
#define STEP (PARTS * 32u * WIDTH)

// Loads TURNS vectors of each column and row, all before the first is used, and multiplies them.
template <bool WHOLE>
FUNCTION void multiply(PRIVATE f32* sums, GLOBAL const Stored* a, PRIVATE const u32* row_at,
                       GLOBAL const Stored* b, PRIVATE const i64* column_at, u32 at, u32 k) {
    Line weights[TURNS * COLUMNS], inputs[TURNS * ROWS];
    UNROLL
    for (u32 turn = 0; turn < TURNS; ++turn) {
        const u32 here = at + turn * STEP;
        const bool inside = WHOLE || here < k;
        UNROLL
        for (u32 column = 0; column < COLUMNS; ++column) {
            weights[turn * COLUMNS + column] = Line{};
            if (inside) {
                weights[turn * COLUMNS + column] = load_line(b + column_at[column] + here);
            }
        }
    }
    UNROLL
    for (u32 turn = 0; turn < TURNS; ++turn) {
        const u32 here = at + turn * STEP;
        const bool inside = WHOLE || here < k;
        UNROLL
        for (u32 row = 0; row < ROWS; ++row) {
            inputs[turn * ROWS + row] = Line{};
            if (inside) { inputs[turn * ROWS + row] = load_line(a + row_at[row] + here); }
        }
    }
    UNROLL
    for (u32 turn = 0; turn < TURNS; ++turn) {
        UNROLL
        for (u32 index = 0; index < WIDTH; ++index) {
            f32 y[COLUMNS];
            UNROLL
            for (u32 column = 0; column < COLUMNS; ++column) {
                y[column] = element(weights[turn * COLUMNS + column], index);
            }
            UNROLL
            for (u32 row = 0; row < ROWS; ++row) {
                const f32 x = element(inputs[turn * ROWS + row], index);
                UNROLL
                for (u32 column = 0; column < COLUMNS; ++column) {
                    sums[(row * COLUMNS + column) * CHAINS + index % CHAINS] += x * y[column];
                }
            }
        }
    }
}
