// Atomic functions, of memory of the group and of the device. They are atomic among threads of the CPU, too.

template <typename T> struct BitsOf { typedef T type; };
template <> struct BitsOf<float> { typedef unsigned type; };
template <> struct BitsOf<double> { typedef unsigned long long type; };

// Puts what `next` makes of the old value, and returns the old one.
template <typename T, typename Next> static inline T atomic_change(T* at, Next next) {
    typedef typename BitsOf<T>::type Bits;
    Bits* place = (Bits*)at;
    Bits old = __atomic_load_n(place, __ATOMIC_SEQ_CST);
    for (;;) {
        const Bits changed = same_bits<Bits>((T)next(same_bits<T>(old)));
        if (__atomic_compare_exchange_n(place, &old, changed, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            return same_bits<T>(old);
        }
    }
}
// The types that CUDA has each of them for, and no others.
#define ATOMIC(NAME, T, RESULT) \
    static inline T NAME(T* at, T value) { \
        return atomic_change(at, [value](T old) { return RESULT; }); \
    }
#define ATOMIC_WORDS(NAME, RESULT) \
    ATOMIC(NAME, int, RESULT) ATOMIC(NAME, unsigned, RESULT) ATOMIC(NAME, unsigned long long, RESULT)
ATOMIC_WORDS(atomicAdd, old + value)
ATOMIC(atomicAdd, float, old + value)
ATOMIC(atomicAdd, double, old + value)
ATOMIC(atomicSub, int, old - value)
ATOMIC(atomicSub, unsigned, old - value)
ATOMIC_WORDS(atomicMax, old > value ? old : value)
ATOMIC(atomicMax, long long, old > value ? old : value)
ATOMIC_WORDS(atomicMin, old < value ? old : value)
ATOMIC(atomicMin, long long, old < value ? old : value)
ATOMIC_WORDS(atomicOr, old | value)
ATOMIC_WORDS(atomicAnd, old & value)
ATOMIC_WORDS(atomicXor, old ^ value)
ATOMIC_WORDS(atomicExch, value)
ATOMIC(atomicExch, float, value)
ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef ATOMIC_WORDS
#undef ATOMIC

#define ATOMIC_SWAP(T) \
    static inline T atomicCAS(T* at, T compared, T value) { \
        return atomic_change(at, [compared, value](T old) { return old == compared ? value : old; }); \
    }
ATOMIC_SWAP(int)
ATOMIC_SWAP(unsigned)
ATOMIC_SWAP(unsigned short)
ATOMIC_SWAP(unsigned long long)
#undef ATOMIC_SWAP
