    // Each simdgroup has eight units: their weights stay in its registers. States are rounded as they are multiplied.
    const u32 direction = group_x / p.parts, first = group_x % p.parts * SEQUENCES;
    const bool backwards = direction == 1 || p.reverse != 0;
    const u32 place = lane % 32, part = lane / 32, own_first = part * 8, row_place = place / 4, pair = place % 4 * 2;
    SHARED u16* current = (SHARED u16*)words;
    SHARED u16* next = current + SEQUENCES * PITCH;
    // Nobody knows which thread holds which element of a matrix: all go by here.
    SHARED f32* const strip = strips + part * (GATES * 64);

    simdgroup_matrix<Factor, 8, 8> own_weights[GATES * (WIDTH / 8)];
    UNROLL
    for (u32 gate = 0; gate < GATES; ++gate) {
        UNROLL
        for (u32 k = 0; k < WIDTH / 8; ++k) {
            SHARED u16* const block = (SHARED u16*)strip;
            const u32 unit = own_first + row_place;
            GLOBAL const u16* from = weights + p.weights_at + i64(direction) * p.weights_direction +
                                     GATE_ROW(gate, unit) * p.weights_row;
            UNROLL
            for (u32 index = 0; index < 2; ++index) {
                const u32 column = k * 8 + pair + index;
                const bool inside = unit < p.hidden && column < p.hidden;
                block[row_place * 8 + pair + index] = inside ? from[i64(column) * p.weights_column] : u16(0);
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
            simdgroup_load(own_weights[gate * (WIDTH / 8) + k], (SHARED const Factor*)block, 8, 0, true);
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
    for (u32 index = lane; index < 2 * SEQUENCES * PITCH; index += THREADS) { current[index] = u16(0); }
    BARRIER();

    // Two of this thread's units of a sequence in each tile: units pair and the next.
    f32 states[TILES * 2], cells[TILES * 2];
    UNROLL
    for (u32 index = 0; index < TILES * 2; ++index) {
        const u32 row = index / 2 * 8 + row_place, unit = own_first + pair + index % 2;
        const bool inside = first + row < p.batch && unit < p.hidden;
        states[index] = inside ? FIRST_HIDDEN(first + row, unit) : 0.0f;
        cells[index] = inside ? FIRST_CELL(first + row, unit) : 0.0f;
        if (inside) { current[row * PITCH + unit] = stored(states[index]); }
    }
    BARRIER();
    for (u32 turn = 0; turn < p.steps; ++turn) {
        const u32 step = backwards ? p.steps - 1 - turn : turn;
        UNROLL
        for (u32 tile = 0; tile < TILES; ++tile) {
            put_products<FIRST_GATES>(strip, current + tile * 8 * PITCH, own_weights);
            UNROLL
            for (u32 index = 0; index < 2; ++index) {
                const u32 row = tile * 8 + row_place, unit = own_first + pair + index, sequence = first + row;
                if (sequence < p.batch && unit < p.hidden) {
                    f32 seen[GATES];
                    UNROLL
                    for (u32 gate = 0; gate < GATES; ++gate) {
                        seen[gate] = SEEN(step, sequence, gate, unit);
                        if (gate < FIRST_GATES) { seen[gate] += strip[gate * 64 + row_place * 8 + pair + index]; }
                    }
#if CELL == GRU_BEFORE
                    cells[tile * 2 + index] = squashed(seen[0]);
                    next[row * PITCH + unit] = stored(squashed(seen[1]) * states[tile * 2 + index]);
#else
                    const f32 peeps[3] = {PEEP(0, unit), PEEP(1, unit), PEEP(2, unit)};
                    const bool beyond = IS_BEYOND(step, sequence);
                    const f32 before = states[tile * 2 + index];
                    f32 cell = cells[tile * 2 + index];
                    const f32 after = advanced(seen, APART(step, sequence, unit), before, cell, peeps);
                    cells[tile * 2 + index] = beyond ? cells[tile * 2 + index] : cell;
                    states[tile * 2 + index] = beyond ? before : after;
                    next[row * PITCH + unit] = stored(beyond ? before : after);
                    DST(step, sequence, unit) = stored(beyond ? 0.0f : after);
#endif
                }
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
        BARRIER();
#if CELL == GRU_BEFORE
        UNROLL
        for (u32 tile = 0; tile < TILES; ++tile) {
            put_products<1>(strip, next + tile * 8 * PITCH, own_weights + 2 * (WIDTH / 8));
            UNROLL
            for (u32 index = 0; index < 2; ++index) {
                const u32 row = tile * 8 + row_place, unit = own_first + pair + index, sequence = first + row;
                if (sequence < p.batch && unit < p.hidden) {
                    const bool beyond = IS_BEYOND(step, sequence);
                    const f32 seen[3] = {0.0f, 0.0f,
                                         SEEN(step, sequence, 2, unit) + strip[row_place * 8 + pair + index]};
                    const f32 peeps[3] = {0.0f, 0.0f, 0.0f};
                    f32 cell = cells[tile * 2 + index];
                    const f32 after = advanced(seen, 0.0f, states[tile * 2 + index], cell, peeps);
                    if (!beyond) {
                        states[tile * 2 + index] = after;
                        current[row * PITCH + unit] = stored(after);
                    }
                    DST(step, sequence, unit) = stored(beyond ? 0.0f : after);
                }
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
        BARRIER();
#else
        SHARED u16* const other = current;
        current = next;
        next = other;
#endif
    }
    UNROLL
    for (u32 index = 0; index < TILES * 2; ++index) {
        const u32 row = index / 2 * 8 + row_place, unit = own_first + pair + index % 2;
        if (first + row < p.batch && unit < p.hidden) {
            PUT_LAST_HIDDEN(first + row, unit, states[index])
            PUT_LAST_CELL(first + row, unit, cells[index])
        }
    }
