typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define HAS_F64
#define GLOBAL
#define SHARED
#define PRIVATE
#define UNROLL _Pragma("unroll")
#define FUNCTION static __device__ __forceinline__
#define BARRIER() __syncthreads()
// A kernel may be launched while the one before it ends. Here it waits until that is over and all that it wrote is seen.
// After that it may start the next one early, for which all but this one is over then.
#if __CUDA_ARCH__ >= 900
#define WAIT_FOR_EARLIER_KERNELS() asm volatile("griddepcontrol.wait;" : : : "memory")
#define START_NEXT_KERNEL() asm volatile("griddepcontrol.launch_dependents;" : : : "memory")
#else
#define WAIT_FOR_EARLIER_KERNELS()
#define START_NEXT_KERNEL()
#endif

template <typename T> FUNCTION T shuffle_xor(T value, u32 distance) {
    return __shfl_xor_sync(0xffffffffu, value, distance);
}

FUNCTION f32 bits_f32(u32 bits) { return __uint_as_float(bits); }
FUNCTION u32 f32_bits(f32 value) { return __float_as_uint(value); }
FUNCTION f64 bits_f64(u64 bits) { return __longlong_as_double(i64(bits)); }
FUNCTION u64 f64_bits(f64 value) { return u64(__double_as_longlong(value)); }
FUNCTION f64 infinity_f64() { return bits_f64(0x7ff0000000000000); }
FUNCTION f64 nan_f64() { return bits_f64(0x7ff8000000000000); }
FUNCTION u32 leading_zeros(u32 x) { return u32(__clz(i32(x))); }

// The copy engine finds tiles by maps, which are among parameters that stay where they are.
#ifdef STREAMPOOL_EMULATED
#define PAST_CACHE(from) (*(from))
#define GRID_CONSTANT
#define MAP_ALIGNMENT 8
#else
#define PAST_CACHE(from) __ldcg(from)
#define GRID_CONSTANT __grid_constant__
#define MAP_ALIGNMENT 64
#endif
struct alignas(MAP_ALIGNMENT) TensorMap { u64 words[16]; };

// N elements, moved at once: their address is a multiple of their size.
template <typename T, int N> struct Pack { T values[N]; };
template <int BYTES> struct Word;
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };
template <typename T, int N> union PackWord {
    Pack<T, N> pack;
    typename Word<sizeof(T) * N>::type word;
};
template <int N, typename T> FUNCTION Pack<T, N> load_pack(const T* from) {
    PackWord<T, N> both;
    both.word = *reinterpret_cast<const typename Word<sizeof(T) * N>::type*>(from);
    return both.pack;
}
// The same, of what may have changed since the processor's own cache got it: who has not waited sees that.
template <int N, typename T> FUNCTION Pack<T, N> load_changed(const T* from) {
    PackWord<T, N> both;
    both.word = PAST_CACHE(reinterpret_cast<const typename Word<sizeof(T) * N>::type*>(from));
    return both.pack;
}
template <int N, typename T> FUNCTION void store_pack(T* to, Pack<T, N> pack) {
    PackWord<T, N> both;
    both.pack = pack;
    *reinterpret_cast<typename Word<sizeof(T) * N>::type*>(to) = both.word;
}

// Where the text is executed on a CPU, these come with the emulator.
#ifndef STREAMPOOL_EMULATED
FUNCTION f32 load_f16(u16 half) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}
FUNCTION u16 store_f16(f32 value) {
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}
FUNCTION u16 store_f16(f64 value) {
    u16 half;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(half) : "d"(value));
    return half;
}
#endif
// Cut to the length of an f32, the last bit set where that lost anything: it lies on the same side of every
// tie between two halves.
FUNCTION f32 cut_to_odd(f64 value) {
    f32 cut = __double2float_rz(value);
    return bits_f32(f32_bits(cut) | (f64(cut) != value && value == value ? 1u : 0u));
}

// A product that is not fused with a sum: it does not matter what an expression is fused from.
FUNCTION f32 m_mul(f32 x, f32 y) { return __fmul_rn(x, y); }
FUNCTION f64 m_mul(f64 x, f64 y) { return __dmul_rn(x, y); }

FUNCTION f32 m_fma(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
FUNCTION f32 m_abs(f32 x) { return fabsf(x); }
FUNCTION f32 m_copysign(f32 x, f32 y) { return copysignf(x, y); }
FUNCTION f32 m_exp(f32 x) { return expf(x); }
FUNCTION f32 m_expm1(f32 x) { return expm1f(x); }
FUNCTION f32 m_log(f32 x) { return logf(x); }
FUNCTION f32 m_log1p(f32 x) { return log1pf(x); }
FUNCTION f32 m_sqrt(f32 x) { return sqrtf(x); }
FUNCTION f32 m_rsqrt(f32 x) { return 1.0f / sqrtf(x); }
FUNCTION f32 m_sin(f32 x) { return sinf(x); }
FUNCTION f32 m_cos(f32 x) { return cosf(x); }
FUNCTION f32 m_tan(f32 x) { return tanf(x); }
FUNCTION f32 m_asin(f32 x) { return asinf(x); }
FUNCTION f32 m_acos(f32 x) { return acosf(x); }
FUNCTION f32 m_atan(f32 x) { return atanf(x); }
FUNCTION f32 m_atan2(f32 y, f32 x) { return atan2f(y, x); }
FUNCTION f32 m_sinh(f32 x) { return sinhf(x); }
FUNCTION f32 m_cosh(f32 x) { return coshf(x); }
FUNCTION f32 m_tanh(f32 x) { return tanhf(x); }
FUNCTION f32 m_asinh(f32 x) { return asinhf(x); }
FUNCTION f32 m_acosh(f32 x) { return acoshf(x); }
FUNCTION f32 m_atanh(f32 x) { return atanhf(x); }
FUNCTION f32 m_erf(f32 x) { return erff(x); }
// As exact as GELU needs it: near zero, where the other factor is small, only beside one half. `normcdff` is exact
// down to the smallest number and takes twice as long.
FUNCTION f32 m_normal_cdf(f32 x) { return m_fma(erff(x * 0.70710678f), 0.5f, 0.5f); }
FUNCTION f32 m_pow(f32 x, f32 y) { return powf(x, y); }
FUNCTION f32 m_rem(f32 x, f32 y) { return fmodf(x, y); }
FUNCTION f32 m_floor(f32 x) { return floorf(x); }
FUNCTION f32 m_ceil(f32 x) { return ceilf(x); }
FUNCTION f32 m_round(f32 x) { return rintf(x); }
FUNCTION f32 m_trunc(f32 x) { return truncf(x); }

FUNCTION f64 m_fma(f64 x, f64 y, f64 z) { return fma(x, y, z); }
FUNCTION f64 m_abs(f64 x) { return fabs(x); }
FUNCTION f64 m_copysign(f64 x, f64 y) { return copysign(x, y); }
FUNCTION f64 m_exp(f64 x) { return exp(x); }
FUNCTION f64 m_expm1(f64 x) { return expm1(x); }
FUNCTION f64 m_log(f64 x) { return log(x); }
FUNCTION f64 m_log1p(f64 x) { return log1p(x); }
FUNCTION f64 m_sqrt(f64 x) { return sqrt(x); }
FUNCTION f64 m_rsqrt(f64 x) { return 1.0 / sqrt(x); }
FUNCTION f64 m_sin(f64 x) { return sin(x); }
FUNCTION f64 m_cos(f64 x) { return cos(x); }
FUNCTION f64 m_tan(f64 x) { return tan(x); }
FUNCTION f64 m_asin(f64 x) { return asin(x); }
FUNCTION f64 m_acos(f64 x) { return acos(x); }
FUNCTION f64 m_atan(f64 x) { return atan(x); }
FUNCTION f64 m_atan2(f64 y, f64 x) { return atan2(y, x); }
FUNCTION f64 m_sinh(f64 x) { return sinh(x); }
FUNCTION f64 m_cosh(f64 x) { return cosh(x); }
FUNCTION f64 m_tanh(f64 x) { return tanh(x); }
FUNCTION f64 m_asinh(f64 x) { return asinh(x); }
FUNCTION f64 m_acosh(f64 x) { return acosh(x); }
FUNCTION f64 m_atanh(f64 x) { return atanh(x); }
FUNCTION f64 m_erf(f64 x) { return erf(x); }
FUNCTION f64 m_normal_cdf(f64 x) { return normcdf(x); }
FUNCTION f64 m_pow(f64 x, f64 y) { return pow(x, y); }
FUNCTION f64 m_rem(f64 x, f64 y) { return fmod(x, y); }
FUNCTION f64 m_floor(f64 x) { return floor(x); }
FUNCTION f64 m_ceil(f64 x) { return ceil(x); }
FUNCTION f64 m_round(f64 x) { return rint(x); }
FUNCTION f64 m_trunc(f64 x) { return trunc(x); }

// The argument of the tanh in GELU's approximation, doubled: that tanh is a sigmoid of it.
FUNCTION f64 gelu_tanh_inner(f64 x) {
    return x * (1.5957691216057308 + 0.071354816272600268 * x * x);
}
