#define THREADS (32u * WARPS)
#define TEAMS (THREADS / TEAM)
#define COLUMNS (TEAM * RUN)
#if SHORT
FUNCTION u32 bits(Stored element) { return element; }
FUNCTION f32 number_in(u32 word) { return loaded(u16(word)); }
#else
FUNCTION u32 bits(Stored element) { return f32_bits(element); }
FUNCTION f32 number_in(u32 word) { return bits_f32(word); }
#endif
// Elements are read four words at a time, of one element each or of two.
#define PER_WORD (u32(sizeof(u32) / sizeof(Stored)))
#define PACK (4u * PER_WORD)
#define PIECES (RUN / PACK)
typedef Pack<u32, 4> Piece;

// Neighbours of a row of so many columns, zeros beyond.
FUNCTION Piece fetch(GLOBAL const Stored* row, u32 column, i64 step, u32 columns) {
    Piece piece;
    UNROLL
    for (u32 index = 0; index < 4; ++index) { piece.values[index] = 0; }
#if DENSE
    if (column < columns) { piece = load_pack<4>((GLOBAL const u32*)(row + column)); }
#else
    UNROLL
    for (u32 index = 0; index < PACK; ++index) {
        if (column + index < columns) {
            piece.values[index / PER_WORD] |= bits(row[i64(column + index) * step]) << index % PER_WORD * 16;
        }
    }
#endif
    return piece;
}

// The numbers of a thread's run.
FUNCTION void unpack(PRIVATE f32* to, PRIVATE const Piece* pieces) {
    UNROLL
    for (u32 index = 0; index < RUN; ++index) {
        const u32 word = pieces[index / PACK].values[index % PACK / PER_WORD];
        to[index] = number_in(word >> index % PER_WORD * 16);
    }
}
