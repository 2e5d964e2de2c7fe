    // The step before lets this one be launched early. It does not write weights, and all that came before it is over. So weights
    // that fit into registers are fetched while it runs.
    Pack<Weight, WEIGHTS> ahead[AHEAD + 1][GATES];
    if (p.turn > 0) {
        UNROLL
        for (u32 round = 0; round < AHEAD; ++round) { FETCH_WEIGHTS(ahead[round], round) }
    }
    WAIT_FOR_EARLIER_KERNELS();
    if (p.turn + 1 < p.steps) { START_NEXT_KERNEL(); }
    // Who ends a unit of one sequence asks at once for what that sees of the input, and for its state.
    const i64 at = states + i64(sequence) * p.hidden + unit;
    f32 seen[GATES];
    f32 apart = 0.0f, before = 0.0f, cell_before = 0.0f;
    UNROLL
    for (u32 gate = 0; gate < GATES; ++gate) { seen[gate] = is_own ? SEEN(step, sequence, gate, unit) : 0.0f; }
    if (is_own) {
        apart = APART(step, sequence, unit);
        before = p.turn == 0 ? FIRST_HIDDEN(sequence, unit) : STATE_BEFORE(at);
#if CELL == LSTM
        cell_before = p.turn == 0 ? FIRST_CELL(sequence, unit) : own_cells[at];
#endif
    }
    if (p.turn == 0) {
        UNROLL
        for (u32 round = 0; round < AHEAD; ++round) { FETCH_WEIGHTS(ahead[round], round) }
    }
#if AHEAD
#define ROUNDS AHEAD
#define UNROLL_ROUNDS UNROLL
#define OWN_WEIGHTS(round) PRIVATE const Pack<Weight, WEIGHTS>* const own_weights = ahead[round];
#else
#define ROUNDS ((p.hidden + OF_ROUND - 1) / OF_ROUND)
#define UNROLL_ROUNDS
#define OWN_WEIGHTS(round) \
    Pack<Weight, WEIGHTS> own_weights[GATES]; \
    FETCH_WEIGHTS(own_weights, round)
#endif
