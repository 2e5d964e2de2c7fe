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

// The tile that is multiplied next has arrived.
#if STAGES == 2
#define COPIES_ARRIVE copies_arrive
#else
#define COPIES_ARRIVE all_but_one_arrive
#endif

#ifdef NATIVE_TILES
// Four matrices of 8 lines of four numbers; thread 8 i + j tells where line j of matrix i is.
FUNCTION void load_lines(f32* to, const f32* line, u32) {
    const u32 at = u32(__cvta_generic_to_shared(line));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(at) : "memory");
}
// The compiler cannot tell where it comes from, and keeps it instead of computing it again on each turn.
FUNCTION u32 kept(u32 value) {
    asm volatile("" : "+r"(value));
    return value;
}
// What is copied since the last call belongs together.
FUNCTION void end_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// All but the last of these have arrived.
FUNCTION void all_but_one_arrive() { asm volatile("cp.async.wait_group 1;" : : : "memory"); }
#else
FUNCTION void load_lines(f32* to, const f32* line, u32 place) {
    const u64 own = u64(line);
    for (u32 part = 0; part < 4; ++part) {
        to[part] = ((const f32*)shuffle(own, part * 8 + place / 4))[place % 4];
    }
}
FUNCTION u32 kept(u32 value) { return value; }
FUNCTION void end_copies() {}
FUNCTION void all_but_one_arrive() {}
#endif

// The plain sum of one row and column.
__attribute__((noinline)) static __device__ f32 plain_sum(const f32* row, const f32* column, i64 step, i64 length) {
    f32 sum = 0.0f;
#pragma unroll 1
    for (i64 k = 0; k < length; ++k) { sum += row[k] * column[k * step]; }
    return sum;
}
