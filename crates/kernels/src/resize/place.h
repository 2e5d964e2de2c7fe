// Where an element of the result lies: at or behind element `whole` of the source, by `part` of the distance to the
// next.
#ifdef HAS_F64
typedef f64 Part;
#else
typedef f32 Part;
#endif
struct Place {
    i32 whole;
    Part part;
};

#ifdef HAS_F64
FUNCTION Place place_of(u32 output, i64 scale, i64 shift) {
    const f64 place = m_mul(f64(output), bits_f64(u64(scale))) + bits_f64(u64(shift));
    const f64 whole = m_floor(place);
    Place result;
    result.whole = to_i32(whole < -1e9 ? -1e9 : whole > 1e9 ? 1e9 : whole);
    result.part = whole < -1e9 || whole > 1e9 ? 0.0 : place - whole;
    return result;
}
#else
// Without wide floats they are computed by integers, to the same bits: a place that is an element on one device is on
// all.
struct Wide {
    // The size is mantissa * 2^exponent.
    u64 mantissa;
    i32 exponent;
    bool negative;
};
FUNCTION Wide wide(i64 bits) {
    const u32 exponent = u32(bits >> 52) & 0x7ffu;
    Wide result;
    result.mantissa = (u64(bits) & 0xfffffffffffff) | (exponent != 0u ? u64(1) << 52 : u64(0));
    result.exponent = i32(exponent != 0u ? exponent : 1u) - 1075;
    result.negative = bits < 0;
    return result;
}
FUNCTION u32 bits_of(u64 x) {
    const u32 high = u32(x >> 32);
    return high != 0u ? 64u - leading_zeros(high) : 32u - leading_zeros(u32(x));
}
// x / 2^by; the last bit is set where that loses anything.
FUNCTION u64 lowered(u64 x, u32 by) {
    const u64 kept = by < 64u ? x >> by : u64(0);
    const bool exact = by < 64u ? (kept << by) == x : x == 0;
    return exact ? kept : kept | 1;
}
// To 53 bits.
FUNCTION Wide rounded(Wide x) {
    const u32 bits = bits_of(x.mantissa);
    if (bits <= 53u) { return x; }
    const u32 lost = bits - 53u;
    const u64 rest = x.mantissa & ((u64(1) << lost) - 1), half_way = u64(1) << (lost - 1);
    x.mantissa >>= lost;
    x.exponent += i32(lost);
    if (rest > half_way || (rest == half_way && (x.mantissa & 1) != 0)) { x.mantissa += 1; }
    return x;
}
FUNCTION Wide product(u32 number, Wide x) {
    const u64 low = (x.mantissa & 0xffffffffu) * number, high = (x.mantissa >> 32) * number + (low >> 32);
    const u32 bits = bits_of(high), lost = bits > 31u ? bits - 31u : 0u;
    x.mantissa = (high << (32u - lost)) | lowered(low & 0xffffffffu, lost);
    x.exponent += i32(lost);
    return rounded(x);
}
FUNCTION Wide raised(Wide x) {
    const u32 by = 62u - bits_of(x.mantissa);
    x.mantissa <<= by;
    x.exponent -= i32(by);
    return x;
}
FUNCTION Wide sum(Wide x, Wide y) {
    if (x.mantissa == 0) { return y; }
    if (y.mantissa == 0) { return x; }
    x = raised(x);
    y = raised(y);
    const bool less = x.exponent < y.exponent || (x.exponent == y.exponent && x.mantissa < y.mantissa);
    Wide large = less ? y : x;
    const Wide small = less ? x : y;
    const u64 other = lowered(small.mantissa, u32(large.exponent - small.exponent));
    large.mantissa = large.negative == small.negative ? large.mantissa + other : large.mantissa - other;
    return rounded(large);
}
FUNCTION Place place_of(u32 output, i64 scale, i64 shift) {
    const Wide place = sum(product(output, wide(scale)), wide(shift));
    // Bits behind the point.
    const u32 behind = place.exponent < 0 ? u32(-place.exponent) : 0u, kept = behind < 63u ? behind : 63u;
    const u64 bits = lowered(place.mantissa, behind - kept);
    u64 whole = bits >> kept, part = bits - (whole << kept);
    if (place.negative && part != 0) {
        whole += 1;
        part = (u64(1) << kept) - part;
    }
    const bool far = whole > 1000000000u;
    const i32 size = far ? 1000000000 : i32(whole);
    Place result;
    result.whole = place.negative ? -size : size;
    result.part = far ? 0.0f : cut_to_odd(part) * bits_f32((127u - kept) << 23);
    return result;
}
#endif

FUNCTION i32 clamped(i32 element, i32 extent) {
    return element < 0 ? 0 : element >= extent ? extent - 1 : element;
}
FUNCTION bool is_outside(Place place, i32 extent) {
    return place.whole < 0 || place.whole >= extent || (place.whole == extent - 1 && place.part > Part(0.0f));
}
