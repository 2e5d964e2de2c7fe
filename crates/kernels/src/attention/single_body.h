    // One warp for each query and COLUMNS columns of values; the scores of 32 keys at a time.
    const u32 row = group_x % p.queries;
    FIND_HEAD(group_x / p.queries)
    const u32 seen = visible(row, p.distance, p.keys);
    query += i64(row) * p.query_row;
    Number sums[COLUMNS / 32];
    Number top = -INFINITE, total = Number(0);
    UNROLL
    for (u32 index = 0; index < COLUMNS / 32; ++index) { sums[index] = Number(0); }
    for (u32 first = 0; first < seen; first += 32) {
        const u32 own = first + lane;
        Number score = -INFINITE;
        if (own < seen) {
            score = Number(0);
            for (u32 k = 0; k < p.width; ++k) {
                score += loaded(query[i64(k) * p.query_column]) *
                         loaded(key[i64(own) * p.key_row + i64(k) * p.key_column]);
            }
            score = scored(score, p.scale, p.softcap);
#if MASK
            score = MASKED(score, row, own);
#endif
        }
        Number best = score > top ? score : top;
        UNROLL
        for (u32 distance = 1; distance < 32; distance *= 2) {
            const Number other = shuffle_xor(best, distance);
            best = other > best ? other : best;
        }
        // Relative to nothing where there is no score yet.
        const Number base = best == -INFINITE ? Number(0) : best;
        const Number shrink = EXP(top - base), weight = EXP(score - base);
        top = best;
        total = total * shrink + weight;
        weights[lane] = weight;
        BARRIER();
        UNROLL
        for (u32 index = 0; index < COLUMNS / 32; ++index) {
            const u32 column = group_y * COLUMNS + index * 32 + lane;
            sums[index] *= shrink;
            if (column < p.value_width) {
                for (u32 k = 0; k < 32 && first + k < seen; ++k) {
                    sums[index] += weights[k] *
                                   loaded(value[i64(first + k) * p.value_row + i64(column) * p.value_column]);
                }
            }
        }
        BARRIER();
    }
    UNROLL
    for (u32 distance = 1; distance < 32; distance *= 2) { total += shuffle_xor(total, distance); }
    if (total == Number(0)) {
        NONE_COUNTS(row, none);
        UNROLL
        for (u32 index = 0; index < COLUMNS / 32; ++index) { sums[index] = none; }
        total = Number(1);
    }
    UNROLL
    for (u32 index = 0; index < COLUMNS / 32; ++index) {
        const u32 column = group_y * COLUMNS + index * 32 + lane;
        if (column < p.value_width) {
            const Number result = sums[index] / total;
            out[i64(row) * p.out_row + i64(column) * p.out_column] = stored(result);
        }
    }
