    const u32 number = group_z * IMAGES_Y + group_y;
    if (number >= p.images) { return; }
    const u32 image = number / p.groups, group = number - image * p.groups;
    const u32 tile = DIVIDED_BY_DOWN(group_x);
    const u32 row_0 = (group_x - tile * DOWN) * ROWS, column_0 = tile * COLUMNS;
    const u32 row_place = lane / SIDE, column_place = lane % SIDE;
    SHARED Number* const weight_tile = (SHARED Number*)a_runs;
    SHARED Number* const image_tile = (SHARED Number*)b_runs;
    GLOBAL const Stored* const from = src + p.src_at + i64(image) * p.src_0 + i64(group * p.read) * p.src_1;
#if TRANSPOSED
    const i64 weight_row = p.weight_1, weight_channel = p.weight_0;
    GLOBAL const Stored* const factors = weight + p.weight_at + i64(group * p.read) * p.weight_0;
#else
    const i64 weight_row = p.weight_0, weight_channel = p.weight_1;
    GLOBAL const Stored* const factors = weight + p.weight_at + i64(group * p.made) * p.weight_0;
#endif

    // This thread fetches weights of one tap and of rows DEPTH threads apart, and of the image one pixel by taps
    // some apart.
    const u32 weight_depth = lane % DEPTH, weight_line = lane / DEPTH;
    const u32 image_line = lane % COLUMNS, image_depth = lane / COLUMNS;
    const u32 pixel = column_0 + image_line;
    const bool is_pixel = pixel < p.pixels;
    const u32 line = DIVIDED_BY_LINE(is_pixel ? pixel : 0u), plane = DIVIDED_BY_LINES(line);
    const i32 origin_0 = origin(i32(plane), p.stride_0, p.before_0);
    const i32 origin_1 = origin(i32(line - plane * LINES), p.stride_1, p.before_1);
    const i32 origin_2 = origin(i32((is_pixel ? pixel : 0u) - line * LINE), p.stride_2, p.before_2);

    Number sums[BLOCK_ROWS * BLOCK_COLUMNS];
    UNROLL
    for (u32 index = 0; index < BLOCK_ROWS * BLOCK_COLUMNS; ++index) { sums[index] = Number(0); }

    Number weight_next[ROW_FETCHES], image_next[COLUMN_FETCHES];
    // The next tile is fetched while this one is multiplied; the turn before the first only fetches.
    for (u32 turn = 0; turn <= p.depths + DEPTH - 1u; turn += DEPTH) {
        if (turn > 0u) {
            UNROLL
            for (u32 fetch = 0; fetch < ROW_FETCHES; ++fetch) {
                weight_tile[weight_depth * ROW_PITCH + weight_line + fetch * (THREADS / DEPTH)] = weight_next[fetch];
            }
            UNROLL
            for (u32 fetch = 0; fetch < COLUMN_FETCHES; ++fetch) {
                image_tile[(image_depth + fetch * (THREADS / COLUMNS)) * COLUMN_PITCH + image_line] =
                    image_next[fetch];
            }
            BARRIER();
        }
        {
            const u32 depth = turn + weight_depth;
            const bool is_tap = depth < p.depths;
            const u32 channel = DIVIDED_BY_TAPS(is_tap ? depth : 0u), tap = (is_tap ? depth : 0u) - channel * TAPS;
            const u32 z = DIVIDED_BY_PLANE_TAPS(tap), of_plane = tap - z * PLANE_TAPS;
            const u32 y = DIVIDED_BY_LINE_TAPS(of_plane), x = of_plane - y * LINE_TAPS;
            GLOBAL const Stored* const first =
                factors + i64(channel) * weight_channel + i64(z) * p.weight_2 + i64(y) * p.weight_3 + i64(x) * p.weight_4;
            UNROLL
            for (u32 fetch = 0; fetch < ROW_FETCHES; ++fetch) {
                const u32 row = row_0 + weight_line + fetch * (THREADS / DEPTH);
                weight_next[fetch] = Number(0);
                if (is_tap && row < p.made) { weight_next[fetch] = loaded(first[i64(row) * weight_row]); }
            }
        }
        UNROLL
        for (u32 fetch = 0; fetch < COLUMN_FETCHES; ++fetch) {
            const u32 depth = turn + image_depth + fetch * (THREADS / COLUMNS);
            image_next[fetch] = Number(0);
            if (is_pixel && depth < p.depths) {
                const u32 channel = DIVIDED_BY_TAPS(depth), tap = depth - channel * TAPS;
                const u32 z = DIVIDED_BY_PLANE_TAPS(tap), of_plane = tap - z * PLANE_TAPS;
                const u32 y = DIVIDED_BY_LINE_TAPS(of_plane), x = of_plane - y * LINE_TAPS;
                const i32 at_0 = seen(origin_0, i32(z) * p.dilation_0, p.stride_0, p.extent_0);
                const i32 at_1 = seen(origin_1, i32(y) * p.dilation_1, p.stride_1, p.extent_1);
                const i32 at_2 = seen(origin_2, i32(x) * p.dilation_2, p.stride_2, p.extent_2);
                if (at_0 >= 0 && at_1 >= 0 && at_2 >= 0) {
                    image_next[fetch] = loaded(
                        from[i64(channel) * p.src_1 + at_0 * p.src_2 + at_1 * p.src_3 + at_2 * p.src_4]);
                }
            }
        }
        if (turn == 0u) { continue; }
