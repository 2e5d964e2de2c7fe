// Which elements count for a place along one dimension: `count` from `first` on.
struct Taps {
    i32 first;
    i32 count;
    // From the first to the place.
    Number distance;
    // How much wider than the distance of two elements the filter is.
    Number stretch;
    Number factor;
    // Whether nothing inside counts, and so the edge does.
    bool edge;
};

#if STRETCHED
#define COUNT(taps) taps.count
#define LOOP
#else
#define COUNT(taps) (CUBIC ? 4 : 2)
#define LOOP UNROLL
#endif

// How much an element counts that lies so far away.
FUNCTION Number filtered(Number x, Number a) {
    x = m_abs(x);
#if CUBIC
    // As products: sums of powers lose digits where the weight is small.
    if (x <= Number(1)) { return (Number(1) - x) * (Number(1) + x - (a + Number(2)) * x * x); }
    const Number rest = Number(2) - x;
    return rest > Number(0) ? a * (x - Number(1)) * rest * rest : Number(0);
#else
    return x < Number(1) ? Number(1) - x : Number(0);
#endif
}

FUNCTION Number weight_of(Taps taps, i32 tap, i32 extent, Number a) {
    if (taps.edge) { return tap == 0 ? Number(1) : Number(0); }
#if EXCLUDE
    if (u32(taps.first + tap) >= u32(extent)) { return Number(0); }
#endif
    Number distance = Number(tap) - taps.distance;
#if STRETCHED
    distance = distance / taps.stretch;
#endif
    return filtered(distance, a) * taps.factor;
}

#ifdef HAS_F64
#define SCALE(axis) Number(bits_f64(u64(p.scale_##axis)))
#else
#define SCALE(axis) p.scale_near_##axis
#endif
FUNCTION Taps taps_of(Place place, i32 extent, Number scale, Number a) {
    Taps taps;
    const Number reach = Number(CUBIC ? 2 : 1);
    taps.edge = false;
    taps.factor = Number(1);
    taps.stretch = Number(1);
#if STRETCHED
    if (scale > Number(1)) { taps.stretch = scale; }
    const Number wide = reach * taps.stretch;
    const i32 before = to_i32(m_floor(Number(place.part) - wide));
    taps.first = place.whole + before;
    taps.count = to_i32(m_ceil(Number(place.part) + wide)) - before + 1;
    taps.distance = Number(place.part) - Number(before);
#else
    taps.first = place.whole - (CUBIC ? 1 : 0);
    taps.count = CUBIC ? 4 : 2;
    taps.distance = Number(place.part) + Number(CUBIC ? 1 : 0);
#endif
#if STRETCHED || EXCLUDE
    Number total = Number(0);
    for (i32 tap = 0; tap < taps.count; ++tap) { total += weight_of(taps, tap, extent, a); }
    if (total == Number(0)) {
        taps.edge = true;
        taps.first = clamped(place.whole, extent);
    } else {
        taps.factor = Number(1) / total;
    }
#endif
    return taps;
}
