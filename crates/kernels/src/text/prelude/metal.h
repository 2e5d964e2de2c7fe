#include <metal_stdlib>
using namespace metal;
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
#define GLOBAL device
#define SHARED threadgroup
#define PRIVATE thread
#define UNROLL _Pragma("unroll")
#define FUNCTION static inline
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup)

template <typename T> FUNCTION T shuffle_xor(T value, u32 distance) {
    return simd_shuffle_xor(value, ushort(distance));
}
FUNCTION u64 shuffle_xor(u64 value, u32 distance) {
    u32 low = simd_shuffle_xor(u32(value), ushort(distance));
    u32 high = simd_shuffle_xor(u32(value >> 32), ushort(distance));
    return u64(high) << 32 | u64(low);
}
FUNCTION i64 shuffle_xor(i64 value, u32 distance) {
    return i64(shuffle_xor(u64(value), distance));
}

FUNCTION f32 bits_f32(u32 bits) { return as_type<f32>(bits); }
FUNCTION u32 f32_bits(f32 value) { return as_type<u32>(value); }
FUNCTION u32 leading_zeros(u32 x) { return clz(x); }

// N elements, moved a few at once: their address is a multiple of their size.
template <typename T, int N> struct Pack { T values[N]; };
template <int N, typename T> FUNCTION Pack<T, N> load_pack(const device T* from) {
    constexpr int PART = N < 4 ? N : 4;
    const device vec<T, PART>* parts = reinterpret_cast<const device vec<T, PART>*>(from);
    Pack<T, N> pack;
    for (int part = 0; part < N / PART; part++) {
        vec<T, PART> elements = parts[part];
        for (int k = 0; k < PART; k++) pack.values[part * PART + k] = elements[k];
    }
    return pack;
}
template <int N, typename T> FUNCTION void store_pack(device T* to, Pack<T, N> pack) {
    constexpr int PART = N < 4 ? N : 4;
    device vec<T, PART>* parts = reinterpret_cast<device vec<T, PART>*>(to);
    for (int part = 0; part < N / PART; part++) {
        vec<T, PART> elements;
        for (int k = 0; k < PART; k++) elements[k] = pack.values[part * PART + k];
        parts[part] = elements;
    }
}

FUNCTION f32 load_f16(u16 half_bits) { return f32(as_type<half>(half_bits)); }
FUNCTION u16 store_f16(f32 value) { return as_type<u16>(half(value)); }

// A product that is not fused with a sum: it does not matter what an expression is fused from.
FUNCTION f32 m_mul(f32 x, f32 y) {
#pragma clang fp contract(off)
    return x * y;
}
FUNCTION f32 m_fma(f32 x, f32 y, f32 z) { return fma(x, y, z); }
FUNCTION f32 m_abs(f32 x) { return fabs(x); }
FUNCTION f32 m_copysign(f32 x, f32 y) { return copysign(x, y); }
FUNCTION f32 m_exp(f32 x) { return precise::exp(x); }
FUNCTION f32 m_log(f32 x) { return precise::log(x); }
FUNCTION f32 m_sqrt(f32 x) { return precise::sqrt(x); }
FUNCTION f32 m_rsqrt(f32 x) { return 1.0f / precise::sqrt(x); }
FUNCTION f32 m_sin(f32 x) { return precise::sin(x); }
FUNCTION f32 m_cos(f32 x) { return precise::cos(x); }
FUNCTION f32 m_tan(f32 x) { return precise::tan(x); }
FUNCTION f32 m_asin(f32 x) { return precise::asin(x); }
FUNCTION f32 m_acos(f32 x) { return precise::acos(x); }
FUNCTION f32 m_atan(f32 x) { return precise::atan(x); }
FUNCTION f32 m_atan2(f32 y, f32 x) { return precise::atan2(y, x); }
FUNCTION f32 m_sinh(f32 x) { return precise::sinh(x); }
FUNCTION f32 m_cosh(f32 x) { return precise::cosh(x); }
FUNCTION f32 m_asinh(f32 x) { return precise::asinh(x); }
FUNCTION f32 m_acosh(f32 x) { return precise::acosh(x); }
FUNCTION f32 m_atanh(f32 x) { return precise::atanh(x); }
FUNCTION f32 m_pow(f32 x, f32 y) { return precise::pow(x, y); }
FUNCTION f32 m_rem(f32 x, f32 y) { return precise::fmod(x, y); }
FUNCTION f32 m_floor(f32 x) { return floor(x); }
FUNCTION f32 m_ceil(f32 x) { return ceil(x); }
FUNCTION f32 m_round(f32 x) { return rint(x); }
FUNCTION f32 m_trunc(f32 x) { return trunc(x); }

// What Metal lacks, to a few units in the last place.
FUNCTION f32 m_expm1(f32 x) {
    f32 power = rint(clamp(x, -20.0f, 89.0f) * 1.4426950f);
    f32 rest = fma(-power, -0.00021219444f, fma(-power, 0.6933594f, clamp(x, -20.0f, 89.0f)));
    f32 tail = fma(rest, fma(rest, fma(rest, fma(rest, fma(rest, 0.00019891981f, 0.0013934542f),
                                                 0.00833331f), 0.041666456f), 0.16666667f), 0.5f);
    f32 scale = bits_f32(u32(i32(power) + 126) << 23);
    f32 result = fma(scale, fma(rest * rest, tail, rest), scale - 0.5f) * 2.0f;
    return x == 0.0f || (f32_bits(x) & 0x7fffffffu) > 0x7f800000u ? x : result;
}
FUNCTION f32 m_log1p(f32 x) {
    f32 sum = 1.0f + x;
    f32 lost = x > 1.0f ? 1.0f - (sum - x) : x - (sum - 1.0f);
    f32 whole = precise::log(sum) + lost / sum;
    return x == 0.0f || x == bits_f32(0x7f800000u) ? x : x == -1.0f ? bits_f32(0xff800000u) : whole;
}
FUNCTION f32 m_tanh(f32 x) {
    f32 twice = m_expm1(fmin(2.0f * fabs(x), 20.0f));
    return x != x ? x : copysign(twice / (twice + 2.0f), x);
}
// exp(-x * x * scale) for scale a power of two.
FUNCTION f32 gauss(f32 x, f32 scale) {
    f32 square = x * x;
    f32 lost = fma(x, x, -square);
    f32 result = precise::exp(-square * scale);
    return fma(-lost * scale, result, result);
}
// erfc(x) * exp(x * x) for x from 0 to 10.1.
FUNCTION f32 scaled_erfc(f32 x) {
    const f32 parts[10] = {0.19748827f, 0.19704877f, 0.18866626f, 0.14753004f, 0.15687867f,
                           0.06636248f, -0.0023353867f, 0.16206077f, -0.1505289f, 0.03682903f};
    f32 s = 1.0f / fma(0.35f, x, 1.0f);
    f32 sum = parts[9];
    for (int k = 8; k >= 0; k--) sum = fma(sum, s, parts[k]);
    return s * sum;
}
// erf(x) for x from 0 to 1.
FUNCTION f32 erf_near(f32 x) {
    const f32 parts[7] = {1.1283792f, -0.37612627f, 0.112835947f, -0.026854212f,
                          0.0051890874f, -0.00080168643f, 7.875875e-5f};
    f32 square = x * x, sum = parts[6];
    for (int k = 5; k >= 0; k--) sum = fma(sum, square, parts[k]);
    return x * sum;
}
FUNCTION f32 m_erf(f32 x) {
    f32 size = fmin(fabs(x), 10.0f);
    f32 far = 1.0f - scaled_erfc(size) * gauss(size, 1.0f);
    return x != x ? x : copysign(size < 1.0f ? erf_near(size) : far, x);
}
FUNCTION f32 m_normal_cdf(f32 x) {
    f32 size = fmin(fabs(x), 14.2f), scaled = size * 0.70710678f;
    f32 near = 0.5f - 0.5f * erf_near(scaled);
    f32 far = 0.5f * scaled_erfc(scaled) * gauss(size, 0.5f);
    f32 tail = scaled < 0.5f ? near : far;
    return x != x ? x : x < 0.0f ? tail : 1.0f - tail;
}

// start + index * step; each is the sum of two floats.
FUNCTION f32 line(f32 start, f32 start_rest, f32 step, f32 step_rest, u64 index) {
    f32 low = f32(u32(index & 0xffffff)), high = f32(index >> 24) * 16777216.0f;
    f32 near = low * step, far = high * step;
    f32 rest = fma(low, step, -near) + fma(high, step, -far) + (low + high) * step_rest;
    f32 moved = near + far, part = moved - near;
    rest += (near - (moved - part)) + (far - part);
    f32 sum = start + moved;
    part = sum - start;
    rest += (start - (sum - part)) + (moved - part);
    return fabs(sum) <= 3.4028235e38f ? sum + (rest + start_rest) : sum;
}
