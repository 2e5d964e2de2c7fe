// Tiles of f32: the small products first, which cut sums of large ones would lose.
FUNCTION void multiply_split(f32* sums, const u32* a, u32 b0, u32 b1, u32 place) {
    const f32 left[4] = {bits_f32(a[0]), bits_f32(a[1]), bits_f32(a[2]), bits_f32(a[3])};
    const f32 right[2] = {bits_f32(b0), bits_f32(b1)};
    u32 a_high[4], a_low[4], b_high[2], b_low[2];
    split<4>(a_high, a_low, left);
    split<2>(b_high, b_low, right);
    f32 some[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    multiply(some, a_low, b_high, place);
    multiply(some, a_high, b_low, place);
    multiply(some, a_high, b_high, place);
    UNROLL
    for (u32 index = 0; index < 4; ++index) { sums[index] += some[index]; }
}
#define MULTIPLY_TILES multiply_split
