    const u32 part = lane / 32, place = lane % 32, row_place = place / 4, quarter = place % 4;
    // Later queries may have more keys: they begin first.
    const u32 group_row = (p.tiles - 1 - group_x % p.tiles) * ROWS, first_row = group_row + part * 8;
    FIND_HEAD(group_x / p.tiles)
    const u32 last_row = group_row + ROWS - 1, row = first_row + row_place;
    const u32 seen = visible(last_row < p.queries ? last_row : p.queries - 1, p.distance, p.keys);
    const u32 bound = visible(row, p.distance, p.keys);
    SHARED Factor* const tile = (SHARED Factor*)words;
    SHARED f32* const strip = strips + part * (8 * STRIP_PITCH);
    SHARED u16* const weights = all_weights + part * (8 * WEIGHT_PITCH);

    fetch<WIDTH>((SHARED u16*)words, query, p.query_row, p.query_column, group_row, p.queries, p.width, lane);
    BARRIER();
    simdgroup_matrix<Factor, 8, 8> queries[WIDTH / 8];
    UNROLL
    for (u32 k = 0; k < WIDTH / 8; ++k) {
        simdgroup_load(queries[k], tile + part * 8 * (WIDTH + 8) + k * 8, WIDTH + 8);
    }
    simdgroup_matrix<f32, 8, 8> sums[VALUE_WIDTH / 8];
    UNROLL
    for (u32 column = 0; column < VALUE_WIDTH / 8; ++column) {
        sums[column] = make_filled_simdgroup_matrix<f32, 8, 8>(0.0f);
    }
    // Four threads have a query.
    f32 top = -infinity_f32(), total = 0.0f;
    for (u32 first = 0; first < seen; first += KEYS) {
        // Nobody reads what is in the tile any more.
        BARRIER();
        fetch<WIDTH>((SHARED u16*)words, key, p.key_row, p.key_column, first, p.keys, p.width, lane);
        BARRIER();
        UNROLL
        for (u32 column = 0; column < KEYS; column += 8) {
            simdgroup_matrix<f32, 8, 8> products = make_filled_simdgroup_matrix<f32, 8, 8>(0.0f);
            UNROLL
            for (u32 k = 0; k < WIDTH / 8; ++k) {
                simdgroup_matrix<Factor, 8, 8> keys;
                simdgroup_load(keys, tile + column * (WIDTH + 8) + k * 8, WIDTH + 8, 0, true);
                simdgroup_multiply_accumulate(products, queries[k], keys, products);
            }
            simdgroup_store(products, strip + column, STRIP_PITCH);
        }
        // Nobody knows which thread holds which element of a matrix, so scores are read from where all find them.
        simdgroup_barrier(mem_flags::mem_threadgroup);
        f32 scores[KEYS / 4];
        const f32 before = top;
        UNROLL
        for (u32 index = 0; index < KEYS / 4; ++index) {
            const u32 column = first + index * 4 + quarter;
            f32 score = scored(strip[row_place * STRIP_PITCH + index * 4 + quarter], p.scale, p.softcap);
#if MASK
            if (row < p.queries && column < bound) { score = MASKED(score, row, column); }
#endif
            if (column >= bound) { score = -infinity_f32(); }
            scores[index] = score;
            // NaN is passed over here: its exponential brings it into the sum.
            top = score > top ? score : top;
        }
        f32 other = shuffle_xor(top, 1);
        top = other > top ? other : top;
        other = shuffle_xor(top, 2);
        top = other > top ? other : top;
        // Relative to nothing where there is no score yet.
        const f32 base = top == -infinity_f32() ? 0.0f : top;
        const f32 shrink = short_exp2(before - base);
        total *= shrink;
        UNROLL
        for (u32 index = 0; index < KEYS / 4; ++index) {
            const f32 weight = short_exp2(scores[index] - base);
            weights[row_place * WEIGHT_PITCH + index * 4 + quarter] = stored(weight);
            total += weight;
        }
        // All have read their scores. How much each row shrinks takes their place, once for each column.
        simdgroup_barrier(mem_flags::mem_threadgroup);
        strip[row_place * 8 + quarter * 2] = strip[row_place * 8 + quarter * 2 + 1] = shrink;
        // Nor does anybody read the keys.
        BARRIER();
        fetch<VALUE_WIDTH>((SHARED u16*)words, value, p.value_row, p.value_column, first, p.keys, p.value_width, lane);
        simdgroup_matrix<f32, 8, 8> shrinks;
        simdgroup_load(shrinks, strip, 8);
        UNROLL
        for (u32 column = 0; column < VALUE_WIDTH / 8; ++column) {
            // Whichever elements a thread holds: of all matrices of one type they are the same.
            sums[column].thread_elements()[0] *= shrinks.thread_elements()[0];
            sums[column].thread_elements()[1] *= shrinks.thread_elements()[1];
        }
        BARRIER();
        UNROLL
        for (u32 k = 0; k < KEYS; k += 8) {
            simdgroup_matrix<Factor, 8, 8> factors;
            simdgroup_load(factors, (SHARED const Factor*)weights + k, WEIGHT_PITCH);
            UNROLL
            for (u32 column = 0; column < VALUE_WIDTH / 8; ++column) {
                simdgroup_matrix<Factor, 8, 8> values;
                simdgroup_load(values, tile + k * (VALUE_WIDTH + 8) + column * 8, VALUE_WIDTH + 8);
                simdgroup_multiply_accumulate(sums[column], factors, values, sums[column]);
            }
        }
    }

    total += shuffle_xor(total, 1);
    total += shuffle_xor(total, 2);
    f32 none = 0.0f;
    if (row < p.queries && total == 0.0f) {
        NONE_COUNTS(row, result);
        none = result;
    }
    GLOBAL Stored* const to = out + i64(row) * p.out_row;
    UNROLL
    for (u32 column = 0; column < VALUE_WIDTH / 8; ++column) {
        simdgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_store(sums[column], strip, 8);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        UNROLL
        for (u32 index = 0; index < 2; ++index) {
            const u32 at = column * 8 + quarter * 2 + index;
            if (row < p.queries && at < p.value_width) {
                const f32 sum = strip[row_place * 8 + quarter * 2 + index];
                to[i64(at) * p.out_column] = stored(total == 0.0f ? none : sum / total);
            }
        }
    }
