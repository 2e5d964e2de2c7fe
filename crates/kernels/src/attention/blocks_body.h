    const u32 row_place = lane / SIDE, place = lane % SIDE;
    const u32 first_row = (p.tiles - 1 - group_x % p.tiles) * ROWS;
    FIND_HEAD(group_x / p.tiles)
    const u32 last_row = first_row + ROWS - 1;
    const u32 seen = visible(last_row < p.queries ? last_row : p.queries - 1, p.distance, p.keys);
    SHARED f32* const query_tile = (SHARED f32*)query_runs;

    f32 sums[ROW_RUN * VALUE_BLOCKS * VALUE_RUN];
    f32 tops[ROW_RUN], totals[ROW_RUN];
    UNROLL
    for (u32 index = 0; index < ROW_RUN * VALUE_BLOCKS * VALUE_RUN; ++index) { sums[index] = 0.0f; }
    UNROLL
    for (u32 row = 0; row < ROW_RUN; ++row) {
        tops[row] = -infinity_f32();
        totals[row] = 0.0f;
    }
    for (u32 first = 0; first < seen; first += KEYS) {
        f32 scores[ROW_RUN * COLUMNS];
        UNROLL
        for (u32 index = 0; index < ROW_RUN * COLUMNS; ++index) { scores[index] = 0.0f; }
        for (u32 depth = 0; depth < p.width; depth += DEPTH) {
            fetch<ROWS, ROW_PITCH>(query_tile, query, p.query_row, p.query_column, first_row, p.queries, depth,
                                   p.width, lane);
            fetch<KEYS, KEY_PITCH>(key_tile, key, p.key_row, p.key_column, first, p.keys, depth, p.width, lane);
            BARRIER();
            UNROLL
            for (u32 k = 0; k < DEPTH; ++k) {
                const RowRun rows = query_runs[k * (ROW_PITCH / ROW_RUN) + row_place];
                UNROLL
                for (u32 column = 0; column < COLUMNS; ++column) {
                    const f32 y = key_tile[k * KEY_PITCH + column * SIDE + place];
                    UNROLL
                    for (u32 row = 0; row < ROW_RUN; ++row) {
                        scores[row * COLUMNS + column] += rows.numbers[row] * y;
                    }
                }
            }
            BARRIER();
        }

        UNROLL
        for (u32 row = 0; row < ROW_RUN; ++row) {
            const u32 own_row = first_row + row_place * ROW_RUN + row;
            const u32 bound = visible(own_row, p.distance, p.keys);
            f32 top = tops[row];
            UNROLL
            for (u32 column = 0; column < COLUMNS; ++column) {
                const u32 own_key = first + column * SIDE + place;
                f32 score = scored(scores[row * COLUMNS + column], p.scale, p.softcap);
#if MASK
                if (own_row < p.queries && own_key < bound) { score = MASKED(score, own_row, own_key); }
#endif
                if (own_key >= bound) { score = -infinity_f32(); }
                scores[row * COLUMNS + column] = score;
                // NaN is passed over here: its exponential brings it into the sum.
                top = score > top ? score : top;
            }
            UNROLL
            for (u32 distance = 1; distance < SIDE; distance *= 2) {
                const f32 other = shuffle_xor(top, distance);
                top = other > top ? other : top;
            }
            // Relative to nothing where there is no score yet.
            const f32 base = top == -infinity_f32() ? 0.0f : top;
            const f32 shrink = EXP(tops[row] - base);
            tops[row] = top;
            totals[row] *= shrink;
            UNROLL
            for (u32 column = 0; column < COLUMNS; ++column) {
                const f32 weight = EXP(scores[row * COLUMNS + column] - base);
                scores[row * COLUMNS + column] = weight;
                totals[row] += weight;
            }
            UNROLL
            for (u32 index = 0; index < VALUE_BLOCKS * VALUE_RUN; ++index) {
                sums[row * VALUE_BLOCKS * VALUE_RUN + index] *= shrink;
            }
        }
        UNROLL
        for (u32 column = 0; column < COLUMNS; ++column) {
            RowRun weights;
            UNROLL
            for (u32 row = 0; row < ROW_RUN; ++row) { weights.numbers[row] = scores[row * COLUMNS + column]; }
            weight_runs[(column * SIDE + place) * (ROW_PITCH / ROW_RUN) + row_place] = weights;
        }

        for (u32 slice = 0; slice < KEYS; slice += DEPTH) {
            UNROLL
            for (u32 turn = 0; turn < DEPTH * VALUE_WIDTH / THREADS; ++turn) {
                const u32 index = turn * THREADS + lane;
                const u32 own_key = first + slice + index / VALUE_WIDTH, column = index % VALUE_WIDTH;
                f32 number = 0.0f;
                if (own_key < p.keys && column < p.value_width) {
                    number = loaded(value[i64(own_key) * p.value_row + i64(column) * p.value_column]);
                }
                ((SHARED f32*)value_runs)[index] = number;
            }
            BARRIER();
            UNROLL
            for (u32 k = 0; k < DEPTH; ++k) {
                const RowRun weights = weight_runs[(slice + k) * (ROW_PITCH / ROW_RUN) + row_place];
                UNROLL
                for (u32 block = 0; block < VALUE_BLOCKS; ++block) {
                    const ValueRun values = value_runs[(k * VALUE_BLOCKS + block) * SIDE + place];
                    UNROLL
                    for (u32 row = 0; row < ROW_RUN; ++row) {
                        UNROLL
                        for (u32 index = 0; index < VALUE_RUN; ++index) {
                            sums[(row * VALUE_BLOCKS + block) * VALUE_RUN + index] +=
                                weights.numbers[row] * values.numbers[index];
                        }
                    }
                }
            }
            BARRIER();
        }
    }

    UNROLL
    for (u32 row = 0; row < ROW_RUN; ++row) {
        f32 total = totals[row];
        UNROLL
        for (u32 distance = 1; distance < SIDE; distance *= 2) { total += shuffle_xor(total, distance); }
        const u32 own_row = first_row + row_place * ROW_RUN + row;
        if (total == 0.0f && own_row < p.queries) {
            NONE_COUNTS(own_row, none);
            for (u32 index = 0; index < VALUE_BLOCKS * VALUE_RUN; ++index) {
                sums[row * VALUE_BLOCKS * VALUE_RUN + index] = none;
            }
            total = 1.0f;
        }
        UNROLL
        for (u32 index = 0; index < VALUE_BLOCKS * VALUE_RUN; ++index) {
            const u32 column = (index / VALUE_RUN * SIDE + place) * VALUE_RUN + index % VALUE_RUN;
            if (own_row < p.queries && column < p.value_width) {
                const f32 result = sums[row * VALUE_BLOCKS * VALUE_RUN + index] / total;
                out[i64(own_row) * p.out_row + i64(column) * p.out_column] = stored(result);
            }
        }
    }
