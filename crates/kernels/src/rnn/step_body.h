    // Each warp has a unit of some sequences, and each thread a part of the state that they are multiplied with.
    const u32 blocks = (p.hidden + WARPS - 1) / WARPS;
    const u32 direction = group_x / blocks / p.parts, first = group_x / blocks % p.parts * RUN;
    const u32 unit = group_x % blocks * WARPS + lane / 32, place = lane % 32;
    const bool backwards = direction == 1 || p.reverse != 0;
    const u32 step = backwards ? p.steps - 1 - p.turn : p.turn;
    const i64 states = i64(direction) * p.batch * p.hidden;
    // The first threads have a sequence each. What they see of the input they ask for at once.
    const u32 sequence = first + place;
    const bool inside = unit < p.hidden, is_own = inside && place < RUN && sequence < p.batch;
    f32 seen[GATES];
    f32 apart = 0.0f;
    UNROLL
    for (u32 gate = 0; gate < GATES; ++gate) { seen[gate] = is_own ? SEEN(step, sequence, gate, unit) : 0.0f; }
    if (is_own) { apart = APART(step, sequence, unit); }

    f32 sums[RUN * GATES];
    UNROLL
    for (u32 index = 0; index < RUN * GATES; ++index) { sums[index] = 0.0f; }
    GLOBAL const Stored* const from =
        weights + p.weights_at + i64(direction) * p.weights_direction + i64(unit) * p.weights_row;
    for (u32 k = place * VECTOR; inside && k < p.hidden; k += 32 * VECTOR) {
        Pack<Stored, VECTOR> own_weights[GATES];
        UNROLL
        for (u32 gate = 0; gate < GATES; ++gate) {
            own_weights[gate] = load_pack<VECTOR>(from + GATE_ROW(gate, 0) * p.weights_row + k);
        }
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
