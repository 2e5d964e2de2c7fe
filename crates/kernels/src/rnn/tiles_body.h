    // Each warp has eight units: their weights stay in its registers. States are rounded as they are multiplied.
    const u32 direction = group_x / p.parts, first = group_x % p.parts * SEQUENCES;
    const bool backwards = direction == 1 || p.reverse != 0;
    const u32 place = lane % 32, own_first = lane / 32 * 8, row_place = place / 4, pair = place % 4 * 2;
    SHARED u16* current = (SHARED u16*)words;
    SHARED u16* next = current + SEQUENCES * PITCH;

    u32 own_weights[GATES * (WIDTH / 16) * 2];
    UNROLL
    for (u32 gate = 0; gate < GATES; ++gate) {
        UNROLL
        for (u32 k = 0; k < WIDTH / 8; ++k) {
            const u32 unit = own_first + row_place, column = k * 8 + pair;
            u32 both = 0;
            GLOBAL const u16* from = weights + p.weights_at + i64(direction) * p.weights_direction +
                                     GATE_ROW(gate, unit) * p.weights_row;
            if (unit < p.hidden && column < p.hidden) { both = from[i64(column) * p.weights_column]; }
            if (unit < p.hidden && column + 1 < p.hidden) {
                both |= u32(from[i64(column + 1) * p.weights_column]) << 16;
            }
            own_weights[gate * (WIDTH / 8) + k] = both;
        }
    }
    for (u32 index = lane; index < 2 * SEQUENCES * PITCH; index += THREADS) { current[index] = u16(0); }
    BARRIER();

    // Four of this thread's units and sequences in each tile: units pair and the next, of two rows.
    f32 states[TILES * 4], cells[TILES * 4];
    UNROLL
    for (u32 index = 0; index < TILES * 4; ++index) {
        const u32 row = index / 4 * 16 + index % 4 / 2 * 8 + row_place, unit = own_first + pair + index % 2;
        const bool inside = first + row < p.batch && unit < p.hidden;
        states[index] = inside ? FIRST_HIDDEN(first + row, unit) : 0.0f;
        cells[index] = inside ? FIRST_CELL(first + row, unit) : 0.0f;
        if (inside) { current[row * PITCH + unit] = stored(states[index]); }
    }
    BARRIER();
    for (u32 turn = 0; turn < p.steps; ++turn) {
        const u32 step = backwards ? p.steps - 1 - turn : turn;
#if CELL == GRU_BEFORE
        f32 sums[TILES * GATES * 4];
#endif
        UNROLL
        for (u32 tile = 0; tile < TILES; ++tile) {
#if CELL == GRU_BEFORE
            PRIVATE f32* const own = sums + tile * GATES * 4;
#else
            f32 own[GATES * 4];
#endif
            f32 apart[4];
            UNROLL
            for (u32 index = 0; index < 4; ++index) {
                const u32 sequence = first + tile * 16 + index / 2 * 8 + row_place;
                const u32 unit = own_first + pair + index % 2;
                const bool inside = sequence < p.batch && unit < p.hidden;
                UNROLL
                for (u32 gate = 0; gate < GATES; ++gate) {
                    own[gate * 4 + index] = 0.0f;
                    if (inside) { own[gate * 4 + index] = SEEN(step, sequence, gate, unit); }
                }
                apart[index] = 0.0f;
                if (inside) { apart[index] = APART(step, sequence, unit); }
            }
            UNROLL
            for (u32 k = 0; k < WIDTH / 16; ++k) {
                u32 a[4];
                load_tile(a, current + tile * 16 * PITCH + k * 16, PITCH, place);
                UNROLL
                for (u32 gate = 0; gate < FIRST_GATES; ++gate) {
                    PRIVATE const u32* b = own_weights + gate * (WIDTH / 8) + k * 2;
                    MULTIPLY_TILES(own + gate * 4, a, b[0], b[1], place);
                }
            }
            UNROLL
            for (u32 index = 0; index < 4; ++index) {
                const u32 row = tile * 16 + index / 2 * 8 + row_place, unit = own_first + pair + index % 2;
                const u32 sequence = first + row;
                const bool inside = sequence < p.batch && unit < p.hidden;
#if CELL == GRU_BEFORE
                cells[tile * 4 + index] = squashed(own[index]);
                if (inside) {
                    next[row * PITCH + unit] = stored(squashed(own[4 + index]) * states[tile * 4 + index]);
                }
#else
                if (inside) {
                    f32 seen[GATES];
                    UNROLL
                    for (u32 gate = 0; gate < GATES; ++gate) { seen[gate] = own[gate * 4 + index]; }
                    const f32 peeps[3] = {PEEP(0, unit), PEEP(1, unit), PEEP(2, unit)};
                    const bool beyond = IS_BEYOND(step, sequence);
                    const f32 before = states[tile * 4 + index];
                    f32 cell = cells[tile * 4 + index];
                    const f32 after = advanced(seen, apart[index], before, cell, peeps);
                    cells[tile * 4 + index] = beyond ? cells[tile * 4 + index] : cell;
                    states[tile * 4 + index] = beyond ? before : after;
                    next[row * PITCH + unit] = stored(beyond ? before : after);
                    DST(step, sequence, unit) = stored(beyond ? 0.0f : after);
                }
#endif
            }
        }
        BARRIER();
#if CELL == GRU_BEFORE
        UNROLL
        for (u32 tile = 0; tile < TILES; ++tile) {
            PRIVATE f32* const own = sums + tile * GATES * 4;
            UNROLL
            for (u32 k = 0; k < WIDTH / 16; ++k) {
                u32 a[4];
                load_tile(a, next + tile * 16 * PITCH + k * 16, PITCH, place);
                PRIVATE const u32* b = own_weights + 2 * (WIDTH / 8) + k * 2;
                MULTIPLY_TILES(own + 8, a, b[0], b[1], place);
            }
            UNROLL
            for (u32 index = 0; index < 4; ++index) {
                const u32 row = tile * 16 + index / 2 * 8 + row_place, unit = own_first + pair + index % 2;
                const u32 sequence = first + row;
                if (sequence < p.batch && unit < p.hidden) {
                    const bool beyond = IS_BEYOND(step, sequence);
                    const f32 seen[3] = {0.0f, 0.0f, own[8 + index]};
                    const f32 peeps[3] = {0.0f, 0.0f, 0.0f};
                    f32 cell = cells[tile * 4 + index];
                    const f32 after = advanced(seen, 0.0f, states[tile * 4 + index], cell, peeps);
                    if (!beyond) {
                        states[tile * 4 + index] = after;
                        current[row * PITCH + unit] = stored(after);
                    }
                    DST(step, sequence, unit) = stored(beyond ? 0.0f : after);
                }
            }
        }
        BARRIER();
#else
        SHARED u16* const other = current;
        current = next;
        next = other;
#endif
    }
    UNROLL
    for (u32 index = 0; index < TILES * 4; ++index) {
        const u32 row = index / 4 * 16 + index % 4 / 2 * 8 + row_place, unit = own_first + pair + index % 2;
        if (first + row < p.batch && unit < p.hidden) {
            PUT_LAST_HIDDEN(first + row, unit, states[index])
            PUT_LAST_CELL(first + row, unit, cells[index])
        }
    }
