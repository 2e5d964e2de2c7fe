FUNCTION f32 infinity_f32() { return bits_f32(0x7f800000u); }
FUNCTION f32 nan_f32() { return bits_f32(0x7fc00000u); }

FUNCTION f32 load_bf16(u16 brain) { return bits_f32(u32(brain) << 16); }

FUNCTION u16 store_bf16(f32 value) {
    u32 bits = f32_bits(value);
    u32 rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return u16((is_nan ? bits | 0x400000u : rounded) >> 16);
}
#ifdef HAS_F64
FUNCTION u16 store_bf16(f64 value) { return store_bf16(cut_to_odd(value)); }
#endif
FUNCTION f32 cut_to_odd(u64 value) {
    u32 high = u32(value >> 32);
    u32 zeros = high != 0u ? leading_zeros(high) : 32u + leading_zeros(u32(value));
    u32 lost = zeros < 40u ? 40u - zeros : 0u;
    u64 kept = value >> lost;
    u64 odd = (kept << lost) != value ? 1u : 0u;
    return f32((kept | odd) << lost);
}
FUNCTION f32 cut_to_odd(i64 value) {
    return value < 0 ? -cut_to_odd(u64(0) - u64(value)) : cut_to_odd(u64(value));
}

// n / divisor for n below 2^31: the factor is 2^shift / divisor, rounded up.
FUNCTION u32 quotient(u32 n, u32 factor, u32 shift) { return u32(u64(n) * factor >> shift); }

// Casts by the rules of the contract: floats truncate and saturate, NaN is zero.
template <typename F> FUNCTION i32 to_i32(F x) {
    if (x >= F(2147483648.0f)) return 2147483647;
    if (x <= F(-2147483648.0f)) return -2147483647 - 1;
    return x == x ? i32(x) : 0;
}
template <typename F> FUNCTION i64 to_i64(F x) {
    if (x >= F(9223372036854775808.0f)) return i64(0x7fffffffffffffff);
    if (x <= F(-9223372036854775808.0f)) return i64(0x8000000000000000);
    return x == x ? i64(x) : i64(0);
}
template <typename F> FUNCTION u32 to_u32(F x) {
    if (x >= F(4294967296.0f)) return 0xffffffffu;
    return x > F(0.0f) ? u32(x) : 0u;
}
template <typename F> FUNCTION u64 to_u64(F x) {
    if (x >= F(18446744073709551616.0f)) return ~u64(0);
    return x > F(0.0f) ? u64(x) : u64(0);
}
template <typename F> FUNCTION i16 to_i16(F x) {
    i32 whole = to_i32(x);
    return i16(whole < -32768 ? -32768 : whole > 32767 ? 32767 : whole);
}
template <typename F> FUNCTION u16 to_u16(F x) {
    i32 whole = to_i32(x);
    return u16(whole < 0 ? 0 : whole > 65535 ? 65535 : whole);
}
template <typename F> FUNCTION i8 to_i8(F x) {
    i32 whole = to_i32(x);
    return i8(whole < -128 ? -128 : whole > 127 ? 127 : whole);
}
template <typename F> FUNCTION u8 to_u8(F x) {
    i32 whole = to_i32(x);
    return u8(whole < 0 ? 0 : whole > 255 ? 255 : whole);
}

FUNCTION bool m_isnan(f32 x) { return (f32_bits(x) & 0x7fffffffu) > 0x7f800000u; }
FUNCTION bool m_isinf(f32 x) { return (f32_bits(x) & 0x7fffffffu) == 0x7f800000u; }
#ifdef HAS_F64
FUNCTION bool m_isnan(f64 x) { return x != x; }
FUNCTION bool m_isinf(f64 x) { return (f64_bits(x) & 0x7fffffffffffffff) == 0x7ff0000000000000; }
#endif
template <typename T> FUNCTION T m_sign(T x) {
    return x == T(0.0f) || m_isnan(x) ? x : m_copysign(T(1.0f), x);
}
// NaN wins.
template <typename T> FUNCTION T m_min(T x, T y) { return m_isnan(x) || x < y ? x : y; }
template <typename T> FUNCTION T m_max(T x, T y) { return m_isnan(x) || x > y ? x : y; }

template <typename T> FUNCTION T act_relu(T x) { return x <= T(0.0f) ? T(0.0f) : x; }
template <typename T> FUNCTION T act_tanh(T x) { return m_tanh(x); }
template <typename T> FUNCTION T act_sigmoid(T x) {
    T small = m_exp(-m_abs(x));
    return (x >= T(0.0f) ? T(1.0f) : small) / (T(1.0f) + small);
}
// Of negative infinity the rest are NaN, as the product of that and zero is, but for `act_softplus`.
template <typename T> FUNCTION T act_hard_swish(T x) {
    const T gate = x * (T(1.0f) / T(6.0f)) + T(0.5f);
    return x * (gate <= T(0.0f) ? T(0.0f) : gate >= T(1.0f) ? T(1.0f) : gate);
}
template <typename T> FUNCTION T act_silu(T x) { return x * act_sigmoid(x); }
template <typename T> FUNCTION T act_softplus(T x) {
    return (x > T(0.0f) ? x : T(0.0f)) + m_log1p(m_exp(-m_abs(x)));
}
template <typename T> FUNCTION T act_gelu(T x) { return x * m_normal_cdf(x); }
FUNCTION f32 gelu_tanh_inner(f32 x) { return x * m_fma(x * x, 0.071354814f, 1.5957691f); }
template <typename T> FUNCTION T act_gelu_tanh(T x) {
    return x * act_sigmoid(gelu_tanh_inner(x));
}

// Integers wrap; the low bits of a result are the same whatever the width they are computed in.
template <typename T> FUNCTION T int_add(T x, T y) { return T(u64(x) + u64(y)); }
template <typename T> FUNCTION T int_sub(T x, T y) { return T(u64(x) - u64(y)); }
template <typename T> FUNCTION T int_mul(T x, T y) { return T(u64(x) * u64(y)); }
template <typename T> FUNCTION T int_neg(T x) { return T(u64(0) - u64(x)); }
template <typename T> FUNCTION bool int_is_negative(T x) { return T(-1) < T(0) && x < T(0); }
template <typename T> FUNCTION bool int_is_minus_one(T x) { return T(-1) < T(0) && x == T(-1); }
template <typename T> FUNCTION T int_abs(T x) { return int_is_negative(x) ? int_neg(x) : x; }
template <typename T> FUNCTION T int_sign(T x) {
    return int_is_negative(x) ? T(-1) : T(x != T(0) ? 1 : 0);
}
template <typename T> FUNCTION T int_relu(T x) { return int_is_negative(x) ? T(0) : x; }
template <typename T> FUNCTION T int_min(T x, T y) { return x < y ? x : y; }
template <typename T> FUNCTION T int_max(T x, T y) { return x > y ? x : y; }
template <typename T> FUNCTION T int_div(T x, T y) {
    if (y == T(0)) return T(0);
    return int_is_minus_one(y) ? int_neg(x) : T(x / y);
}
template <typename T> FUNCTION T int_rem(T x, T y) {
    return y == T(0) || int_is_minus_one(y) ? T(0) : T(x % y);
}
template <typename T> FUNCTION T int_pow(T x, T exponent) {
    if (int_is_negative(exponent)) {
        // The inverse is exact for one and minus one only, and is the number itself.
        if (x == T(1)) return x;
        if (!int_is_minus_one(x)) return T(0);
        return (exponent & T(1)) == T(0) ? T(1) : x;
    }
    T result = T(1);
    while (exponent != T(0)) {
        if ((exponent & T(1)) != T(0)) result = int_mul(result, x);
        x = int_mul(x, x);
        exponent = T(exponent >> 1);
    }
    return result;
}
template <typename T> FUNCTION T int_shl(T x, T by) {
    return T(u64(x) << (u64(by) & u64(8 * sizeof(T) - 1)));
}
template <typename T> FUNCTION T int_shr(T x, T by) {
    return T(x >> (u64(by) & u64(8 * sizeof(T) - 1)));
}
