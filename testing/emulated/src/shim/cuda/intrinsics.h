// Functions of CUDA that are instructions of a GPU: bits of values, conversions, exchanges.

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


// What `exchanged_with` gives, of the types that CUDA exchanges.
template <typename T> static inline T shuffled(unsigned kind, unsigned mask, T value, int from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a warp exchanges words of four and eight bytes");
    return exchanged_with(kind, mask, value, from);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
    const int own = own_lane(), other = own ^ distance;
    return shuffled(SHUFFLE_XOR, mask, value, other < (own & -width) + width ? other : own);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    const int own = own_lane(), other = own - (int)distance;
    return shuffled(SHUFFLE_UP, mask, value, other >= (own & -width) ? other : own);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
    const int own = own_lane(), other = own + (int)distance;
    return shuffled(SHUFFLE_DOWN, mask, value, other < (own & -width) + width ? other : own);
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    return shuffled(SHUFFLE, mask, value, (own_lane() & -width) + (from & (width - 1)));
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
