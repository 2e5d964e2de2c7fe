    const i32 channel = i32(position3) * PACK;
    const i32 first = i32(position2) * RUN;
    const i32 begin_1 = i32(position1) * p.stride_1 - p.before_1;
    const i32 begin_2 = first * STRIDE - p.before_2;
    GLOBAL const Stored* from = src + p.src_at + (position0 * p.src_0 + channel);
    GLOBAL const Stored* factors = weight + p.weight_at + channel;
    Number sums[RUN * PACK];
    UNROLL
    for (i32 k = 0; k < RUN * PACK; ++k) { sums[k] = Number(0); }
    UNROLL
    for (i32 tap_1 = 0; tap_1 < KERNEL_1; ++tap_1) {
        const i32 at_1 = begin_1 + tap_1 * p.dilation_1;
        if (at_1 < 0 || at_1 >= p.extent_1) { continue; }
        Channels elements[SEEN];
        UNROLL
        for (i32 place = 0; place < SEEN; ++place) {
            const i32 at_2 = begin_2 + place;
            const bool inside = at_2 >= 0 && at_2 < p.extent_2;
            elements[place] = channels(from + (at_1 * p.src_3 + (inside ? at_2 : 0) * p.src_4));
        }
        UNROLL
        for (i32 tap_2 = 0; tap_2 < KERNEL_2; ++tap_2) {
            const Channels scale = channels(factors + (tap_1 * p.weight_3 + tap_2 * p.weight_4));
            UNROLL
            for (i32 run = 0; run < RUN; ++run) {
                const i32 at_2 = begin_2 + run * STRIDE + tap_2;
                const bool inside = at_2 >= 0 && at_2 < p.extent_2;
                UNROLL
                for (i32 k = 0; k < PACK; ++k) {
                    const Number element = loaded(elements[run * STRIDE + tap_2].values[k]);
                    const Number sum = m_fma(element, loaded(scale.values[k]), sums[run * PACK + k]);
                    sums[run * PACK + k] = inside ? sum : sums[run * PACK + k];
                }
            }
        }
    }
    UNROLL
    for (i32 run = 0; run < RUN; ++run) {
        if (u32(first + run) >= p.size4) { return; }
        Channels made;
        UNROLL
        for (i32 k = 0; k < PACK; ++k) {
            made.values[k] = finished(sums[run * PACK + k] + BIAS(channel + k));
        }
        put(dst + p.dst_at + (position0 * p.dst_0 + position1 * p.dst_3 + (first + run) * p.dst_4 + channel), made);
    }
