    const u32 place = lane % 32;
    const u32 set = lane / 32 / PARTS, part = lane / 32 % PARTS;
    const u32 first = (group_x * SETS + set) * COLUMNS;
    a += p.a_at + group_y * p.a_batch;
    b += p.b_at + group_y * p.b_batch;
    const i64 out_at = p.out_at + group_y * p.out_batch;

    // Rows and columns beyond the last repeat it, and are not stored.
    u32 row_at[ROWS];
    i64 column_at[COLUMNS];
    UNROLL
    for (u32 row = 0; row < ROWS; ++row) { row_at[row] = (row < p.m ? row : p.m - 1) * p.a_row; }
    UNROLL
    for (u32 column = 0; column < COLUMNS; ++column) {
        column_at[column] = (first + column < p.n ? first + column : p.n - 1) * p.b_line;
    }

    // The results of this thread: the first, and how many follow. What is added is fetched early.
    const u32 held = HELD(COUNT, 32);
#if PARTS == 1
    const u32 result = place / REPEATS(COUNT, 32) * held;
    const u32 results = place % REPEATS(COUNT, 32) == 0 ? held : 0;
    const u32 result_first = first;
#else
    const u32 result = lane % COUNT;
    const u32 result_set = lane / COUNT;
    const u32 results = result_set < SETS ? 1 : 0;
    const u32 result_first = (group_x * SETS + result_set) * COLUMNS;
#endif
    f32 added[HELD(COUNT, 32)];
#if HAS_BIAS
    const i64 bias_at = p.bias_at + group_y * p.bias_batch;
#endif
    UNROLL
    for (u32 index = 0; index < held; ++index) {
        const u32 r = (result + index) / COLUMNS, c = result_first + (result + index) % COLUMNS;
        added[index] = 0.0f;
        if (index < results && r < p.m && c < p.n) { added[index] = BIAS(r, c); }
    }

    f32 chains[COUNT * CHAINS];
    UNROLL
    for (u32 index = 0; index < COUNT * CHAINS; ++index) { chains[index] = 0.0f; }
    const u32 offset = (part * 32 + place) * WIDTH;
    u32 at = 0;
    for (; at + TURNS * STEP <= p.k; at += TURNS * STEP) {
        multiply<true>(chains, a, row_at, b, column_at, at + offset, p.k);
    }
    if (at < p.k) { multiply<false>(chains, a, row_at, b, column_at, at + offset, p.k); }

    f32 sums[COUNT];
    UNROLL
    for (u32 index = 0; index < COUNT; ++index) {
        sums[index] = chains[index * CHAINS];
        UNROLL
        for (u32 chain = 1; chain < CHAINS; ++chain) { sums[index] += chains[index * CHAINS + chain]; }
    }
    add_up<COUNT, 32>(sums, place);

#if PARTS > 1
    if (place % REPEATS(COUNT, 32) == 0) {
        UNROLL
        for (u32 index = 0; index < held; ++index) {
            partial[lane / 32 * COUNT + place / REPEATS(COUNT, 32) * held + index] = sums[index];
        }
    }
    BARRIER();
    if (results == 0) { return; }
    sums[0] = partial[result_set * PARTS * COUNT + result];
    UNROLL
    for (u32 other = 1; other < PARTS; ++other) {
        sums[0] += partial[(result_set * PARTS + other) * COUNT + result];
    }
#endif
    UNROLL
    for (u32 index = 0; index < held; ++index) {
        const u32 r = (result + index) / COLUMNS, c = result_first + (result + index) % COLUMNS;
        if (index < results && r < p.m && c < p.n) {
            OUT(r, c) = finished(ALPHA * sums[index] + added[index]);
        }
    }
