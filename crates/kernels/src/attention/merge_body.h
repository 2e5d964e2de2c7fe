    // One group for each query; each thread of a warp knows the weight of one part.
    const u32 row = group_x % p.queries, head = group_x / p.queries % p.heads, batch = group_x / p.queries / p.heads;
    const i64 first = i64(group_x) * p.parts;
    const u32 own = lane % 32;
    f32 top = -infinity_f32(), total = 0.0f;
    if (own < p.parts) {
        top = part_ends[(first + own) * 2];
        total = part_ends[(first + own) * 2 + 1];
    }
    u32 open = total < 0.0f ? 1u : 0u;
    f32 best = top;
    UNROLL
    for (u32 distance = 1; distance < 32; distance *= 2) {
        const f32 other = shuffle_xor(best, distance);
        best = other > best ? other : best;
        open |= shuffle_xor(open, distance);
    }
    const f32 weight = short_exp2(top - (best == -infinity_f32() ? 0.0f : best));
    total = total < 0.0f ? 0.0f : total * weight;
    UNROLL
    for (u32 distance = 1; distance < 32; distance *= 2) { total += shuffle_xor(total, distance); }
    out += p.out_at + i64(batch) * p.out_batch + i64(head) * p.out_head + i64(row) * p.out_row;
    for (u32 block = 0; block < p.value_width; block += threads) {
        const u32 column = block + lane;
        f32 sum = 0.0f;
        for (u32 begin = 0; begin < p.parts; begin += 8) {
            UNROLL
            for (u32 turn = 0; turn < 8; ++turn) {
                const u32 part = begin + turn;
                const f32 factor = shuffle(weight, part);
                if (part < p.parts && column < p.value_width) {
                    sum += factor * part_sums[(first + part) * p.value_width + column];
                }
            }
        }
        if (column < p.value_width) {
            out[i64(column) * p.out_column] =
                stored(total != 0.0f ? sum / total : open != 0 ? nan_f32() : 0.0f);
        }
    }
