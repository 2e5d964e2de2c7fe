    // Each warpgroup has 64 rows and all columns of its team. Teams sum parts of the terms at the same time; one team sums them
    // in turns, with the same bits.
    const u32 warpgroup = team_place / 128, place = lane % 32;
    const u32 row = team_place % 128 / 32 * 16 + place / 4, column = place % 4 * 2;
    f32 sums[OWN_PARTS][SUMS];
    UNROLL
    for (u32 own = 0; own < OWN_PARTS; ++own) {
        UNROLL
        for (u32 index = 0; index < SUMS; ++index) { sums[own][index] = 0.0f; }
    }
    for (u32 stage = 0; stage < STAGES - 1; ++stage) { fetch(); }
    u32 read = 0;
    const u32 turns = (k + PARTS * DEPTH - 1) / (PARTS * DEPTH);
    for (u32 turn = 0; turn < turns; ++turn) {
        UNROLL
        for (u32 own = 0; own < OWN_PARTS; ++own) {
            all_but_arrive<STAGES - 2>();
            team_arrives(team);
            const Tile left = along_at(a_tiles + read * A_NUMBERS + warpgroup * 64 * DEPTH);
            const Tile right = right_at(b_tiles + read * B_NUMBERS);
            read = read == STAGES - 1 ? 0 : read + 1;
            begin_products();
            UNROLL
            for (u32 step = 0; step < STEPS; ++step) {
                multiply(sums[own], along_step(left, step), right_step(right, step), row, column);
            }
            go();
            // What the products before read is free when they are over for all.
            all_but_last_end();
            team_arrives(team);
            fetch();
        }
    }
    UNROLL
    for (u32 own = 0; own < OWN_PARTS; ++own) { end_products<SUMS>(sums[own]); }

    // Each team finishes its share of the results.
    copies_arrive();
#if TEAMS > 1
    BARRIER();
    f32* const all = (f32*)words + team_place;
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { all[(team * SUMS + index) * TEAM_THREADS] = sums[0][index]; }
    BARRIER();
#endif
    UNROLL
    for (u32 turn = 0; turn < SUMS / TEAMS / 2; ++turn) {
        const u32 pair = team * (SUMS / TEAMS / 2) + turn;
        const i64 r = row_0 + warpgroup * 64 + row + pair % 2 * 8;
        const i64 c = column_0 + column + pair / 2 * 8;
        f32 x = 0.0f, y = 0.0f;
        UNROLL
        for (u32 part = 0; part < PARTS; ++part) {
#if TEAMS > 1
            x += all[(part * SUMS + pair * 2) * TEAM_THREADS];
            y += all[(part * SUMS + pair * 2 + 1) * TEAM_THREADS];
#else
            x += sums[part][turn * 2];
            y += sums[part][turn * 2 + 1];
#endif
        }
