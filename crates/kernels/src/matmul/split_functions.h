// A tile of a factor has lines along the inner dimension, or across it, in packs of four numbers. Packs change places
// within their line, so that what is read at once lies in different banks.
struct alignas(16) Words { f32 numbers[4]; };

#define A_NUMBERS (ROWS * DEPTH)
#define B_NUMBERS (COLUMNS * DEPTH)
// Packs that each thread copies.
#define A_PACKS (A_NUMBERS / 4 / PART_THREADS)
#define B_PACKS (B_NUMBERS / 4 / PART_THREADS)
// Of a warp, 32 x 32: tiles of 16 rows, and of 8 columns.
#define ROW_TILES 2u
#define COLUMN_TILES 4u
#define SUMS (ROW_TILES * COLUMN_TILES * 4u)

// Where a number is in a tile of lines along the inner dimension, and in one of lines across it.
FUNCTION u32 along_place(u32 line, u32 depth) { return line * DEPTH + (depth / 4 ^ line / 2 % 4) * 4 + depth % 4; }
FUNCTION u32 across_place(u32 depth, u32 column) { return depth * COLUMNS + (column / 8 ^ depth % 4) * 8 + column % 8; }

// The plain sum of one row and column.
__attribute__((noinline)) static __device__ f32 plain_sum(const f32* row, const f32* column, i64 step, i64 length) {
    f32 sum = 0.0f;
#pragma unroll 1
    for (i64 k = 0; k < length; ++k) { sum += row[k] * column[k * step]; }
    return sum;
}
