    const u32 place = lane % 32, warp = lane / 32;
    const u32 row_place = place / 4, pair = place % 4 * 2;
    // Later queries may have more keys: they begin first.
    const u32 first_row = (p.tiles - 1 - group_x % p.tiles) * ROWS + warp * WARP_ROWS;
    FIND_HEAD(group_x / p.tiles)
    const u32 last_row = first_row - warp * WARP_ROWS + ROWS - 1;
    const u32 seen = visible(last_row < p.queries ? last_row : p.queries - 1, p.distance, p.keys);
    const u32 seen_by_all = visible(first_row, p.distance, p.keys);

    u32 queries[ROW_TILES * (WIDTH / 16) * 4];
    UNROLL
    for (u32 tile = 0; tile < ROW_TILES; ++tile) {
        UNROLL
        for (u32 part = 0; part < 4; ++part) {
            const u32 row = first_row + tile * 16 + row_place + part % 2 * 8;
            GLOBAL const u16* from = query + i64(row < p.queries ? row : p.queries - 1) * p.query_row;
            UNROLL
            for (u32 k = 0; k < WIDTH / 16; ++k) {
                queries[(tile * (WIDTH / 16) + k) * 4 + part] =
                    fetch_pair(from, k * 16 + part / 2 * 8 + pair, p.query_column, p.width);
            }
        }
    }

    f32 sums[ROW_TILES * (VALUE_WIDTH / 8) * 4];
    f32 tops[ROW_TILES * 2], totals[ROW_TILES * 2];
    UNROLL
    for (u32 index = 0; index < ROW_TILES * (VALUE_WIDTH / 8) * 4; ++index) { sums[index] = 0.0f; }
    UNROLL
    for (u32 index = 0; index < ROW_TILES * 2; ++index) {
        tops[index] = -infinity_f32();
        totals[index] = 0.0f;
    }

    SHARED u16* const keys_tile = (SHARED u16*)key_words;
    SHARED u16* const values_tile = (SHARED u16*)value_words;
    if (seen > 0) { fetch<WIDTH>(keys_tile, key, p.key_row, p.key_column, 0, p.keys, p.width, lane); }
    for (u32 first = 0; first < seen; first += KEYS) {
        // The keys are here, and nobody reads the last values any more.
        copies_arrive();
        BARRIER();
        fetch<VALUE_WIDTH>(values_tile, value, p.value_row, p.value_column, first, p.keys, p.value_width, lane);

        f32 scores[ROW_TILES * (KEYS / 8) * 4];
        UNROLL
        for (u32 index = 0; index < ROW_TILES * (KEYS / 8) * 4; ++index) { scores[index] = 0.0f; }
        UNROLL
        for (u32 k = 0; k < WIDTH / 16; ++k) {
            UNROLL
            for (u32 column = 0; column < KEYS / 16; ++column) {
                u32 b[4];
                load_tile(b, keys_tile + column * 16 * KEY_PITCH + k * 16, KEY_PITCH, place);
                UNROLL
                for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                    PRIVATE const u32* a = queries + (tile * (WIDTH / 16) + k) * 4;
                    PRIVATE f32* to = scores + (tile * (KEYS / 8) + column * 2) * 4;
                    MULTIPLY_TILES(to, a, b[0], b[2], place);
                    MULTIPLY_TILES(to + 4, a, b[1], b[3], place);
                }
            }
        }
        // The values are here, and nobody reads the keys any more.
        copies_arrive();
        BARRIER();
        if (first + KEYS < seen) {
            fetch<WIDTH>(keys_tile, key, p.key_row, p.key_column, first + KEYS, p.keys, p.width, lane);
        }

#if MASK_OF_KEYS
        MaskElement elements[KEYS / 4];
        UNROLL
        for (u32 index = 0; index < KEYS / 4; ++index) {
            const u32 column = first + index / 2 * 8 + pair + index % 2;
            elements[index] = MASK_AT(0, column < p.keys ? column : p.keys - 1);
        }
#endif
        UNROLL
        for (u32 tile = 0; tile < ROW_TILES; ++tile) {
            UNROLL
            for (u32 low = 0; low < 2; ++low) {
                const u32 row = first_row + tile * 16 + low * 8 + row_place;
                const u32 bound = first + KEYS > seen_by_all ? visible(row, p.distance, p.keys) : p.keys;
                PRIVATE f32* own = scores + tile * (KEYS / 8) * 4 + low * 2;
                f32 top = tops[tile * 2 + low];
                UNROLL
                for (u32 index = 0; index < KEYS / 4; ++index) {
                    const u32 column = first + index / 2 * 8 + pair + index % 2;
                    f32 score = scored(own[index / 2 * 4 + index % 2], p.scale, p.softcap);
#if MASK_OF_KEYS
                    score = MASKED_BY(score, elements[index]);
#elif MASK
                    if (row < p.queries && column < bound) { score = MASKED(score, row, column); }
#endif
                    if (first + KEYS > seen_by_all && column >= bound) { score = -infinity_f32(); }
                    own[index / 2 * 4 + index % 2] = score;
                    // NaN is passed over here: its exponential brings it into the sum.
                    top = score > top ? score : top;
                }
                f32 other = shuffle_xor(top, 1);
                top = other > top ? other : top;
                other = shuffle_xor(top, 2);
                top = other > top ? other : top;
                // Relative to nothing where there is no score yet.
                const f32 base = top == -infinity_f32() ? 0.0f : top;
                const f32 shrink = short_exp2(tops[tile * 2 + low] - base);
                tops[tile * 2 + low] = top;
                f32 total = totals[tile * 2 + low] * shrink;
                UNROLL
                for (u32 index = 0; index < KEYS / 4; ++index) {
                    const f32 weight = short_exp2(own[index / 2 * 4 + index % 2] - base);
                    own[index / 2 * 4 + index % 2] = weight;
                    total += weight;
                }
                totals[tile * 2 + low] = total;
                UNROLL
                for (u32 column = 0; column < VALUE_WIDTH / 8; ++column) {
                    sums[(tile * (VALUE_WIDTH / 8) + column) * 4 + low * 2] *= shrink;
                    sums[(tile * (VALUE_WIDTH / 8) + column) * 4 + low * 2 + 1] *= shrink;
                }
            }
        }

        UNROLL
        for (u32 k = 0; k < KEYS / 16; ++k) {
            u32 weights[ROW_TILES * 4];
            UNROLL
            for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                PRIVATE const f32* from = scores + (tile * (KEYS / 8) + k * 2) * 4;
                weights[tile * 4] = PAIR(from[0], from[1]);
                weights[tile * 4 + 1] = PAIR(from[2], from[3]);
                weights[tile * 4 + 2] = PAIR(from[4], from[5]);
                weights[tile * 4 + 3] = PAIR(from[6], from[7]);
            }
            UNROLL
            for (u32 column = 0; column < VALUE_WIDTH / 16; ++column) {
                u32 b[4];
                load_turned_tile(b, values_tile + k * 16 * VALUE_PITCH + column * 16, VALUE_PITCH, place);
                UNROLL
                for (u32 tile = 0; tile < ROW_TILES; ++tile) {
                    PRIVATE f32* to = sums + (tile * (VALUE_WIDTH / 8) + column * 2) * 4;
                    MULTIPLY_TILES(to, weights + tile * 4, b[0], b[1], place);
                    MULTIPLY_TILES(to + 4, weights + tile * 4, b[2], b[3], place);
                }
            }
        }
    }

    UNROLL
    for (u32 tile = 0; tile < ROW_TILES; ++tile) {
        UNROLL
        for (u32 low = 0; low < 2; ++low) {
            f32 total = totals[tile * 2 + low];
            total += shuffle_xor(total, 1);
            total += shuffle_xor(total, 2);
            const u32 row = first_row + tile * 16 + low * 8 + row_place;
            if (row < p.queries) {
                f32 factor = 1.0f / total;
                if (total == 0.0f) {
                    NONE_COUNTS(row, none);
                    UNROLL
                    for (u32 column = 0; column < VALUE_WIDTH / 8; ++column) {
                        PRIVATE f32* from = sums + (tile * (VALUE_WIDTH / 8) + column) * 4 + low * 2;
                        from[0] = from[1] = none;
                    }
                    factor = 1.0f;
                }
                GLOBAL u16* to = out + i64(row) * p.out_row;
                UNROLL
                for (u32 column = 0; column < VALUE_WIDTH / 8; ++column) {
                    PRIVATE const f32* from = sums + (tile * (VALUE_WIDTH / 8) + column) * 4 + low * 2;
                    const f32 x = from[0] * factor;
                    const f32 y = from[1] * factor;
                    const u32 at = column * 8 + pair;
#if DENSE
                    if (at < p.value_width) { *(GLOBAL u32*)(to + at) = PAIR(x, y); }
#else
                    if (at < p.value_width) { to[i64(at) * p.out_column] = stored(x); }
                    if (at + 1 < p.value_width) { to[i64(at + 1) * p.out_column] = stored(y); }
#endif
                }
            }
        }
    }
