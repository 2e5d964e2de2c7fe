
    UNROLL
    for (u32 column = 0; column < BLOCK_COLUMNS; ++column) {
        const u32 out = column_0 + block_line<COLUMN_RUN>(column_place, column);
        if (out >= p.pixels) { continue; }
        const u32 out_line = DIVIDED_BY_LINE(out), out_plane = DIVIDED_BY_LINES(out_line);
        GLOBAL Stored* const to = dst + p.dst_at + i64(image) * p.dst_0 + i64(out_plane) * p.dst_2 +
                                  i64(out_line - out_plane * LINES) * p.dst_3 + i64(out - out_line * LINE) * p.dst_4;
        UNROLL
        for (u32 row = 0; row < BLOCK_ROWS; ++row) {
            const u32 of_group = row_0 + block_line<ROW_RUN>(row_place, row);
            if (of_group < p.made) {
                const u32 channel = group * p.made + of_group;
                to[i64(channel) * p.dst_1] = finished(sums[row * BLOCK_COLUMNS + column] + BIAS(channel));
            }
        }
    }
