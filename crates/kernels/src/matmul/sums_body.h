    const u32 place = lane % 32;
    const u32 line = lane % LINES, part = lane / LINES;
    const u32 first = group_x * COLUMNS;
    // Columns beyond the last vector repeat it, and are not stored.
    const u32 column = first + line * WIDTH < p.n ? first + line * WIDTH : p.n - WIDTH;
    a += p.a_at + group_y * p.a_batch;
    b += p.b_at + group_y * p.b_batch + column;
    const i64 out_at = p.out_at + group_y * p.out_batch;

    u32 row_at[ROWS];
    UNROLL
    for (u32 row = 0; row < ROWS; ++row) { row_at[row] = (row < p.m ? row : p.m - 1) * p.a_row; }

    // What is added to this thread's results is fetched early.
    f32 added[FINISHES];
#if HAS_BIAS
    const i64 bias_at = p.bias_at + group_y * p.bias_batch;
#endif
    UNROLL
    for (u32 turn = 0; turn < FINISHES; ++turn) {
        const u32 result = lane + turn * (WARPS * 32);
        const u32 r = result / COLUMNS, c = first + result % COLUMNS;
        added[turn] = 0.0f;
        if (r < p.m && c < p.n) { added[turn] = BIAS(r, c); }
    }

    f32 sums[COUNT];
    UNROLL
    for (u32 index = 0; index < COUNT; ++index) { sums[index] = 0.0f; }
    u32 at = 0;
    for (; at + TURNS * STEP <= p.k; at += TURNS * STEP) {
        multiply<true>(sums, a, row_at, b, p.b_line, at + part, p.k);
    }
    if (at < p.k) { multiply<false>(sums, a, row_at, b, p.b_line, at + part, p.k); }

    add_up<COUNT, SPREAD>(sums, place);
    if (place / LINES % REPEATS(COUNT, SPREAD) == 0) {
        UNROLL
        for (u32 index = 0; index < HELD(COUNT, SPREAD); ++index) {
            const u32 sum = place / LINES / REPEATS(COUNT, SPREAD) * HELD(COUNT, SPREAD) + index;
            partial[lane / 32 * RESULTS + sum / WIDTH * COLUMNS + line * WIDTH + sum % WIDTH] = sums[index];
        }
    }
    BARRIER();
    UNROLL
    for (u32 turn = 0; turn < FINISHES; ++turn) {
        const u32 result = lane + turn * (WARPS * 32);
        const u32 r = result / COLUMNS, c = first + result % COLUMNS;
        if (r < p.m && c < p.n) {
            f32 sum = partial[result];
            UNROLL
            for (u32 warp = 1; warp < WARPS; ++warp) { sum += partial[warp * RESULTS + result]; }
            OUT(r, c) = finished(ALPHA * sum + added[turn]);
        }
    }
