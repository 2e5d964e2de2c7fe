// A tile of a factor has lines of elements in packs of eight. Packs change places within their line, so that what is
// read at once lies in different banks.
struct alignas(16) Words { u32 numbers[4]; };

#define A_ELEMENTS (ROWS * DEPTH)
#define B_ELEMENTS (COLUMNS * DEPTH)
// How far the share of each team of warps reaches in a tile.
#define SHARE (DEPTH / TEAMS)
// Packs in a line, lines that all threads copy at once, and packs that each thread copies.
#define A_LINE (DEPTH / 8u)
#define A_LINES (THREADS / A_LINE)
#define A_PACKS (ROWS / A_LINES)
#if B_ALONG_K
#define B_LINE (DEPTH / 8u)
#define B_PACKS (COLUMNS / B_LINES)
#else
#define B_LINE (COLUMNS / 8u)
#define B_PACKS (DEPTH / B_LINES)
#endif
#define B_LINES (THREADS / B_LINE)
// Neighbours of the same part of the terms; those of other parts are between them and the next ones.
#define PIECE 32u
// Warps along the columns.
#define WARPS_ACROSS (COLUMNS / 32u)
// Of a warp, 32 x 32: tiles of 16 rows, and of 8 columns.
#define ROW_TILES 2u
#define COLUMN_TILES 4u
#define SUMS (ROW_TILES * COLUMN_TILES * 4u)
#if BRAIN
#define MULTIPLY_TILES multiply_bf16
#else
#define MULTIPLY_TILES multiply_f16
#endif

FUNCTION u32 pack_place(u32 length, u32 line, u32 pack) {
    return (line * length + (pack ^ (length == 4 ? line / 2 % 4 : line % 8u))) * 8u;
}

#ifdef NATIVE_TILES
// Four matrices of 8 lines of eight elements; thread 8 i + j tells where line j of matrix i is.
FUNCTION void load_lines(u32* to, const u16* line, u32) {
    const u32 at = u32(__cvta_generic_to_shared(line));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
// The same, each of the four turned.
FUNCTION void load_turned_lines(u32* to, const u16* line, u32) {
    const u32 at = u32(__cvta_generic_to_shared(line));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
#else
FUNCTION void load_lines(u32* to, const u16* line, u32 place) {
    const u64 own = u64(line);
    for (u32 part = 0; part < 4; ++part) {
        const u16* const from = (const u16*)shuffle(own, part * 8 + place / 4) + place % 4 * 2;
        to[part] = u32(from[0]) | u32(from[1]) << 16;
    }
}
FUNCTION void load_turned_lines(u32* to, const u16* line, u32 place) {
    const u64 own = u64(line);
    for (u32 part = 0; part < 4; ++part) {
        const u16* const first = (const u16*)shuffle(own, part * 8 + place % 4 * 2);
        const u16* const second = (const u16*)shuffle(own, part * 8 + place % 4 * 2 + 1);
        to[part] = u32(first[place / 4]) | u32(second[place / 4]) << 16;
    }
}
#endif
