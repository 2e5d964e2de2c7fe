    const i32 channel = i32(CHANNEL) * PACK;
    const i32 first = i32(position2) * RUN;
    const i32 begin_across = i32(PLACE_ACROSS) * ACROSS(stride) - ACROSS(before);
    const i32 begin_along = first * STRIDE - ALONG(before);
    GLOBAL const Stored* from = src + p.src_at + (i32(position0) * p.src_0 + channel * p.src_1);
    GLOBAL const Stored* factors = weight + p.weight_at + channel * p.weight_0;
    Number sums[RUN * PACK];
    UNROLL
    for (i32 k = 0; k < RUN * PACK; ++k) { sums[k] = Number(0); }
    UNROLL
    for (i32 tap_across = 0; tap_across < KERNEL_ACROSS; ++tap_across) {
        const i32 at_across = begin_across + tap_across * ACROSS(dilation);
        if (at_across < 0 || at_across >= ACROSS(extent)) { continue; }
        Channels elements[SEEN];
        UNROLL
        for (i32 place = 0; place < SEEN; ++place) {
            const i32 at_along = begin_along + place;
            const bool inside = at_along >= 0 && at_along < ALONG(extent);
            elements[place] = channels(from + (at_across * STEP_ACROSS(src) + (inside ? at_along : 0) * STEP_ALONG(src)));
        }
        UNROLL
        for (i32 tap_along = 0; tap_along < KERNEL_ALONG; ++tap_along) {
            const Channels scale = channels(factors + (tap_across * STEP_ACROSS(weight) + tap_along * STEP_ALONG(weight)));
            UNROLL
            for (i32 run = 0; run < RUN; ++run) {
                const i32 at_along = begin_along + run * STRIDE + tap_along;
                const bool inside = at_along >= 0 && at_along < ALONG(extent);
                UNROLL
                for (i32 k = 0; k < PACK; ++k) {
                    const Number element = loaded(elements[run * STRIDE + tap_along].values[k]);
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
        put(dst + p.dst_at + (i32(position0) * p.dst_0 + i32(PLACE_ACROSS) * STEP_ACROSS(dst) + (first + run) * STEP_ALONG(dst) +
                              channel * p.dst_1), made);
    }
