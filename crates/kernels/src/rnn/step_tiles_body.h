    if (HAS_HIDDEN || p.turn > 0) {
        f32 sums[TILES * GATES * 4];
        UNROLL
        for (u32 index = 0; index < TILES * GATES * 4; ++index) { sums[index] = 0.0f; }
        UNROLL_ROUNDS
        for (u32 round = 0; round < ROUNDS; ++round) {
            // A warp's threads go on together.
            if ((round * WARPS + warp) * 4 * VECTOR >= p.hidden) { continue; }
            const u32 k = FIRST_OF(round);
            OWN_WEIGHTS(round)
            Pack<u32, 4> left[TILES * 2];
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
                        MULTIPLY_TILES(sums + (tile * GATES + gate) * 4, a, own_weights[gate].values[part],
                                       own_weights[gate].values[part + 1], place);
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
