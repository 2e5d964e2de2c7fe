// Bits of values, conversions, and the exchange of values among the 32 threads of a warp.

template <typename To, typename From> static inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof(to));
    return to;
}
static inline float __uint_as_float(unsigned bits) { return same_bits<float>(bits); }
static inline unsigned __float_as_uint(float value) { return same_bits<unsigned>(value); }
static inline float __int_as_float(int bits) { return same_bits<float>(bits); }
static inline int __float_as_int(float value) { return same_bits<int>(value); }
static inline double __longlong_as_double(long long bits) { return same_bits<double>(bits); }
static inline long long __double_as_longlong(double value) { return same_bits<long long>(value); }

static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
static inline int __clz(int bits) { return bits ? __builtin_clz((unsigned)bits) : 32; }
static inline int __clzll(long long bits) { return bits ? __builtin_clzll((unsigned long long)bits) : 64; }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
static inline unsigned __brev(unsigned bits) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (bits >> bit & 1u) << (31 - bit);
    return reversed;
}
static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
static inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline int __dp4a(int a, int b, int sum) {
    for (int byte = 0; byte < 4; ++byte) sum += (signed char)(a >> 8 * byte) * (signed char)(b >> 8 * byte);
    return sum;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int byte = 0; byte < 4; ++byte) sum += (a >> 8 * byte & 255u) * (b >> 8 * byte & 255u);
    return sum;
}

static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
static inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
static inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
// Towards zero.
static inline float __double2float_rz(double value) {
    const float near = (float)value;
    const bool farther = __builtin_fabs((double)near) > __builtin_fabs(value);
    return farther ? __uint_as_float(__float_as_uint(near) - 1) : near;
}

// Halves by the nearest, ties to even. They take the place of the prelude's, which are assembly.
static inline float load_f16(unsigned short half) {
    const unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, mantissa = half & 0x3ffu;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
    const float size = (float)mantissa * 0x1p-24f;
    return sign ? -size : size;
}
static inline unsigned short store_f16(double value) {
    const unsigned short sign = __builtin_signbit(value) ? 0x8000 : 0;
    const double size = __builtin_fabs(value);
    if (size != size) return sign | 0x7e00;
    if (size >= 65520.0) return sign | 0x7c00;
    // A multiple of the last place: what `rint` leaves is exact.
    int exponent = size < 0x1p-14 ? -14 : __builtin_ilogb(size);
    double places = __builtin_rint(__builtin_ldexp(size, 10 - exponent));
    if (places == 2048.0) { places = 1024.0; exponent += 1; }
    const unsigned whole = (unsigned)places;
    return sign | (whole < 1024 ? whole : (unsigned)(exponent + 15) << 10 | (whole - 1024));
}
static inline unsigned short store_f16(float value) { return store_f16((double)value); }

// The kinds of exchange tell threads of a warp that are at different ones.
enum { SHUFFLE_XOR = 1, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE, VOTE, SYNC };
template <typename T> static inline T exchanged_with(unsigned kind, unsigned mask, T value, int from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a warp exchanges words of four and eight bytes");
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof(value));
    const unsigned long long* words = machine->exchange(machine, kind, mask, word);
    if ((mask >> from & 1u) == 0) machine->fail(machine, "it asks for the value of one outside the mask", 0);
    __builtin_memcpy(&value, &words[from], sizeof(value));
    return value;
}
static inline int own_lane() { return (int)(machine->thread.x % 32); }
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
    const int own = own_lane(), other = own ^ distance;
    return exchanged_with(SHUFFLE_XOR, mask, value, other < (own & -width) + width ? other : own);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    const int own = own_lane(), other = own - (int)distance;
    return exchanged_with(SHUFFLE_UP, mask, value, other >= (own & -width) ? other : own);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    const int own = own_lane(), other = own + (int)distance;
    return exchanged_with(SHUFFLE_DOWN, mask, value, other < (own & -width) + width ? other : own);
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    return exchanged_with(SHUFFLE, mask, value, (own_lane() & -width) + (from & (width - 1)));
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const unsigned long long* votes = machine->exchange(machine, VOTE, mask, predicate != 0);
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (mask >> lane & 1u) ballot |= (unsigned)votes[lane] << lane;
    }
    return ballot;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { machine->exchange(machine, SYNC, mask, 0); }
