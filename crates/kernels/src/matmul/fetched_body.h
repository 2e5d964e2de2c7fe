    const u32 part = group_x % PARTS, number = group_x / PARTS;
    const i64 row_0 = i64(number / p.tiles_n) * ROWS, column_0 = i64(number % p.tiles_n) * COLUMNS;
    // Where the results of a warpgroup begin, and those of a thread.
    const u32 place = lane % 32, first_row = lane / 128 % (ROWS / 64) * 64, first_column = lane / 128 / (ROWS / 64) * WIDTH;
    const u32 row = first_row + lane % 128 / 32 * 16 + place / 4, column = first_column + place % 4 * 2;
    const u32 turns = (u32(p.k) + DEPTH - 1) / DEPTH;
    f32 sums[SUMS];
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { sums[index] = 0.0f; }
#ifdef NATIVE_WARPGROUPS
    const u32 first_turn = PART_BEGINS(part), last_turn = PART_BEGINS(part + 1);
    // Tiles of the first factor, of the second, and barriers: whether each stage is full, and whether it is empty.
    const u32 a_tiles = shared_address(words), b_tiles = a_tiles + STAGES * A_BYTES;
    const u32 full = b_tiles + STAGES * B_BYTES, empty = full + STAGES * 8;
    if (lane == TEAM_THREADS) {
        prepare_fetches(&p.a_map);
        prepare_fetches(&p.b_map);
    }
    if (lane == 0) {
        for (u32 stage = 0; stage < STAGES; ++stage) {
            count_arrivals(full + stage * 8, 1);
            count_arrivals(empty + stage * 8, TEAM_THREADS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    }
    BARRIER();
    WAIT_FOR_EARLIER_KERNELS();
    u32 stage = 0, odd = 0;
    if (lane >= TEAM_THREADS) {
        if (lane > TEAM_THREADS) { return; }
#if BATCHES
        const u32 a_matrix = p.a_batch_0 == 0 ? 0 : matrix, b_matrix = p.b_batch_0 == 0 ? 0 : matrix;
#else
        const u32 a_matrix = 0, b_matrix = 0;
#endif
        for (u32 turn = first_turn; turn < last_turn; ++turn) {
            const u32 depth = turn * DEPTH, arrived = full + stage * 8, to = b_tiles + stage * B_BYTES;
            if (turn - first_turn >= STAGES) { await(empty + stage * 8, odd ^ 1); }
            arrive_with_bytes(arrived, A_BYTES + B_BYTES);
            fetch(a_tiles + stage * A_BYTES, &p.a_map, depth, row_0, a_matrix, arrived);
#if B_ALONG_K
            fetch(to, &p.b_map, depth, column_0, b_matrix, arrived);
#else
            UNROLL
            for (u32 part = 0; part < COLUMNS / ACROSS_COLUMNS; ++part) {
                fetch(to + part * PART_BYTES, &p.b_map, column_0 + part * ACROSS_COLUMNS, depth, b_matrix, arrived);
            }
#endif
            stage = stage == STAGES - 1 ? 0 : stage + 1;
            odd ^= stage == 0 ? 1 : 0;
        }
        return;
    }
#if HAS_BIAS && WIDTH <= 32
    // What is added at the end is read now. For more columns that would take too many registers.
    f32 added[OWN_PAIRS * 2];
    UNROLL
    for (u32 index = 0; index < OWN_PAIRS * 2; ++index) {
        const u32 pair = PAIR(index / 2);
        const i64 r = row_0 + row + pair % 2 * 8, c = column_0 + column + pair / 2 * 8 + index % 2;
        added[index] = r < p.m && c < p.n ? BIAS(r, c) : 0.0f;
    }
#define X_ADDED added[own * 2]
#define Y_ADDED added[own * 2 + 1]
#endif
    const Stored* const numbers = (const Stored*)words;
    u32 before = 0;
    for (u32 turn = first_turn; turn < last_turn; ++turn) {
        const Tile left = along_at(numbers + (stage * ROWS + first_row) * DEPTH);
        const Tile right = right_at(numbers + (STAGES * ROWS + stage * COLUMNS) * DEPTH + COLUMN_AT(first_column));
        await(full + stage * 8, odd);
        begin_products();
        UNROLL
        for (u32 step = 0; step < DEPTH / 16; ++step) { multiply(sums, along_step(left, step), right_step(right, step)); }
        go();
        // What the products before read is free when they are over.
        all_but_last_end();
        if (turn > first_turn && place == 0) { arrive(empty + before * 8); }
        before = stage;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        odd ^= stage == 0 ? 1 : 0;
    }
    end_products<SUMS>(sums);
#if PARTS > 1
    // Each group finishes some of the results: it reads the sums of the others of its cluster, and they lie there until all have.
    team_arrives(0);
    store_sums(words, sums);
    await_cluster();
    UNROLL
    for (u32 own = 0; own < OWN_PAIRS; ++own) { add_parts(sums + own * 2, words, PAIR(own)); }
    await_cluster();
#endif
#else
    if (part > 0) { return; }
    u32 done = 0;
    f32 totals[SUMS] = {};
    WAIT_FOR_EARLIER_KERNELS();
    Stored* const a_tile = (Stored*)words;
    Stored* const b_tile = a_tile + ROWS * DEPTH;
    for (u32 turn = 0; turn < turns; ++turn) {
        const i64 depth_0 = i64(turn) * DEPTH;
        BARRIER();
        for (u32 index = lane; index < ROWS * DEPTH; index += threads) {
            const i64 r = row_0 + index / DEPTH, depth = depth_0 + index % DEPTH;
            a_tile[index] = r < p.m && depth < p.k ? a[a_at + r * p.a_row + depth * p.a_column] : Stored(0);
        }
        for (u32 index = lane; index < COLUMNS * DEPTH; index += threads) {
            const i64 c = column_0 + index / DEPTH, depth = depth_0 + index % DEPTH;
            b_tile[index] = c < p.n && depth < p.k ? b[b_at + depth * p.b_row + c * p.b_column] : Stored(0);
        }
        BARRIER();
        for (u32 index = 0; index < SUMS && lane < TEAM_THREADS; ++index) {
            const u32 line = row + index % 4 / 2 * 8, across = column + index / 4 * 8 + index % 2;
            for (u32 depth = 0; depth < DEPTH; ++depth) {
                sums[index] += loaded(a_tile[line * DEPTH + depth]) * loaded(b_tile[across * DEPTH + depth]);
            }
        }
        if (turn + 1 == PART_BEGINS(done + 1)) {
            for (u32 index = 0; index < SUMS; ++index) {
                totals[index] = PARTS > 1 ? totals[index] + sums[index] : sums[index];
                sums[index] = 0.0f;
            }
            ++done;
        }
    }
    if (lane >= TEAM_THREADS) { return; }
    for (u32 index = 0; index < SUMS; ++index) { sums[index] = totals[index]; }
#endif
    UNROLL
    for (u32 own = 0; own < OWN_PAIRS; ++own) {
        const u32 pair = PAIR(own);
        if (pair >= SUMS / 2) { continue; }
        const i64 r = row_0 + row + pair % 2 * 8;
        const i64 c = column_0 + column + pair / 2 * 8;
        const f32 x = sums[own * 2], y = sums[own * 2 + 1];
