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
#if STRETCHED && !EXCLUDE
    // What all elements beyond the first and the last count.
    Number below;
    Number above;
#endif
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
    Number weight = filtered(distance, a);
#if STRETCHED && !EXCLUDE
    if (taps.first + tap == 0) { weight += taps.below; }
    if (taps.first + tap == extent - 1) { weight += taps.above; }
#endif
    return weight * taps.factor;
}

#if STRETCHED
// Sums of sums of sums, so that none is long.
struct Sum {
    Number low;
    Number middle;
    Number high;
    i32 count;
};
FUNCTION Sum no_sum() { return Sum{Number(0), Number(0), Number(0), 0}; }
FUNCTION Sum added(Sum sum, Number number) {
    sum.low += number;
    sum.count += 1;
    if ((sum.count & 255) == 0) {
        sum.middle += sum.low;
        sum.low = Number(0);
        if ((sum.count & 65535) == 0) {
            sum.high += sum.middle;
            sum.middle = Number(0);
        }
    }
    return sum;
}
FUNCTION Number total_of(Sum sum) { return sum.high + (sum.middle + sum.low); }

// The integral of what an element counts, from the middle of the filter to a distance.
FUNCTION Number area(Number distance, Number a) {
    const Number x = m_abs(distance);
#if CUBIC
    const Number near = x < Number(1) ? x : Number(1), far = x < Number(2) ? (x > Number(1) ? x : Number(1)) : Number(2);
    const Number inner = (((a + Number(2)) / Number(4) * near - (a + Number(3)) / Number(3)) * near * near + Number(1)) * near;
    const Number outer = a * (((far / Number(4) - Number(5) / Number(3)) * far + Number(4)) * far - Number(4)) * far;
    const Number size = inner + outer + a * Number(17) / Number(12);
#else
    const Number near = x < Number(1) ? x : Number(1);
    const Number size = near - near * near / Number(2);
#endif
    return distance < Number(0) ? -size : size;
}
// What elements from `first` to just before `end` count in all, none of which are walked over if they are many.
FUNCTION Number beyond(i64 first, i64 end, Place place, Number stretch, Number a) {
    if (first >= end) { return Number(0); }
    if (end - first <= 256) {
        Number sum = Number(0);
        for (i64 element = first; element < end; ++element) {
            sum += filtered((Number(element - place.whole) - Number(place.part)) / stretch, a);
        }
        return sum;
    }
    const Number from = (Number(first - place.whole) - Number(0.5f) - Number(place.part)) / stretch;
    const Number to = (Number(end - place.whole) - Number(0.5f) - Number(place.part)) / stretch;
    return (area(to, a) - area(from, a)) * stretch;
}
#endif

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
    // No filter is wider: no source has so many elements.
    if (scale > Number(1)) { taps.stretch = scale < Number(1e9f) ? scale : Number(1e9f); }
    const Number wide = reach * taps.stretch;
    const i64 first = i64(place.whole) + i64(m_floor(Number(place.part) - wide));
    const i64 end = i64(place.whole) + i64(m_ceil(Number(place.part) + wide)) + 1;
    taps.first = first > 0 ? (first < extent ? i32(first) : extent) : 0;
    taps.count = (end < extent ? (end > 0 ? i32(end) : 0) : extent) - taps.first;
    taps.distance = Number(place.whole - taps.first) + Number(place.part);
    if (taps.count <= 0) {
        taps.edge = true;
        taps.count = 1;
        taps.first = clamped(place.whole, extent);
        return taps;
    }
#if !EXCLUDE
    taps.below = beyond(first, end < 0 ? end : 0, place, taps.stretch, a);
    taps.above = beyond(first > extent ? first : extent, end, place, taps.stretch, a);
#endif
#else
    taps.first = place.whole - (CUBIC ? 1 : 0);
    taps.count = CUBIC ? 4 : 2;
    taps.distance = Number(place.part) + Number(CUBIC ? 1 : 0);
#endif
#if STRETCHED || EXCLUDE
#if STRETCHED
    Sum all = no_sum();
    for (i32 tap = 0; tap < taps.count; ++tap) { all = added(all, weight_of(taps, tap, extent, a)); }
    const Number total = total_of(all);
#else
    Number total = Number(0);
    for (i32 tap = 0; tap < taps.count; ++tap) { total += weight_of(taps, tap, extent, a); }
#endif
    if (total == Number(0)) {
        taps.edge = true;
        taps.first = clamped(place.whole, extent);
    } else {
        taps.factor = Number(1) / total;
    }
#endif
    return taps;
}
