// What a thread loads at once: WIDTH elements, moved as words.
typedef Pack<LineWord, WORDS> Line;
FUNCTION Line load_line(GLOBAL const Stored* from) {
#if WORDS == 1
    return Line{{*(GLOBAL const LineWord*)from}};
#else
    return load_pack<WORDS>((GLOBAL const LineWord*)from);
#endif
}
FUNCTION f32 element(Line line, u32 index) {
    return word_element(line.values[index / (WIDTH / WORDS)], index % (WIDTH / WORDS));
}

// How many of COUNT sums each thread holds after `add_up`, and how many threads hold the same.
#define HELD(COUNT, SPREAD) ((COUNT) > (SPREAD) ? (COUNT) / (SPREAD) : 1u)
#define REPEATS(COUNT, SPREAD) ((SPREAD) > (COUNT) ? (SPREAD) / (COUNT) : 1u)

// Between threads whose places differ in one bit: each keeps one half of the sums it holds and gives the other
// away, so that few numbers travel.
template <u32 HALF, u32 DISTANCE> FUNCTION void add_up_step(PRIVATE f32* sums, u32 place) {
    const bool upper = (place & DISTANCE) != 0;
    if (HALF == 0) { sums[0] += shuffle_xor(sums[0], DISTANCE); }
    UNROLL
    for (u32 index = 0; index < HALF; ++index) {
        const f32 low = sums[index], high = sums[HALF + index];
        sums[index] = (upper ? high : low) + shuffle_xor(upper ? low : high, DISTANCE);
    }
}

// Adds up COUNT sums over SPREAD threads of 32, those whose places differ in their upper bits. Then each holds
// the sums from number `place / (32 / SPREAD) / REPEATS * HELD` on.
template <u32 COUNT, u32 SPREAD> FUNCTION void add_up(PRIVATE f32* sums, u32 place) {
    if (SPREAD > 1) { add_up_step<COUNT / 2, 16>(sums, place); }
    if (SPREAD > 2) { add_up_step<COUNT / 4, 8>(sums, place); }
    if (SPREAD > 4) { add_up_step<COUNT / 8, 4>(sums, place); }
    if (SPREAD > 8) { add_up_step<COUNT / 16, 2>(sums, place); }
    if (SPREAD > 16) { add_up_step<COUNT / 32, 1>(sums, place); }
}
