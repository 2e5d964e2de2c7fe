    const i32 begin_0 = i32(at_place_0) * p.stride_0 - p.before_0;
    const i32 begin_1 = i32(at_place_1) * p.stride_1 - p.before_1;
    const i32 begin_2 = i32(at_place_2) * p.stride_2 - p.before_2;
    GLOBAL const Stored* from = src + p.src_at + (at_image * p.src_0 + at_channel * p.src_1);
    Number result = NEUTRAL;
    i64 count = 0;
    i64 place = -1;
#if UNROLLED
#define FIRST(axis) 0
#define END(axis) KERNEL_##axis
#else
    // A large window may lie beside the picture for the most part.
#define FIRST(axis) before_first(begin_##axis, p.dilation_##axis)
#define END(axis) counted(begin_##axis, p.extent_##axis, KERNEL_##axis, p.dilation_##axis)
    const i32 end_0 = END(0), end_1 = END(1), end_2 = END(2);
#undef END
#define END(axis) end_##axis
    Number low = NEUTRAL, middle = NEUTRAL;
#endif
    // No branch, so that all elements of a small window are on their way at once.
    TAPS
    for (i32 tap_0 = FIRST(0); tap_0 < END(0); ++tap_0) {
        const i32 at_0 = begin_0 + tap_0 * p.dilation_0;
        TAPS
        for (i32 tap_1 = FIRST(1); tap_1 < END(1); ++tap_1) {
            const i32 at_1 = begin_1 + tap_1 * p.dilation_1;
            const bool row_inside = u32(at_0) < u32(p.extent_0) && u32(at_1) < u32(p.extent_1);
            const Distance row = at_0 * p.src_2 + at_1 * p.src_3;
            TAPS
            for (i32 tap_2 = FIRST(2); tap_2 < END(2); ++tap_2) {
                const i32 at_2 = begin_2 + tap_2 * p.dilation_2;
                const bool inside = row_inside && u32(at_2) < u32(p.extent_2);
#define PLACE ((i64(at_0) * p.extent_1 + at_1) * p.extent_2 + at_2)
                const Number value = inside ? LOADED(row + at_2 * p.src_4) : NEUTRAL;
#if SUMMED && !UNROLLED
                // Sums of sums of sums, so that none is long.
                low = JOINED(low);
                count += 1;
                if ((count & 255) == 0) {
                    middle += low;
                    low = NEUTRAL;
                    if ((count & 65535) == 0) {
                        result += middle;
                        middle = NEUTRAL;
                    }
                }
#else
                JOIN
                count += inside;
#endif
            }
        }
    }
#if SUMMED && !UNROLLED
    result += middle + low;
#endif
#if PADDED
    count = i64(counted(begin_0, p.extent_0 + p.after_0, p.kernel_0, p.dilation_0)) *
            counted(begin_1, p.extent_1 + p.after_1, p.kernel_1, p.dilation_1) *
            counted(begin_2, p.extent_2 + p.after_2, p.kernel_2, p.dilation_2);
#endif
    dst[p.dst_at + (at_image * p.dst_0 + at_channel * p.dst_1 + at_place_0 * p.dst_2 + at_place_1 * p.dst_3 +
                    at_place_2 * p.dst_4)] = FINISHED;
#if INDEXED
    indices[p.indices_at + (at_image * p.indices_0 + at_channel * p.indices_1 + at_place_0 * p.indices_2 +
                            at_place_1 * p.indices_3 + at_place_2 * p.indices_4)] = place;
#endif
