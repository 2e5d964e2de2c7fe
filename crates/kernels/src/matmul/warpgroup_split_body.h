    const u32 warp = team_place / 32, place = lane % 32;

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

    f32 sums[SUMS];
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { sums[index] = 0.0f; }
    for (u32 stage = 0; stage < STAGES - 1; ++stage) { fetch(); }
    u32 read = 0;
    const u32 turns = (k + TEAMS * DEPTH - 1) / (TEAMS * DEPTH);
    for (u32 turn = 0; turn < turns; ++turn) {
        const f32* const a_tile = a_tiles + read * A_NUMBERS;
        const f32* const b_tile = b_tiles + read * B_NUMBERS;
        read = read == STAGES - 1 ? 0 : read + 1;

        // Tensor cores cut off what they do not take of the first factor. The rest is another tile. Each thread makes it
        // of what it has copied itself.
        all_but_arrive<STAGES - 2>();
        UNROLL
        for (u32 pack = 0; pack < A_PACKS; ++pack) {
            const u32 at = a_to + pack * PACK * TEAM_THREADS;
            auto own = load_pack<4>(a_tile + at);
            UNROLL
            for (u32 index = 0; index < 4; ++index) { own.values[index] = rest_of(own.values[index]); }
            store_pack<4>(a_rest + at, own);
        }
        team_arrives(team);
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
            split<4>(high + step * 4, low + step * 4, loaded);
        }

        // The small products first: cut sums of large ones would lose them.
        f32 some[SUMS];
        const Tile whole = along_at(a_tile), rest = along_at(a_rest);
        begin_products();
        UNROLL
        for (u32 step = 0; step < STEPS; ++step) {
            multiply(some, low + step * 4, along_step(whole, step), step > 0, place);
            multiply(some, high + step * 4, along_step(rest, step), true, place);
        }
        UNROLL
        for (u32 step = 0; step < STEPS; ++step) {
            multiply(some, high + step * 4, along_step(whole, step), true, place);
        }
        go();
        fetch();
        end_products<SUMS>(some);
        UNROLL
        for (u32 index = 0; index < SUMS; ++index) { sums[index] += some[index]; }
        // The rest is read to its end.
        team_arrives(team);
    }

    // Each team finishes its share of the sums, with those of all parts.
    copies_arrive();
    BARRIER();
    f32* const all = (f32*)words + team_place;
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { all[(team * SUMS + index) * TEAM_THREADS] = sums[index]; }
    BARRIER();
#pragma unroll 4
    for (u32 turn = 0; turn < SUMS / TEAMS; ++turn) {
        const u32 index = team * (SUMS / TEAMS) + turn;
        const i64 r = row_0 + index / 4 * 8 + place % 4 * 2 + index % 2;
        const i64 c = column_0 + warp * 16 + index % 4 / 2 * 8 + place / 4;
        f32 sum = 0.0f;
        UNROLL
        for (u32 other = 0; other < TEAMS; ++other) { sum += all[(other * SUMS + index) * TEAM_THREADS]; }
        if (r < p.m && c < p.n) {
            if (!(sum - sum == 0.0f)) { sum = plain_sum(a + a_at, b + b_at, r, c, p); }
            OUT(r, c) = finished(ALPHA * sum + BIAS(r, c));
        }
    }
