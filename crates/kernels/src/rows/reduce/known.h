// What a thread knows of each of its rows.
struct Known { One at[COLUMNS]; };
FUNCTION Known nothing_known() {
    Known known;
    UNROLL
    for (u32 column = 0; column < COLUMNS; ++column) known.at[column] = nothing();
    return known;
}
FUNCTION Known exchanged(Known known, u32 distance) {
    UNROLL
    for (u32 column = 0; column < COLUMNS; ++column)
        known.at[column] = exchanged(known.at[column], distance);
    return known;
}
struct Merge {
    FUNCTION Known combine(Known a, Known b) {
        UNROLL
        for (u32 column = 0; column < COLUMNS; ++column)
            a.at[column] = combined(a.at[column], b.at[column]);
        return a;
    }
};
