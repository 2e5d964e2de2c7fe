    const u32 warp = lane / 32, place = lane % 32;
    const i64 row_0 = i64(group_x / p.tiles_n) * ROWS, column_0 = i64(group_x % p.tiles_n) * COLUMNS;
    const u32 team = warp % TEAMS;
    const u32 warp_row = warp / TEAMS / WARPS_ACROSS * 32, warp_column = warp / TEAMS % WARPS_ACROSS * 32;
    u16* const a_tiles = (u16*)words;
    u16* const b_tiles = a_tiles + STAGES * A_ELEMENTS;
    const u32 k = u32(p.k);
#if TEAMS < PARTS
    // One part follows the other, so a tile has two pieces, each of the part that is next.
    const u32 pieces = (k + PARTS * PIECE - 1) / (PARTS * PIECE);
    const u32 turns = (pieces * PARTS + 1) / 2;
    u32 piece = 0, part = 0, begins[2];
// The term of a line of the tile that is fetched, and how far past the pointer it lies.
#define TERM(line) (((line) < PIECE ? begins[0] : begins[1]) + (line) % PIECE)
#define PLACE(line) TERM(line)
#else
    const u32 turns = (k + DEPTH - 1) / DEPTH;
    u32 fetched = 0;
#define TERM(line) (fetched + (line))
#define PLACE(line) (line)
#endif

    // Each thread copies a pack of some lines of each tile, a fixed number apart, and up to where they are inside.
    const u32 a_line = lane / A_LINE, a_pack = lane % A_LINE;
    const u16* a_from = a + a_at + (row_0 + a_line) * p.a_row;
    const i64 a_step = A_LINES * p.a_row;
    const u32 b_line = lane / B_LINE, b_pack = lane % B_LINE;
#if B_ALONG_K
    const u16* b_from = b + b_at + (column_0 + b_line) * p.b_column;
    const i64 b_turn = DEPTH;
#define B_AT(turn) (i64((turn) * B_LINES) * p.b_column + PLACE(b_pack * 8))
#define B_INSIDE(turn) (column_0 + b_line + (turn) * B_LINES < p.n && TERM(b_pack * 8) < k)
#else
    const u16* b_from = b + b_at + column_0 + b_pack * 8;
    const i64 b_turn = DEPTH * p.b_row;
#define B_AT(turn) (i64(PLACE(b_line + (turn) * B_LINES)) * p.b_row)
#define B_INSIDE(turn) (column_0 + b_pack * 8 < p.n && TERM(b_line + (turn) * B_LINES) < k)
#endif

    f32 sums[SUMS];
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { sums[index] = 0.0f; }
#if TEAMS < PARTS
    u32 summed = 0;
    f32 totals[SUMS];
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { totals[index] = -0.0f; }
#endif

    // All tiles but one are under way while that is multiplied. Beyond the end there are only zeros.
    u32 filled = 0, read = 0;
    for (u32 turn = 0; turn < turns + STAGES - 1; ++turn) {
        if (turn >= STAGES - 1) {
            all_but_arrive<STAGES - 2>();
            BARRIER();
        }
#if TEAMS < PARTS
        UNROLL
        for (u32 half = 0; half < 2; ++half) {
            begins[half] = part < PARTS ? (piece * PARTS + part) * PIECE : k;
            if (++piece == pieces) {
                piece = 0;
                ++part;
            }
        }
#endif
        UNROLL
        for (u32 pack = 0; pack < A_PACKS; ++pack) {
            copy_async(a_tiles + filled * A_ELEMENTS + pack_place(A_LINE, a_line + pack * A_LINES, a_pack),
                       a_from + pack * a_step + PLACE(a_pack * 8),
                       row_0 + a_line + pack * A_LINES < p.m && TERM(a_pack * 8) < k);
        }
        UNROLL
        for (u32 pack = 0; pack < B_PACKS; ++pack) {
            copy_async(b_tiles + filled * B_ELEMENTS + pack_place(B_LINE, b_line + pack * B_LINES, b_pack),
                       b_from + B_AT(pack), B_INSIDE(pack));
        }
        end_copies();
#if TEAMS == PARTS
        a_from += DEPTH;
        b_from += b_turn;
        fetched += DEPTH;
#endif
        filled = filled == STAGES - 1 ? 0 : filled + 1;
        if (turn < STAGES - 1) { continue; }

        const u16* const a_tile = a_tiles + read * A_ELEMENTS;
        const u16* const b_tile = b_tiles + read * B_ELEMENTS;
        read = read == STAGES - 1 ? 0 : read + 1;
        UNROLL
        for (u32 own = 0; own < SHARE / 16; ++own) {
            const u32 step = team * (SHARE / 16) + own;
            u32 left[ROW_TILES * 4], right[COLUMN_TILES * 2];
            UNROLL
            for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                load_lines(left + tile * 4,
                           a_tile + pack_place(A_LINE, warp_row + tile * 16 + place % 16, step * 2 + place / 16), place);
            }
            UNROLL
            for (u32 pair = 0; pair < COLUMN_TILES / 2; ++pair) {
                u32 loaded[4];
#if B_ALONG_K
                // The second matrix is of the next eight columns: it changes places with the third.
                load_lines(loaded, b_tile + pack_place(B_LINE, warp_column + pair * 16 + place / 16 * 8 + place % 8,
                                                       step * 2 + place / 8 % 2), place);
#else
                load_turned_lines(loaded, b_tile + pack_place(B_LINE, step * 16 + place % 16,
                                                              warp_column / 8 + pair * 2 + place / 16), place);
#endif
                UNROLL
                for (u32 index = 0; index < 4; ++index) { right[pair * 4 + index] = loaded[index]; }
            }
            UNROLL
            for (u32 row = 0; row < ROW_TILES; ++row) {
                UNROLL
                for (u32 column = 0; column < COLUMN_TILES; ++column) {
                    MULTIPLY_TILES(sums + (row * COLUMN_TILES + column) * 4, left + row * 4, right[column * 2],
                                   right[column * 2 + 1], place);
                }
            }
#if TEAMS < PARTS
            if (own % (PIECE / 16) == PIECE / 16 - 1 && ++summed % pieces == 0) {
                UNROLL
                for (u32 index = 0; index < SUMS; ++index) {
                    totals[index] += sums[index];
                    sums[index] = 0.0f;
                }
            }
#endif
        }
    }

#if TEAMS > 1
    // Each team finishes its share of the results, with the sums of the others.
    copies_arrive();
    BARRIER();
    f32* const all = (f32*)words + warp / TEAMS * (32 * TEAMS * SUMS) + place;
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { all[(team * SUMS + index) * 32] = sums[index]; }
    BARRIER();
#endif
    UNROLL
    for (u32 pair = 0; pair < SUMS / TEAMS / 2; ++pair) {
        const u32 index = team * (SUMS / TEAMS) + pair * 2;
        const i64 r = row_0 + warp_row + index / 16 * 16 + index % 4 / 2 * 8 + place / 4;
        const i64 c = column_0 + warp_column + index / 4 % 4 * 8 + place % 4 * 2;
#if TEAMS > 1
        f32 x = all[index * 32], y = all[(index + 1) * 32];
        UNROLL
        for (u32 other = 1; other < TEAMS; ++other) {
            x += all[(other * SUMS + index) * 32];
            y += all[(other * SUMS + index + 1) * 32];
        }
#elif TEAMS < PARTS
        const f32 x = totals[index], y = totals[index + 1];
#else
        const f32 x = sums[index], y = sums[index + 1];
#endif
