    // Both kinds of steps end so: a thread has what the gates see for one unit of one sequence.
    if (is_own) {
        const bool beyond = IS_BEYOND(step, sequence);
        const f32 peeps[3] = {PEEP(0, unit), PEEP(1, unit), PEEP(2, unit)};
        f32 cell = cell_before;
        const f32 made = advanced(seen, apart, before, cell, peeps);
        const f32 after = beyond ? before : made;
        KEEP_STATE(at, after)
        DST(step, sequence, unit) = stored(beyond ? 0.0f : made);
        cell = beyond ? cell_before : cell;
#if CELL == LSTM
        own_cells[at] = cell;
#endif
        if (p.turn + 1 == p.steps) {
            PUT_LAST_HIDDEN(sequence, unit, after)
            PUT_LAST_CELL(sequence, unit, cell)
        }
    }
