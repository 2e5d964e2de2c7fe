    // Each warp has a unit of some sequences, and each thread a part of the state that they are multiplied with.
    const u32 blocks = (p.hidden + WARPS - 1) / WARPS;
    const u32 direction = group_x / blocks / p.parts, first = group_x / blocks % p.parts * RUN;
    const u32 unit = group_x % blocks * WARPS + lane / 32, place = lane % 32;
    const bool backwards = direction == 1 || p.reverse != 0;
    const u32 step = backwards ? p.steps - 1 - p.turn : p.turn;
    const i64 states = i64(direction) * p.batch * p.hidden;
    // The first threads have a sequence each.
    const u32 sequence = first + place;
    const bool inside = unit < p.hidden, is_own = inside && place < RUN && sequence < p.batch;
    GLOBAL const Stored* const from =
        weights + p.weights_at + i64(direction) * p.weights_direction + i64(unit) * p.weights_row;
#define FIRST_OF(round) (((round) * 32 + place) * VECTOR)
#define FETCH_WEIGHTS(to, round) \
    UNROLL \
    for (u32 gate = 0; gate < GATES && inside && FIRST_OF(round) < p.hidden; ++gate) { \
        to[gate] = load_changed<VECTOR>(from + GATE_ROW(gate, 0) * p.weights_row + FIRST_OF(round)); \
    }
