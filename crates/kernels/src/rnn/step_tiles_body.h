    // Each group has eight units of some sequences, and each of its warps multiplies a part of their state.
    const u32 blocks = p.hidden / 8;
    const u32 direction = group_x / blocks / p.parts, first = group_x / blocks % p.parts * SEQUENCES;
    const u32 own_first = group_x % blocks * 8, warp = lane / 32, place = lane % 32;
    const u32 row_place = place / 4, piece = place % 4 * NEIGHBOURS;
    const bool backwards = direction == 1 || p.reverse != 0;
    const u32 step = backwards ? p.steps - 1 - p.turn : p.turn;
    const i64 states = i64(direction) * p.batch * p.hidden;
    // Each thread ends one sum of each gate. What it sees of the input it asks for at once.
    const u32 own_row = lane / 8, unit = own_first + lane % 8, sequence = first + own_row;
    const bool is_own = own_row < SEQUENCES && sequence < p.batch;
    f32 seen[GATES];
    f32 apart = 0.0f;
    UNROLL
    for (u32 gate = 0; gate < GATES; ++gate) { seen[gate] = is_own ? SEEN(step, sequence, gate, unit) : 0.0f; }
    if (is_own) { apart = APART(step, sequence, unit); }

    if (HAS_HIDDEN || p.turn > 0) {
        f32 sums[TILES * GATES * 4];
        UNROLL
        for (u32 index = 0; index < TILES * GATES * 4; ++index) { sums[index] = 0.0f; }
        GLOBAL const Stored* const from =
            weights + p.weights_at + i64(direction) * p.weights_direction + i64(own_first + row_place) * p.weights_row;
        for (u32 begin = warp * 4 * NEIGHBOURS; begin < p.hidden; begin += WARPS * 4 * NEIGHBOURS) {
            // A thread reads 16 bytes of neighbours where the tiles have four: both factors have their columns in the same order.
            const u32 k = begin + piece;
            Pack<u32, 4> right[GATES], left[TILES * 2];
            UNROLL
            for (u32 gate = 0; gate < GATES; ++gate) {
                right[gate] = Pack<u32, 4>{{0, 0, 0, 0}};
                if (k < p.hidden) {
                    right[gate] = load_pack<4>((GLOBAL const u32*)(from + GATE_ROW(gate, 0) * p.weights_row + k));
                }
            }
            UNROLL
            for (u32 block = 0; block < TILES * 2; ++block) {
                const u32 row = first + block * 8 + row_place;
                left[block] = Pack<u32, 4>{{0, 0, 0, 0}};
                if (k < p.hidden && row < p.batch) {
                    left[block] = load_pack<4>((GLOBAL const u32*)(current + states + i64(row) * p.hidden + k));
                }
            }
            UNROLL
            for (u32 part = 0; part < 4; part += 2) {
                UNROLL
                for (u32 tile = 0; tile < TILES; ++tile) {
                    const u32 a[4] = {left[tile * 2].values[part], left[tile * 2 + 1].values[part],
                                      left[tile * 2].values[part + 1], left[tile * 2 + 1].values[part + 1]};
                    UNROLL
                    for (u32 gate = 0; gate < GATES; ++gate) {
                        MULTIPLY_TILES(sums + (tile * GATES + gate) * 4, a, right[gate].values[part],
                                       right[gate].values[part + 1], place);
                    }
                }
            }
        }
        UNROLL
        for (u32 index = 0; index < TILES * GATES * 4; ++index) {
            const u32 gate = index / 4 % GATES, row = index / 4 / GATES * 16 + index % 4 / 2 * 8 + row_place;
            parts[((warp * GATES + gate) * SEQUENCES + row) * 8 + place % 4 * 2 + index % 2] = sums[index];
        }
        BARRIER();
        if (is_own) {
            UNROLL
            for (u32 index = 0; index < WARPS * GATES; ++index) {
                seen[index % GATES] += parts[(index * SEQUENCES + own_row) * 8 + lane % 8];
            }
#if IS_SPLIT
            // Parts of what is infinite are none.
            UNROLL
            for (u32 gate = 0; gate < GATES; ++gate) {
                if (seen[gate] - seen[gate] == 0.0f) { continue; }
                GLOBAL const f32* const row = from + (GATE_ROW(gate, lane % 8) - i64(row_place)) * p.weights_row;
                GLOBAL const f32* const state = current + states + i64(sequence) * p.hidden;
                seen[gate] = SEEN(step, sequence, gate, unit);
                for (u32 k = 0; k < p.hidden; ++k) { seen[gate] += state[k] * row[k]; }
            }
#endif
        }
    }
