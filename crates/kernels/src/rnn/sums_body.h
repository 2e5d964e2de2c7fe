    const u32 direction = group_x / p.parts, first = group_x % p.parts * SEQUENCES;
    const bool backwards = direction == 1 || p.reverse != 0;
    const u32 unit_place = lane % UNITS, run_place = lane / UNITS * RUN;
    GLOBAL const Stored* own_weights = weights + i64(direction) * p.hidden * p.hidden * GATES;
#if STATES_SHARED
    STATE Number* current = (STATE Number*)states;
#else
    STATE Number* current = states + i64(group_x) * 3 * PITCH * p.hidden;
#endif
    STATE Number* next = current + i64(PITCH) * p.hidden;
    // What only this thread reads of a unit and a sequence again.
#if ONE_UNIT
    Number cells[RUN];
#define OWN_CELL(index) cells[index]
#else
    STATE Number* const cells = next + i64(PITCH) * p.hidden;
#define OWN_CELL(index) cells[unit * PITCH + run_place + (index)]
#endif
    for (u32 unit = unit_place; unit < p.hidden; unit += UNITS) {
        UNROLL
        for (u32 index = 0; index < RUN; ++index) {
            const u32 sequence = first + run_place + index;
            const bool inside = sequence < p.batch;
            current[unit * PITCH + run_place + index] = inside ? FIRST_HIDDEN(sequence, unit) : Number(0);
            OWN_CELL(index) = inside ? FIRST_CELL(sequence, unit) : Number(0);
        }
    }
    STATE_BARRIER();
    for (u32 turn = 0; turn < p.steps; ++turn) {
        const u32 step = backwards ? p.steps - 1 - turn : turn;
        for (u32 unit = unit_place; unit < p.hidden; unit += UNITS) {
            Number sums[RUN * GATES];
            UNROLL
            for (u32 index = 0; index < RUN; ++index) {
                const u32 sequence = first + run_place + index;
                UNROLL
                for (u32 gate = 0; gate < FIRST_GATES; ++gate) {
                    sums[index * GATES + gate] = Number(0);
                    if (sequence < p.batch) { sums[index * GATES + gate] = SEEN(step, sequence, gate, unit); }
                }
            }
            multiply<0, FIRST_GATES>(sums, current + run_place, own_weights, unit, p.hidden);
            UNROLL
            for (u32 index = 0; index < RUN; ++index) {
                const u32 sequence = first + run_place + index;
                STATE Number* const to = next + unit * PITCH + run_place + index;
                const Number before = current[unit * PITCH + run_place + index];
#if CELL == GRU_BEFORE
                OWN_CELL(index) = squashed(sums[index * GATES]);
                *to = squashed(sums[index * GATES + 1]) * before;
#else
                if (sequence < p.batch) {
                    const bool beyond = IS_BEYOND(step, sequence);
                    const Number peeps[3] = {PEEP(0, unit), PEEP(1, unit), PEEP(2, unit)};
                    Number cell = OWN_CELL(index);
                    const Number after =
                        advanced(sums + index * GATES, APART(step, sequence, unit), before, cell, peeps);
                    OWN_CELL(index) = beyond ? OWN_CELL(index) : cell;
                    *to = beyond ? before : after;
                    DST(step, sequence, unit) = stored(beyond ? Number(0) : after);
                } else {
                    *to = Number(0);
                }
#endif
            }
        }
        STATE_BARRIER();
#if CELL == GRU_BEFORE
        for (u32 unit = unit_place; unit < p.hidden; unit += UNITS) {
            Number sums[RUN * GATES];
            UNROLL
            for (u32 index = 0; index < RUN; ++index) {
                const u32 sequence = first + run_place + index;
                sums[index * GATES + 2] = Number(0);
                if (sequence < p.batch) { sums[index * GATES + 2] = SEEN(step, sequence, 2, unit); }
            }
            multiply<2, 1>(sums, next + run_place, own_weights, unit, p.hidden);
            UNROLL
            for (u32 index = 0; index < RUN; ++index) {
                const u32 sequence = first + run_place + index;
                if (sequence < p.batch) {
                    const bool beyond = IS_BEYOND(step, sequence);
                    STATE Number* const to = current + unit * PITCH + run_place + index;
                    const Number peeps[3] = {Number(0), Number(0), Number(0)};
                    Number cell = OWN_CELL(index);
                    const Number after = advanced(sums + index * GATES, Number(0), *to, cell, peeps);
                    DST(step, sequence, unit) = stored(beyond ? Number(0) : after);
                    if (!beyond) { *to = after; }
                }
            }
        }
        STATE_BARRIER();
#else
        STATE Number* const other = current;
        current = next;
        next = other;
#endif
    }
    for (u32 unit = unit_place; unit < p.hidden; unit += UNITS) {
        UNROLL
        for (u32 index = 0; index < RUN; ++index) {
            const u32 sequence = first + run_place + index;
            if (sequence < p.batch) {
                PUT_LAST_HIDDEN(sequence, unit, current[unit * PITCH + run_place + index])
                PUT_LAST_CELL(sequence, unit, OWN_CELL(index))
            }
        }
    }
