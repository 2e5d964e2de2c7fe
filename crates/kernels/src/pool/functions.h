// How many of `most` elements of a window that begins at `begin` lie before `limit`.
FUNCTION i32 counted(i32 begin, i32 limit, i32 most, i32 dilation) {
    const i32 distance = limit - begin;
    if (distance <= 0) { return 0; }
    const i32 taps = (distance - 1) / dilation + 1;
    return taps < most ? taps : most;
}
// How many elements of a window that begins at `begin` lie before the first of the source.
FUNCTION i32 before_first(i32 begin, i32 dilation) {
    return begin >= 0 ? 0 : (-1 - begin) / dilation + 1;
}
