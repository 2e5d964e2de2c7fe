    const u32 team = lane / TEAM_THREADS, team_place = lane % TEAM_THREADS;
    const i64 row_0 = i64(group_x / p.tiles_n) * ROWS, column_0 = i64(group_x % p.tiles_n) * COLUMNS;
    // Of each team: tiles of the first factor, what is left of one of them, and tiles of the second.
    Stored* const a_tiles = (Stored*)words + team * ((STAGES + 1) * A_NUMBERS + STAGES * B_NUMBERS);
    Stored* const a_rest = a_tiles + STAGES * A_NUMBERS;
    Stored* const b_tiles = a_rest + A_NUMBERS;
    const u32 k = u32(p.k);

    // Each thread copies some packs of each tile, as far apart as all threads of the team reach. Up to where they are
    // inside.
    const u32 line = team_place / LINE_PACKS, depth = team_place % LINE_PACKS * PACK;
    const u32 a_to = kept(along_place(line, depth));
    u32 next = team * DEPTH + depth;
#if WINDOWS
    // A line of the first factor is what one window sees. Where each begins, and the place in windows that is next.
    i32 a_at_pack[A_PACKS], a_y[A_PACKS], a_x[A_PACKS];
    UNROLL
    for (u32 pack = 0; pack < A_PACKS; ++pack) {
        const i64 row = row_0 + line + pack * LINES;
        const u32 image = u32(row) / p.windows, window = u32(row) % p.windows;
        // Beyond the last there is nothing inside.
        a_y[pack] = row < p.m ? i32(window / p.windows_x) * p.stride_y - p.before_y : i32(p.height);
        a_x[pack] = i32(window % p.windows_x) * p.stride_x - p.before_x;
        a_at_pack[pack] = row < p.m ? i32(image) * p.src_image + a_y[pack] * p.src_y + a_x[pack] * p.src_x : 0;
    }
    u32 channel = next % p.channels, tap_x = next / p.channels % p.kernel_x, tap_y = next / p.channels / p.kernel_x;
#else
    const Stored* a_from = a + a_at + (row_0 + line) * p.a_row + next;
    const i64 a_step = LINES * p.a_row;
    u32 a_end[A_PACKS];
    UNROLL
    for (u32 pack = 0; pack < A_PACKS; ++pack) { a_end[pack] = kept(row_0 + line + pack * LINES < p.m ? k : 0); }
#endif
    u32 b_end[B_PACKS];
#if B_ALONG_K
    const u32 b_to = a_to;
    const Stored* b_from = b + b_at + (column_0 + line) * p.b_column + next;
    const i64 b_step = LINES * p.b_column, b_turn = TEAMS * DEPTH;
    UNROLL
    for (u32 pack = 0; pack < B_PACKS; ++pack) { b_end[pack] = kept(column_0 + line + pack * LINES < p.n ? k : 0); }
#define B_NEXT next
#else
    const u32 b_depth = team_place / (COLUMNS / PACK), b_column = team_place % (COLUMNS / PACK) * PACK;
    const u32 b_to = kept(across_place(b_depth, b_column));
    u32 b_next = team * DEPTH + b_depth;
    const Stored* b_from = b + b_at + column_0 + b_column + b_next * p.b_row;
    const i64 b_step = B_LINES * p.b_row, b_turn = TEAMS * DEPTH * p.b_row;
    UNROLL
    for (u32 pack = 0; pack < B_PACKS; ++pack) {
        const u32 further = pack * B_LINES;
        b_end[pack] = kept(column_0 + b_column < p.n && k > further ? k - further : 0);
    }
#define B_NEXT b_next
#endif

    // Begins to copy the next tiles. Beyond the end there are only zeros.
    u32 filled = 0;
    const auto fetch = [&] {
#if WINDOWS
        const i32 down = i32(tap_y) * p.dilation_y, across = i32(tap_x) * p.dilation_x;
        const i32 further = down * p.src_y + across * p.src_x + i32(channel);
#endif
        UNROLL
        for (u32 pack = 0; pack < A_PACKS; ++pack) {
            Stored* const to = a_tiles + filled * A_NUMBERS + a_to + pack * PACK * TEAM_THREADS;
#if WINDOWS
            const bool inside = next < k && u32(a_y[pack] + down) < p.height && u32(a_x[pack] + across) < p.width;
            copy_async(to, a + a_at + (inside ? a_at_pack[pack] + further : 0), inside);
#else
            copy_async(to, a_from + pack * a_step, next < a_end[pack]);
#endif
        }
        UNROLL
        for (u32 pack = 0; pack < B_PACKS; ++pack) {
            copy_async(b_tiles + filled * B_NUMBERS + b_to + pack * B_FURTHER, b_from + pack * b_step,
                       B_NEXT < b_end[pack]);
        }
        end_copies();
#if WINDOWS
        for (channel += TEAMS * DEPTH; channel >= p.channels; channel -= p.channels) {
            tap_x = tap_x + 1 == p.kernel_x ? 0 : tap_x + 1;
            tap_y += tap_x == 0 ? 1 : 0;
        }
#else
        a_from += TEAMS * DEPTH;
#endif
        b_from += b_turn;
        next += TEAMS * DEPTH;
#if !B_ALONG_K
        b_next += TEAMS * DEPTH;
#endif
        filled = filled == STAGES - 1 ? 0 : filled + 1;
    };

