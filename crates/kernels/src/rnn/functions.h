#if !SHORT
FUNCTION Number squashed(Number x) { return act_sigmoid(x); }
FUNCTION Number bent(Number x) { return m_tanh(x); }
#else
FUNCTION Number squashed(Number x) { return short_inverse(1.0f + short_exp2(-1.4426950408889634f * x)); }
FUNCTION Number bent(Number x) { return 1.0f - 2.0f * short_inverse(1.0f + short_exp2(2.8853900817779268f * x)); }
#endif

// The state after a step, of what the gates see, and of the last gate's part of the input where that is apart.
FUNCTION Number advanced(PRIVATE const Number* seen, Number apart, Number before, PRIVATE Number& cell,
                         PRIVATE const Number* peeps) {
#if CELL == TANH
    return bent(seen[0]);
#elif CELL == RELU
    return act_relu(seen[0]);
#elif CELL == GRU_AFTER
    const Number update = squashed(seen[0]);
    const Number made = bent(apart + squashed(seen[1]) * seen[2]);
    return (Number(1) - update) * made + update * before;
#elif CELL == GRU_BEFORE
    // The cell holds the update gate.
    return (Number(1) - cell) * bent(seen[2]) + cell * before;
#else
    const Number kept = squashed(seen[2] + peeps[2] * cell) * cell;
    cell = kept + squashed(seen[0] + peeps[0] * cell) * bent(seen[3]);
    return squashed(seen[1] + peeps[1] * cell) * bent(cell);
#endif
}

// Both biases of a gate that can be added at once.
#define GATE_ROW(gate, unit) (i64(gate) * p.hidden + (unit))
#if HAS_BIAS
#define BIAS(row) loaded(bias[p.bias_at + i64(direction) * p.bias_direction + (row) * p.bias_row])
#else
#define BIAS(row) Number(0)
#endif
#define OWN_BIAS(gate, unit) BIAS(GATE_ROW(gate, unit))
#define OTHER_BIAS(gate, unit) BIAS(GATE_ROW(GATES + (gate), unit))
#if HAS_PEEPHOLE
#define PEEP(gate, unit) \
    loaded(peephole[p.peephole_at + i64(direction) * p.peephole_direction + GATE_ROW(gate, unit) * p.peephole_row])
#else
#define PEEP(gate, unit) Number(0)
#endif
#if HAS_LENGTHS
#define LENGTH(sequence) lengths[p.lengths_at + i64(sequence) * p.lengths_row]
#define IS_BEYOND(step, sequence) (i64(step) >= i64(LENGTH(sequence)))
#else
#define IS_BEYOND(step, sequence) false
#endif
#define STATE_AT(name, sequence, unit) \
    name[p.name##_at + i64(direction) * p.name##_direction + i64(sequence) * p.name##_sequence + \
         i64(unit) * p.name##_unit]
#if HAS_HIDDEN
#define FIRST_HIDDEN(sequence, unit) loaded(STATE_AT(hidden, sequence, unit))
#else
#define FIRST_HIDDEN(sequence, unit) Number(0)
#endif
#if HAS_CELL
#define FIRST_CELL(sequence, unit) loaded(STATE_AT(cell, sequence, unit))
#else
#define FIRST_CELL(sequence, unit) Number(0)
#endif
#if HAS_LAST_HIDDEN
#define PUT_LAST_HIDDEN(sequence, unit, value) STATE_AT(last_hidden, sequence, unit) = stored(value);
#else
#define PUT_LAST_HIDDEN(sequence, unit, value)
#endif
#if HAS_LAST_CELL
#define PUT_LAST_CELL(sequence, unit, value) STATE_AT(last_cell, sequence, unit) = stored(value);
#else
#define PUT_LAST_CELL(sequence, unit, value)
#endif
#define DST(step, sequence, unit) \
    dst[p.dst_at + i64(step) * p.dst_step + i64(direction) * p.dst_direction + \
        i64(sequence) * p.dst_sequence + i64(unit) * p.dst_unit]
// What a gate sees of the input.
#define PROJECTED(step, sequence, gate, unit) \
    projected[((i64(direction) * p.steps + (step)) * p.batch + (sequence)) * GATES * p.hidden + GATE_ROW(gate, unit)]
// The last gate of such a cell has its part of the input added after the reset.
#define IS_APART(gate) (CELL == GRU_AFTER && (gate) == 2)

// What a gate sees of the input and of the biases, as far as they can be added to what it sees of the state.
#define SEEN(step, sequence, gate, unit) \
    ((IS_APART(gate) ? Number(0) : PROJECTED(step, sequence, gate, unit) + OWN_BIAS(gate, unit)) + \
     OTHER_BIAS(gate, unit))
#define APART(step, sequence, unit) \
    (CELL == GRU_AFTER ? PROJECTED(step, sequence, GATES - 1, unit) + OWN_BIAS(GATES - 1, unit) : Number(0))
