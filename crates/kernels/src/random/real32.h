typedef f32 Real;
#define TURN 6.28318548f
#define LN_2 0.693147182f
#define LOG2_E 1.44269502f
#define LEAST_POWER -87.0f
FUNCTION Real unit(u32 word) { return x_mul(f32(word >> 8), 5.9604644775390625e-8f); }
FUNCTION Real positive(u32 word) {
    return x_fma(f32(word), 2.3283064365386963e-10f, 1.16415321826934814e-10f);
}
// x = mantissa * 2^exponent, the mantissa from the root of a half to that of two.
FUNCTION Real mantissa(Real x) { return bits_f32(((f32_bits(x) - 0x3f3504f3u) & 0x7fffffu) + 0x3f3504f3u); }
FUNCTION Real exponent(Real x) { return f32(i32(f32_bits(x) - 0x3f3504f3u) >> 23); }
// The nearest quarter of a turn, and what is left of the turn.
FUNCTION u32 quarter(u32 word) { return ((word >> 8) + 0x200000u) >> 22; }
FUNCTION Real beyond_quarter(u32 word) {
    return x_mul(f32(i32(word >> 8) - i32(quarter(word) << 22)), 5.9604644775390625e-8f);
}
FUNCTION Real power_of_two(Real n) { return bits_f32(u32(i32(n) + 127) << 23); }
