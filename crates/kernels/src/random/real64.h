typedef f64 Real;
#define TURN 6.2831853071795862
#define LN_2 0.69314718055994529
#define LOG2_E 1.4426950408889634
#define LEAST_POWER -708.0
FUNCTION Real unit(u64 word) { return x_mul(f64(word >> 11), 1.1102230246251565e-16); }
FUNCTION Real positive(u64 word) { return x_mul(f64((word >> 11) + 1), 1.1102230246251565e-16); }
// x = mantissa * 2^exponent, the mantissa from the root of a half to that of two.
FUNCTION Real mantissa(Real x) {
    return bits_f64(((f64_bits(x) - 0x3fe6a09e667f3bcd) & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
}
FUNCTION Real exponent(Real x) { return f64(i64(f64_bits(x) - 0x3fe6a09e667f3bcd) >> 52); }
// The nearest quarter of a turn, and what is left of the turn.
FUNCTION u32 quarter(u64 word) { return u32(((word >> 11) + 0x4000000000000) >> 51); }
FUNCTION Real beyond_quarter(u64 word) {
    return x_mul(f64(i64(word >> 11) - (i64(quarter(word)) << 51)), 1.1102230246251565e-16);
}
FUNCTION Real power_of_two(Real n) { return bits_f64(u64(i64(n) + 1023) << 52); }
