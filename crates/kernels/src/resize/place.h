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
FUNCTION Place place_of(u32 output, i64 scale, f32, f32, i64 shift, f32, f32) {
    const f64 place = m_mul(f64(output), bits_f64(u64(scale))) + bits_f64(u64(shift));
    const f64 whole = m_floor(place);
    Place result;
    result.whole = to_i32(whole < -1e9 ? -1e9 : whole > 1e9 ? 1e9 : whole);
    result.part = whole < -1e9 || whole > 1e9 ? 0.0 : place - whole;
    return result;
}
#else
// Without wide floats, each is the sum of two.
FUNCTION Place place_of(u32 output, i64, f32 scale, f32 scale_low, i64, f32 shift, f32 shift_low) {
    const f32 number = f32(output & 0xffffffu), more = f32(output >> 24) * 16777216.0f;
    const f32 near = number * scale, far = more * scale;
    f32 rest = m_fma(number, scale, -near) + m_fma(more, scale, -far) + (number + more) * scale_low + shift_low;
    const f32 moved = near + far;
    f32 part = moved - near;
    rest += (near - (moved - part)) + (far - part);
    const f32 place = moved + shift;
    part = place - moved;
    rest += (moved - (place - part)) + (shift - part);
    f32 whole = m_floor(place);
    part = (place - whole) + rest;
    const f32 carried = m_floor(part);
    whole += carried;
    part -= carried;
    Place result;
    result.whole = to_i32(whole < -1e9f ? -1e9f : whole > 1e9f ? 1e9f : whole);
    result.part = part >= 0.0f && part < 1.0f ? part : 0.0f;
    return result;
}
#endif

FUNCTION i32 clamped(i32 element, i32 extent) {
    return element < 0 ? 0 : element >= extent ? extent - 1 : element;
}
FUNCTION bool is_outside(Place place, i32 extent) {
    return place.whole < 0 || place.whole >= extent || (place.whole == extent - 1 && place.part > Part(0.0f));
}
