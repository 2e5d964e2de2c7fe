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
