    f32 sums[RUN * GATES];
    UNROLL
    for (u32 index = 0; index < RUN * GATES; ++index) { sums[index] = 0.0f; }
    UNROLL_ROUNDS
    for (u32 round = 0; round < ROUNDS; ++round) {
        const u32 k = FIRST_OF(round);
        if (!inside || k >= p.hidden) { continue; }
        OWN_WEIGHTS(round)
        UNROLL
        for (u32 index = 0; index < RUN; ++index) {
            if (first + index >= p.batch) { continue; }
            UNROLL
            for (u32 part = 0; part < VECTOR / PART; ++part) {
                Pack<f32, PART> state;
                if (p.turn == 0) {
                    UNROLL
                    for (u32 at = 0; at < PART; ++at) {
                        state.values[at] = FIRST_HIDDEN(first + index, k + part * PART + at);
                    }
                } else {
                    state = load_pack<PART>(current + states + i64(first + index) * p.hidden + k + part * PART);
                }
                UNROLL
                for (u32 gate = 0; gate < GATES; ++gate) {
                    UNROLL
                    for (u32 at = 0; at < PART; ++at) {
                        sums[index * GATES + gate] +=
                            loaded(own_weights[gate].values[part * PART + at]) * state.values[at];
                    }
                }
            }
        }
    }
    UNROLL
    for (u32 index = 0; index < RUN; ++index) {
        UNROLL
        for (u32 gate = 0; gate < GATES; ++gate) {
            f32 sum = sums[index * GATES + gate];
            UNROLL
            for (u32 distance = 1; distance < 32; distance *= 2) { sum += shuffle_xor(sum, distance); }
            if (place == index) { seen[gate] += sum; }
        }
    }
