    // Each group has eight units of some sequences, and each of its warps multiplies a part of their state.
    const u32 blocks = p.hidden / 8;
    const u32 direction = group_x / blocks / p.parts, first = group_x / blocks % p.parts * SEQUENCES;
    const u32 own_first = group_x % blocks * 8, warp = lane / 32, place = lane % 32;
    const u32 row_place = place / 4;
    const bool backwards = direction == 1 || p.reverse != 0;
    const u32 step = backwards ? p.steps - 1 - p.turn : p.turn;
    const i64 states = i64(direction) * p.batch * p.hidden;
    // Each thread ends one sum of each gate.
    const u32 own_row = lane / 8, unit = own_first + lane % 8, sequence = first + own_row;
    const bool is_own = own_row < SEQUENCES && sequence < p.batch;
    GLOBAL const Stored* const from =
        weights + p.weights_at + i64(direction) * p.weights_direction + i64(own_first + row_place) * p.weights_row;
// A thread reads 16 bytes of neighbours where the tiles have four: both factors have their columns in the same order.
#define FIRST_OF(round) ((((round) * WARPS + warp) * 4 + place % 4) * VECTOR)
#define FETCH_WEIGHTS(to, round) \
    UNROLL \
    for (u32 gate = 0; gate < GATES; ++gate) { \
        to[gate] = Pack<u32, 4>{{0, 0, 0, 0}}; \
        if (FIRST_OF(round) < p.hidden) { \
            to[gate] = load_changed<4>((GLOBAL const u32*)(from + GATE_ROW(gate, 0) * p.weights_row + FIRST_OF(round))); \
        } \
    }

    // The step before lets this one be launched early. It does not write weights, and all that came before it is over. So weights
    // that fit into registers are fetched while it runs.
    Pack<u32, 4> ahead[AHEAD + 1][GATES];
    if (p.turn > 0) {
        UNROLL
        for (u32 round = 0; round < AHEAD; ++round) { FETCH_WEIGHTS(ahead[round], round) }
    }
    WAIT_FOR_EARLIER_KERNELS();
    if (AHEAD > 0 && p.turn + 1 < p.steps) { START_NEXT_KERNEL(); }
    // What it sees of the input a thread asks for at once.
    f32 seen[GATES];
    f32 apart = 0.0f;
    UNROLL
    for (u32 gate = 0; gate < GATES; ++gate) { seen[gate] = is_own ? SEEN(step, sequence, gate, unit) : 0.0f; }
    if (is_own) { apart = APART(step, sequence, unit); }
    if (p.turn == 0) {
        UNROLL
        for (u32 round = 0; round < AHEAD; ++round) { FETCH_WEIGHTS(ahead[round], round) }
    }
#if AHEAD
#define ROUNDS AHEAD
#define UNROLL_ROUNDS UNROLL
#define OWN_WEIGHTS(round) const Pack<u32, 4>* const own_weights = ahead[round];
#else
#define ROUNDS ((p.hidden + OF_ROUND - 1) / OF_ROUND)
#define UNROLL_ROUNDS
#define OWN_WEIGHTS(round) \
    Pack<u32, 4> own_weights[GATES]; \
    FETCH_WEIGHTS(own_weights, round)
#endif
