// The other functions of Metal's library, as they were declared. A thread is told in which line it waits.

inline metal::mem_flags metal::operator|(mem_flags x, mem_flags y) { return (mem_flags)((int)x | (int)y); }
namespace metal {
static inline void meet_in_group(mem_flags, unsigned line) { machine->barrier(machine, line); }
}
#define threadgroup_barrier(flags) meet_in_group(flags, __LINE__)
inline void metal::simdgroup_barrier(mem_flags) { machine->exchange(machine, SYNC, 0xffffffffu, 0); }

#define SHUFFLES(T) \
    inline T metal::simd_shuffle_xor(T value, ushort distance) { \
        return exchanged_with(SHUFFLE_XOR, 0xffffffffu, value, own_lane() ^ distance); \
    } \
    inline T metal::simd_shuffle(T value, ushort from) { return exchanged_with(SHUFFLE, 0xffffffffu, value, from); }
SHUFFLES(float)
SHUFFLES(int)
SHUFFLES(uint)
SHUFFLES(short)
SHUFFLES(ushort)
SHUFFLES(char)
SHUFFLES(uchar)
#undef SHUFFLES

// As Metal allows, an exchange fails at times although it need not.
UNCHECKED inline bool metal::atomic_compare_exchange_weak_explicit(
    volatile atomic_uint* at, uint* expected, uint wanted, memory_order, memory_order) {
    accessed((const void*)at, sizeof(*at));
    static thread_local unsigned calls = 0;
    if (++calls % 5 == 0) {
        *expected = __atomic_load_n(&at->value, __ATOMIC_RELAXED);
        return false;
    }
    return __atomic_compare_exchange_n(&at->value, expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
UNCHECKED inline uint metal::atomic_fetch_add_explicit(volatile atomic_uint* at, uint value, memory_order) {
    accessed((const void*)at, sizeof(*at));
    return __atomic_fetch_add(&at->value, value, __ATOMIC_RELAXED);
}

inline uint metal::clz(uint x) { return x != 0 ? (uint)__builtin_clz(x) : 32; }
inline uint metal::mulhi(uint x, uint y) { return (uint)((unsigned long long)x * y >> 32); }
inline int metal::min(int x, int y) { return y < x ? y : x; }
inline int metal::max(int x, int y) { return x < y ? y : x; }
inline int metal::abs(int x) { return x < 0 ? -x : x; }
inline uint metal::min(uint x, uint y) { return y < x ? y : x; }
inline uint metal::max(uint x, uint y) { return x < y ? y : x; }
