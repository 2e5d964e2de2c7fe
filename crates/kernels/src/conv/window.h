// Where along one dimension of the source the window of a result begins; transposed, where the result lies among
// what elements of the source spread to.
FUNCTION i32 origin(i32 output, i32 stride, i32 before) {
    return TRANSPOSED ? output + before : output * stride - before;
}

// The element of the source that is seen by a tap, which lies so far into the window; negative if there is none.
FUNCTION i32 seen(i32 origin, i32 reach, i32 stride, i32 extent) {
#if TRANSPOSED
    const i32 spread = origin - reach;
    if (spread < 0) { return -1; }
    const i32 place = i32(u32(spread) / u32(stride));
    return place < extent && place * stride == spread ? place : -1;
#else
    const i32 place = origin + reach;
    return place < extent ? place : -1;
#endif
}
