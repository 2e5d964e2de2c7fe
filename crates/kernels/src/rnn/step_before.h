    // What a thread that ends one unit of one sequence had before.
    const i64 at = states + i64(sequence) * p.hidden + unit;
    f32 before = 0.0f, cell_before = 0.0f;
    if (is_own) {
        before = p.turn == 0 ? FIRST_HIDDEN(sequence, unit) : STATE_BEFORE(at);
#if CELL == LSTM
        cell_before = p.turn == 0 ? FIRST_CELL(sequence, unit) : own_cells[at];
#endif
    }
