    const u32 part = lane / PART_THREADS, part_place = lane % PART_THREADS;
    const u32 warp = part_place / 32, place = lane % 32;
    const i64 row_0 = i64(group_x / p.tiles_n) * ROWS, column_0 = i64(group_x % p.tiles_n) * COLUMNS;
    const u32 warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    f32* const numbers = (f32*)words;
    f32* const a_tiles = numbers + part * STAGES * A_NUMBERS;
    f32* const b_tiles = numbers + (PARTS * A_NUMBERS + part * B_NUMBERS) * STAGES;
    const u32 k = u32(p.k);

    // Each thread copies some packs of each tile, as far apart as all threads of the part reach. Up to where they are
    // inside.
    const u32 line = part_place / 4, depth = part_place % 4 * 4;
    const u32 a_to = kept(along_place(line, depth));
    u32 next = part * DEPTH + depth;
    const f32* a_from = a + a_at + (row_0 + line) * p.a_row + next;
    const i64 a_step = PART_THREADS / 4 * p.a_row;
    u32 a_end[A_PACKS], b_end[B_PACKS];
    UNROLL
    for (u32 pack = 0; pack < A_PACKS; ++pack) {
        a_end[pack] = kept(row_0 + line + pack * (PART_THREADS / 4) < p.m ? k : 0);
    }
#if B_ALONG_K
    const u32 b_to = a_to;
    const f32* b_from = b + b_at + (column_0 + line) * p.b_column + next;
    const i64 b_step = PART_THREADS / 4 * p.b_column, b_turn = PARTS * DEPTH;
    UNROLL
    for (u32 pack = 0; pack < B_PACKS; ++pack) {
        b_end[pack] = kept(column_0 + line + pack * (PART_THREADS / 4) < p.n ? k : 0);
    }
#define B_NEXT next
#else
    const u32 b_depth = part_place / 16, b_column = part_place % 16 * 4;
    const u32 b_to = kept(across_place(b_depth, b_column));
    u32 b_next = part * DEPTH + b_depth;
    const f32* b_from = b + b_at + column_0 + b_column + b_next * p.b_row;
    const i64 b_step = PART_THREADS / 16 * p.b_row, b_turn = PARTS * DEPTH * p.b_row;
    UNROLL
    for (u32 pack = 0; pack < B_PACKS; ++pack) {
        const u32 further = pack * (PART_THREADS / 16);
        b_end[pack] = kept(column_0 + b_column < p.n && k > further ? k - further : 0);
    }
#define B_NEXT b_next
#endif

    // What each thread reads of tiles.
    u32 a_lines[2];
    UNROLL
    for (u32 step = 0; step < 2; ++step) {
        a_lines[step] = kept(along_place(warp_row + place % 16, step * 8 + place / 16 * 4));
    }
#if B_ALONG_K
    u32 b_lines[2];
    UNROLL
    for (u32 step = 0; step < 2; ++step) {
        b_lines[step] = kept(along_place(warp_column + place / 16 * 8 + place % 8, step * 8 + place / 8 % 2 * 4));
    }
#else
    u32 b_columns[COLUMN_TILES];
    UNROLL
    for (u32 tile = 0; tile < COLUMN_TILES; ++tile) {
        b_columns[tile] = kept(across_place(place % 4, warp_column + tile * 8 + place / 4));
    }
#endif

    f32 sums[SUMS];
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { sums[index] = 0.0f; }

    // All tiles but one are under way while that is multiplied. Beyond the end there are only zeros.
    u32 filled = 0, read = 0;
    const u32 turns = (k + PARTS * DEPTH - 1) / (PARTS * DEPTH);
    for (u32 turn = 0; turn < turns + STAGES - 1; ++turn) {
        if (turn >= STAGES - 1) {
            all_but_arrive<STAGES - 2>();
            BARRIER();
        }
        UNROLL
        for (u32 pack = 0; pack < A_PACKS; ++pack) {
            copy_async(a_tiles + filled * A_NUMBERS + a_to + pack * 4 * PART_THREADS, a_from + pack * a_step,
                         next < a_end[pack]);
        }
        UNROLL
        for (u32 pack = 0; pack < B_PACKS; ++pack) {
            copy_async(b_tiles + filled * B_NUMBERS + b_to + pack * 4 * PART_THREADS, b_from + pack * b_step,
                         B_NEXT < b_end[pack]);
        }
        end_copies();
        a_from += PARTS * DEPTH;
        b_from += b_turn;
        next += PARTS * DEPTH;
#if !B_ALONG_K
        b_next += PARTS * DEPTH;
#endif
        filled = filled == STAGES - 1 ? 0 : filled + 1;
        if (turn < STAGES - 1) { continue; }

        const f32* const a_tile = a_tiles + read * A_NUMBERS;
        const f32* const b_tile = b_tiles + read * B_NUMBERS;
        read = read == STAGES - 1 ? 0 : read + 1;
        f32 some[SUMS];
        UNROLL
        for (u32 index = 0; index < SUMS; ++index) { some[index] = 0.0f; }
        UNROLL
        for (u32 step = 0; step < 2; ++step) {
            u32 a_high[ROW_TILES * 4], a_low[ROW_TILES * 4], b_high[COLUMN_TILES * 2], b_low[COLUMN_TILES * 2];
            UNROLL
            for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                f32 loaded[4];
                load_lines(loaded, a_tile + a_lines[step] + tile * 16 * DEPTH, place);
                split<4>(a_high + tile * 4, a_low + tile * 4, loaded);
            }
            UNROLL
            for (u32 pair = 0; pair < COLUMN_TILES / 2; ++pair) {
                f32 loaded[4];
#if B_ALONG_K
                load_lines(loaded, b_tile + b_lines[step] + pair * 16 * DEPTH, place);
#else
                UNROLL
                for (u32 index = 0; index < 4; ++index) {
                    const f32* const column = b_tile + b_columns[pair * 2 + index / 2];
                    loaded[index] = column[(step * 8 + index % 2 * 4) * COLUMNS];
                }
#endif
                split<4>(b_high + pair * 4, b_low + pair * 4, loaded);
            }
            // The small products first: cut sums of large ones would lose them.
            UNROLL
            for (u32 term = 0; term < 3; ++term) {
                UNROLL
                for (u32 row = 0; row < ROW_TILES; ++row) {
                    UNROLL
                    for (u32 column = 0; column < COLUMN_TILES; ++column) {
                        multiply(some + (row * COLUMN_TILES + column) * 4, (term == 0 ? a_low : a_high) + row * 4,
                                 (term == 1 ? b_low : b_high) + column * 2, place);
                    }
                }
            }
        }
        UNROLL
        for (u32 index = 0; index < SUMS; ++index) { sums[index] += some[index]; }
    }

    // Each part finishes its share of the sums, with those of all parts.
    copies_arrive();
    BARRIER();
    f32* const all = numbers + part_place;
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { all[(part * SUMS + index) * PART_THREADS] = sums[index]; }
    BARRIER();
    UNROLL
    for (u32 turn = 0; turn < SUMS / PARTS; ++turn) {
        const u32 index = part * (SUMS / PARTS) + turn;
        const i64 r = row_0 + warp_row + index / 16 * 16 + index % 4 / 2 * 8 + place / 4;
        const i64 c = column_0 + warp_column + index / 4 % 4 * 8 + place % 4 * 2 + index % 2;
        f32 sum = 0.0f;
        UNROLL
        for (u32 other = 0; other < PARTS; ++other) { sum += all[(other * SUMS + index) * PART_THREADS]; }
        if (r < p.m && c < p.n) {
            if (!(sum - sum == 0.0f)) {
                sum = plain_sum(a + a_at + r * p.a_row, b + b_at + c * p.b_column, p.b_row, p.k);
            }
            OUT(r, c) = finished(ALPHA * sum + BIAS(r, c));
        }
    }
