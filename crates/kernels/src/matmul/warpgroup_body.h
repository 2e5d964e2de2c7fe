    const u32 part = lane / PART_THREADS, part_place = lane % PART_THREADS;
    const u32 warp = part_place / 32, place = lane % 32;
    const i64 row_0 = i64(group_x / p.tiles_n) * ROWS, column_0 = i64(group_x % p.tiles_n) * COLUMNS;
    // Of each part: tiles of the first factor, what is left of the one that is multiplied, and tiles of the second.
    f32* const a_tiles = (f32*)words + part * ((STAGES + 1) * A_NUMBERS + STAGES * B_NUMBERS);
    f32* const a_rest = a_tiles + STAGES * A_NUMBERS;
    f32* const b_tiles = a_rest + A_NUMBERS;
    const u32 k = u32(p.k);

    // Each thread copies some packs of each tile, as far apart as all threads of the part reach. Up to where they are
    // inside.
    const u32 line = part_place / LINE_PACKS, depth = part_place % LINE_PACKS * 4;
    const u32 a_to = kept(along_place(line, depth));
    u32 next = part * DEPTH + depth;
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
    const f32* a_from = a + a_at + (row_0 + line) * p.a_row + next;
    const i64 a_step = LINES * p.a_row;
    u32 a_end[A_PACKS];
    UNROLL
    for (u32 pack = 0; pack < A_PACKS; ++pack) { a_end[pack] = kept(row_0 + line + pack * LINES < p.m ? k : 0); }
#endif
    u32 b_end[B_PACKS];
#if B_ALONG_K
    const u32 b_to = a_to;
    const f32* b_from = b + b_at + (column_0 + line) * p.b_column + next;
    const i64 b_step = LINES * p.b_column, b_turn = PARTS * DEPTH;
    UNROLL
    for (u32 pack = 0; pack < B_PACKS; ++pack) { b_end[pack] = kept(column_0 + line + pack * LINES < p.n ? k : 0); }
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

    // What each thread reads of the second factor's tiles.
#if B_ALONG_K
    u32 b_lines[STEPS];
    UNROLL
    for (u32 step = 0; step < STEPS; ++step) {
        b_lines[step] = kept(along_place(warp * 16 + place % 16, step * 8 + place / 16 * 4));
    }
#else
    u32 b_columns[2];
    UNROLL
    for (u32 half = 0; half < 2; ++half) {
        b_columns[half] = kept(across_place(place % 4, warp * 16 + half * 8 + place / 4));
    }
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
            f32* const to = a_tiles + filled * A_NUMBERS + a_to + pack * 4 * PART_THREADS;
#if WINDOWS
            const bool inside = next < k && u32(a_y[pack] + down) < p.height && u32(a_x[pack] + across) < p.width;
            copy_async(to, a + a_at + (inside ? a_at_pack[pack] + further : 0), inside);
#else
            copy_async(to, a_from + pack * a_step, next < a_end[pack]);
#endif
        }
        UNROLL
        for (u32 pack = 0; pack < B_PACKS; ++pack) {
            copy_async(b_tiles + filled * B_NUMBERS + b_to + pack * 4 * PART_THREADS, b_from + pack * b_step,
                       B_NEXT < b_end[pack]);
        }
        end_copies();
#if WINDOWS
        for (channel += PARTS * DEPTH; channel >= p.channels; channel -= p.channels) {
            tap_x = tap_x + 1 == p.kernel_x ? 0 : tap_x + 1;
            tap_y += tap_x == 0 ? 1 : 0;
        }
#else
        a_from += PARTS * DEPTH;
#endif
        b_from += b_turn;
        next += PARTS * DEPTH;
#if !B_ALONG_K
        b_next += PARTS * DEPTH;
#endif
        filled = filled == STAGES - 1 ? 0 : filled + 1;
    };

    f32 sums[SUMS];
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { sums[index] = 0.0f; }
    for (u32 stage = 0; stage < STAGES - 1; ++stage) { fetch(); }
    u32 read = 0;
    const u32 turns = (k + PARTS * DEPTH - 1) / (PARTS * DEPTH);
    for (u32 turn = 0; turn < turns; ++turn) {
        const f32* const a_tile = a_tiles + read * A_NUMBERS;
        const f32* const b_tile = b_tiles + read * B_NUMBERS;
        read = read == STAGES - 1 ? 0 : read + 1;

        // Tensor cores cut off what they do not take of the first factor. The rest is another tile. Each thread makes it
        // of what it has copied itself.
        all_but_arrive<STAGES - 2>();
        UNROLL
        for (u32 pack = 0; pack < A_PACKS; ++pack) {
            const u32 at = a_to + pack * 4 * PART_THREADS;
            Words own = *(const Words*)(a_tile + at);
            UNROLL
            for (u32 index = 0; index < 4; ++index) { own.numbers[index] = rest_of(own.numbers[index]); }
            *(Words*)(a_rest + at) = own;
        }
        part_arrives(part);
        u32 high[STEPS * 4], low[STEPS * 4];
        UNROLL
        for (u32 step = 0; step < STEPS; ++step) {
            f32 loaded[4];
#if B_ALONG_K
            load_lines(loaded, b_tile + b_lines[step], place);
#else
            UNROLL
            for (u32 index = 0; index < 4; ++index) {
                loaded[index] = b_tile[b_columns[index % 2] + (step * 8 + index / 2 * 4) * COLUMNS];
            }
#endif
            UNROLL
            for (u32 index = 0; index < 4; ++index) {
                halve(high + step * 4 + index, low + step * 4 + index, loaded[index]);
            }
        }

        // The small products first: cut sums of large ones would lose them.
        f32 some[SUMS];
        const Tile whole = tile_at(a_tile), rest = tile_at(a_rest);
        begin_products();
        UNROLL
        for (u32 step = 0; step < STEPS; ++step) {
            multiply(some, low + step * 4, at_step(whole, step), step > 0, place);
            multiply(some, high + step * 4, at_step(rest, step), true, place);
        }
        UNROLL
        for (u32 step = 0; step < STEPS; ++step) {
            multiply(some, high + step * 4, at_step(whole, step), true, place);
        }
        go();
        fetch();
        end_products(some);
        UNROLL
        for (u32 index = 0; index < SUMS; ++index) { sums[index] += some[index]; }
        // The rest is read to its end.
        part_arrives(part);
    }

    // Each part finishes its share of the sums, with those of all parts.
    copies_arrive();
    BARRIER();
    f32* const all = (f32*)words + part_place;
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { all[(part * SUMS + index) * PART_THREADS] = sums[index]; }
    BARRIER();
#pragma unroll 4
    for (u32 turn = 0; turn < SUMS / PARTS; ++turn) {
        const u32 index = part * (SUMS / PARTS) + turn;
        const i64 r = row_0 + index / 4 * 8 + place % 4 * 2 + index % 2;
        const i64 c = column_0 + warp * 16 + index % 4 / 2 * 8 + place / 4;
        f32 sum = 0.0f;
        UNROLL
        for (u32 other = 0; other < PARTS; ++other) { sum += all[(other * SUMS + index) * PART_THREADS]; }
        if (r < p.m && c < p.n) {
            if (!(sum - sum == 0.0f)) { sum = plain_sum(a + a_at, b + b_at, r, c, p); }
            OUT(r, c) = finished(ALPHA * sum + BIAS(r, c));
        }
    }
