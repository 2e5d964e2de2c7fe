    // Each thread draws the places of a block, or one of them.
    const u64 turn = u64(group_x) * threads + lane;
    const i64 first = i64(turn * EACH) - i64(p.skipped);
    if (first >= p.count) { return; }
    const u64 place = u64(p.start) + turn * EACH;
    Stored drawn[EACH];
