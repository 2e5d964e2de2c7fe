    // Teams of threads take a key each, and each thread a run of its columns.
    const u32 place = lane % TEAM, team = lane / TEAM, warp = lane / 32, own = place * RUN;
    const u32 part = group_x % p.parts, block = group_x / p.parts % p.tiles;
    const u32 key_heads = p.heads / p.shares, head_number = group_x / p.parts / p.tiles;
    const u32 key_head = head_number % key_heads, batch = head_number / key_heads;
    const u32 first_row = block * ROWS;
    key += p.key_at + i64(batch) * p.key_batch + i64(key_head) * p.key_head;
    value += p.value_at + i64(batch) * p.value_batch + i64(key_head) * p.value_head;

    f32 queries[ROWS * RUN], sums[ROWS * RUN], tops[ROWS], totals[ROWS];
    u32 bounds[ROWS];
#if MASK
    i64 mask_rows[ROWS];
#endif
    UNROLL
    for (u32 row = 0; row < ROWS; ++row) {
        const u32 number = first_row + row < p.rows ? first_row + row : p.rows - 1;
        const u32 head = key_head * p.shares + number / p.queries, query_row = number % p.queries;
        GLOBAL const Stored* from =
            query + p.query_at + i64(batch) * p.query_batch + i64(head) * p.query_head + i64(query_row) * p.query_row;
        Piece pieces[PIECES];
        UNROLL
        for (u32 piece = 0; piece < PIECES; ++piece) {
            pieces[piece] = fetch(from, own + piece * PACK, p.query_column, p.width);
        }
        unpack(queries + row * RUN, pieces);
        UNROLL
        for (u32 index = 0; index < RUN; ++index) { sums[row * RUN + index] = 0.0f; }
        tops[row] = -infinity_f32();
        totals[row] = 0.0f;
        bounds[row] = visible(query_row, p.distance, p.keys);
#if MASK
        mask_rows[row] = p.mask_at + i64(batch) * p.mask_batch + i64(head) * p.mask_head + i64(query_row) * p.mask_row;
#endif
    }
    const u32 seen = visible(p.queries - 1, p.distance, p.keys);
    const u32 begin = part * p.part_keys;
    const u32 end = begin + p.part_keys < seen ? begin + p.part_keys : seen;
    // A bit for each query that may attend to a key.
    u32 open = 0;
    for (u32 first = begin; first < end; first += TEAMS * AT_ONCE) {
        Piece keys_read[AT_ONCE * PIECES], values_read[AT_ONCE * PIECES];
        UNROLL
        for (u32 turn = 0; turn < AT_ONCE; ++turn) {
            const u32 column = first + turn * TEAMS + team;
            const u32 width = column < end ? p.width : 0u, value_width = column < end ? p.value_width : 0u;
            UNROLL
            for (u32 piece = 0; piece < PIECES; ++piece) {
                const u32 at = own + piece * PACK;
                keys_read[turn * PIECES + piece] = fetch(key + i64(column) * p.key_row, at, p.key_column, width);
                values_read[turn * PIECES + piece] =
                    fetch(value + i64(column) * p.value_row, at, p.value_column, value_width);
            }
        }
        f32 scores[ROWS * AT_ONCE];
        UNROLL
        for (u32 turn = 0; turn < AT_ONCE; ++turn) {
            f32 numbers[RUN];
            unpack(numbers, keys_read + turn * PIECES);
            UNROLL
            for (u32 row = 0; row < ROWS; ++row) {
                f32 score = 0.0f;
                UNROLL
                for (u32 index = 0; index < RUN; ++index) { score += queries[row * RUN + index] * numbers[index]; }
                scores[row * AT_ONCE + turn] = score;
            }
        }
        UNROLL
        for (u32 distance = TEAM / 2; distance > 0; distance /= 2) {
            UNROLL
            for (u32 index = 0; index < ROWS * AT_ONCE; ++index) {
                scores[index] += shuffle_xor(scores[index], distance);
            }
        }
        UNROLL
        for (u32 row = 0; row < ROWS; ++row) {
            const u32 bound = bounds[row] < end ? bounds[row] : end;
            f32 top = tops[row];
            UNROLL
            for (u32 turn = 0; turn < AT_ONCE; ++turn) {
                const u32 column = first + turn * TEAMS + team;
                f32 score = -infinity_f32();
                if (column < bound) {
                    score = scored(scores[row * AT_ONCE + turn], p.scale, p.softcap);
#if MASK
                    const MaskElement element = mask[mask_rows[row] + i64(column) * p.mask_column];
                    score = MASKED_BY(score, element);
                    if (!IS_MASKED(element)) { open |= 1u << row; }
#else
                    open |= 1u << row;
#endif
                }
                scores[row * AT_ONCE + turn] = score;
                // NaN is passed over here: its exponential brings it into the sum.
                top = score > top ? score : top;
            }
            // Relative to nothing where there is no score yet.
            const f32 base = top == -infinity_f32() ? 0.0f : top;
            const f32 shrink = short_exp2(tops[row] - base);
            tops[row] = top;
            totals[row] *= shrink;
            UNROLL
            for (u32 turn = 0; turn < AT_ONCE; ++turn) {
                const f32 weight = short_exp2(scores[row * AT_ONCE + turn] - base);
                scores[row * AT_ONCE + turn] = weight;
                totals[row] += weight;
            }
            UNROLL
            for (u32 index = 0; index < RUN; ++index) { sums[row * RUN + index] *= shrink; }
        }
        UNROLL
        for (u32 turn = 0; turn < AT_ONCE; ++turn) {
            f32 numbers[RUN];
            unpack(numbers, values_read + turn * PIECES);
            UNROLL
            for (u32 row = 0; row < ROWS; ++row) {
                const f32 weight = scores[row * AT_ONCE + turn];
                UNROLL
                for (u32 index = 0; index < RUN; ++index) { sums[row * RUN + index] += weight * numbers[index]; }
            }
        }
    }

    // The teams of each warp, then all warps, add up what they have.
    UNROLL
    for (u32 distance = TEAM; distance < 32; distance *= 2) {
        open |= shuffle_xor(open, distance);
        UNROLL
        for (u32 row = 0; row < ROWS; ++row) {
            const f32 other = shuffle_xor(tops[row], distance);
            const f32 top = other > tops[row] ? other : tops[row];
            const f32 shrink = short_exp2(tops[row] - (top == -infinity_f32() ? 0.0f : top));
            tops[row] = top;
            totals[row] *= shrink;
            totals[row] += shuffle_xor(totals[row], distance);
            UNROLL
            for (u32 index = 0; index < RUN; ++index) {
                sums[row * RUN + index] *= shrink;
                sums[row * RUN + index] += shuffle_xor(sums[row * RUN + index], distance);
            }
        }
    }
    if (lane % 32 < TEAM) {
        if (place == 0) { warp_opens[warp] = open; }
        UNROLL
        for (u32 row = 0; row < ROWS; ++row) {
            if (place == 0) {
                warp_tops[warp * ROWS + row] = tops[row];
                warp_totals[warp * ROWS + row] = totals[row];
            }
            UNROLL
            for (u32 index = 0; index < RUN; ++index) {
                warp_sums[(warp * ROWS + row) * COLUMNS + own + index] = sums[row * RUN + index];
            }
        }
    }
    BARRIER();
    UNROLL
    for (u32 turn = 0; turn < ROWS * COLUMNS / THREADS + (ROWS * COLUMNS % THREADS != 0); ++turn) {
        const u32 index = turn * THREADS + lane, row = index / COLUMNS, column = index % COLUMNS;
        if (row < ROWS && first_row + row < p.rows && column < p.value_width) {
            f32 top = -infinity_f32(), total = 0.0f, sum = 0.0f;
            u32 opens = 0;
            UNROLL
            for (u32 from = 0; from < WARPS; ++from) {
                const f32 other = warp_tops[from * ROWS + row];
                top = other > top ? other : top;
                opens |= warp_opens[from];
            }
            UNROLL
            for (u32 from = 0; from < WARPS; ++from) {
                const f32 weight =
                    short_exp2(warp_tops[from * ROWS + row] - (top == -infinity_f32() ? 0.0f : top));
                total += warp_totals[from * ROWS + row] * weight;
                sum += warp_sums[(from * ROWS + row) * COLUMNS + column] * weight;
            }
            const bool is_open = (opens >> row & 1u) != 0;
            const u32 number = first_row + row, head = key_head * p.shares + number / p.queries;
#if PARTED
            const i64 slot = (i64(head_number) * p.rows + number) * p.parts + part;
            part_sums[slot * p.value_width + column] = sum;
            if (column == 0) {
                part_ends[slot * 2] = top;
                // Below zero: no score counts, though there are keys.
                part_ends[slot * 2 + 1] = total == 0.0f && is_open ? -1.0f : total;
            }
#else
            const i64 to = p.out_at + i64(batch) * p.out_batch + i64(head) * p.out_head +
                           i64(number % p.queries) * p.out_row + i64(column) * p.out_column;
            out[to] = stored(total != 0.0f ? sum / total : is_open ? nan_f32() : 0.0f);
#endif
        }
    }
