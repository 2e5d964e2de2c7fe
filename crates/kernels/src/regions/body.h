    const i64 index = i64(group_x) * threads + lane;
    if (index >= p.count) { return; }
    const i64 column = index % p.columns, lines = index / p.columns;
    const i64 row = lines % p.rows, planes = lines / p.rows;
    const i64 channel = planes % p.channels, region = planes / p.channels;
    const i64 named = batches[p.batches_at + region * p.batches_0];
    const i64 batch = named >= 0 && named < p.pictures ? named : 0;
    GLOBAL const Stored* picture = src + p.src_at + batch * p.src_0 + channel * p.src_1;
    const i64 corner = p.corners_at + region * p.corners_0;
    const Number x0 = corners[corner], y0 = corners[corner + p.corners_1];
    const Number x1 = corners[corner + 2 * p.corners_1], y1 = corners[corner + 3 * p.corners_1];
    const Samples down = samples_of(y0, y1, p.scale, i32(row), i32(p.rows), p.height, p.samples);
    const Samples across = samples_of(x0, x1, p.scale, i32(column), i32(p.columns), p.width, p.samples);
    Number result = Number(0);
    bool any = false, outside = down.outside || across.outside;
    for (i32 i = down.begin; i < down.end; i++) {
        const Tap vertical = tap_of(down, i, p.height);
        if (!vertical.inside) { outside = true; continue; }
        Number line = Number(0);
        for (i32 j = across.begin; j < across.end; j++) {
            const Tap level = tap_of(across, j, p.width);
            if (!level.inside) { outside = true; continue; }
            const i64 top = vertical.low * p.src_2, bottom = vertical.high * p.src_2;
            const i64 left = level.low * p.src_3, right = level.high * p.src_3;
            const Number a = LOADED(top + left), b = LOADED(top + right);
            const Number c = LOADED(bottom + left), d = LOADED(bottom + right);
            if (LARGEST) {
                const Number upper = m_max(a * (vertical.near * level.near), b * (vertical.near * level.far));
                const Number lower = m_max(c * (vertical.far * level.near), d * (vertical.far * level.far));
                result = any ? m_max(result, m_max(upper, lower)) : m_max(upper, lower);
            } else {
                line += (a * level.near + b * level.far) * vertical.near + (c * level.near + d * level.far) * vertical.far;
            }
            any = true;
        }
        if (!LARGEST) { result += line; }
    }
    if (LARGEST) {
        if (any && outside) { result = m_max(result, Number(0)); }
    } else if (any) {
        result = result / (down.count * across.count);
    }
    dst[p.dst_at + region * p.dst_0 + channel * p.dst_1 + row * p.dst_2 + column * p.dst_3] = STORED(result);
