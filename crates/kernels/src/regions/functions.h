// The samples of one cell along one side of its region.
struct Samples {
    Number from, step, count;
    // Those that may lie in the picture.
    i32 begin, end;
    bool outside;
};
// A sample between two elements.
struct Tap {
    i32 low, high;
    Number near, far;
    bool inside;
};

// A number of samples as an integer, of which more than a picture has elements are as good as any.
FUNCTION i32 counted(Number number) {
    return number >= Number(1073741824.0f) ? 1073741824 : number > Number(0) ? i32(number) : 0;
}

FUNCTION Samples samples_of(Number first, Number last, Number scale, i32 cell, i32 cells, i32 size, i32 wanted) {
    const Number shift = ALIGNED ? Number(0.5f) : Number(0);
    const Number start = first * scale - shift;
    Number length = last * scale - shift - start;
    if (!ALIGNED && !(length > Number(1))) { length = Number(1); }
    const Number each = length / Number(cells);
    Samples result;
    if (ADAPTIVE) {
        const Number whole = m_ceil(each);
        result.count = whole > Number(0) ? whole : Number(0);
    } else {
        result.count = Number(wanted);
    }
    result.step = each / result.count;
    result.from = start + Number(cell) * each;
    const i32 all = counted(result.count);
    result.begin = 0;
    result.end = all;
    // Without a step forward all lie together, or few were asked for.
    if (result.step > Number(0)) {
        const i32 before = counted((Number(-1) - result.from) / result.step - Number(0.5f)) - 1;
        const i32 behind = counted((Number(size) - result.from) / result.step - Number(0.5f)) + 2;
        result.begin = before < 0 ? 0 : before < all ? before : all;
        result.end = behind < result.begin ? result.begin : behind < all ? behind : all;
    }
    result.outside = result.begin > 0 || result.end < all;
    return result;
}

FUNCTION Tap tap_of(Samples samples, i32 sample, i32 size) {
    Number place = samples.from + (Number(sample) + Number(0.5f)) * samples.step;
    Tap result;
    result.inside = place >= Number(-1) && place <= Number(size);
    place = result.inside && place > Number(0) ? place : Number(0);
    const i32 low = i32(place);
    result.low = low < size - 1 ? low : size - 1;
    result.high = result.low < size - 1 ? result.low + 1 : result.low;
    result.far = result.low == result.high ? Number(0) : place - Number(result.low);
    result.near = Number(1) - result.far;
    return result;
}
