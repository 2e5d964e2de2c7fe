#define THREADS (32u * WARPS)
#define TEAMS (THREADS / TEAM)
#define COLUMNS (TEAM * RUN)
#define PIECES (RUN / PACK)
typedef Pack<Stored, int(PACK)> Piece;

// Neighbours of a row of so many columns, zeros beyond.
FUNCTION Piece fetch(GLOBAL const Stored* row, u32 column, i64 step, u32 columns) {
#if DENSE
    if (column < columns) { return load_pack<int(PACK)>(row + column); }
#endif
    Piece piece;
    UNROLL
    for (u32 index = 0; index < PACK; ++index) {
        piece.values[index] = Stored(0);
#if !DENSE
        if (column + index < columns) { piece.values[index] = row[i64(column + index) * step]; }
#endif
    }
    return piece;
}

// The numbers of a thread's run.
FUNCTION void unpack(PRIVATE f32* to, PRIVATE const Piece* pieces) {
    UNROLL
    for (u32 index = 0; index < RUN; ++index) { to[index] = loaded(pieces[index / PACK].values[index % PACK]); }
}
