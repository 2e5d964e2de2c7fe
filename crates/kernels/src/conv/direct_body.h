    const u32 channel = u32(at_channel);
    const u32 group = channel / p.made;
    const i32 origin_0 = origin(i32(at_place_0), p.stride_0, p.before_0);
    const i32 origin_1 = origin(i32(at_place_1), p.stride_1, p.before_1);
    const i32 origin_2 = origin(i32(at_place_2), p.stride_2, p.before_2);
    GLOBAL const Stored* from = src + p.src_at + (at_image * p.src_0 + Distance(group * p.read) * p.src_1);
#if TRANSPOSED
    const Distance weight_step = p.weight_0;
    GLOBAL const Stored* factor = weight + p.weight_at +
        (Distance(group * p.read) * p.weight_0 + Distance(channel - group * p.made) * p.weight_1);
#else
    const Distance weight_step = p.weight_1;
    GLOBAL const Stored* factor = weight + p.weight_at + Distance(channel) * p.weight_0;
#endif
    Number sum = Number(0);
    for (u32 other = 0; other < p.read; ++other) {
        TAPS
        for (i32 tap_0 = 0; tap_0 < KERNEL_0; ++tap_0) {
            const i32 at_0 = seen(origin_0, tap_0 * p.dilation_0, p.stride_0, p.extent_0);
            if (at_0 < 0) { continue; }
            TAPS
            for (i32 tap_1 = 0; tap_1 < KERNEL_1; ++tap_1) {
                const i32 at_1 = seen(origin_1, tap_1 * p.dilation_1, p.stride_1, p.extent_1);
                if (at_1 < 0) { continue; }
                TAPS
                for (i32 tap_2 = 0; tap_2 < KERNEL_2; ++tap_2) {
                    const i32 at_2 = seen(origin_2, tap_2 * p.dilation_2, p.stride_2, p.extent_2);
                    if (at_2 < 0) { continue; }
                    const Number element = loaded(from[at_0 * p.src_2 + at_1 * p.src_3 + at_2 * p.src_4]);
                    const Number scale =
                        loaded(factor[tap_0 * p.weight_2 + tap_1 * p.weight_3 + tap_2 * p.weight_4]);
                    sum = m_fma(element, scale, sum);
                }
            }
        }
        from += p.src_1;
        factor += weight_step;
    }
    dst[p.dst_at + (at_image * p.dst_0 + at_channel * p.dst_1 + at_place_0 * p.dst_2 + at_place_1 * p.dst_3 +
                    at_place_2 * p.dst_4)] = finished(sum + BIAS(channel));
