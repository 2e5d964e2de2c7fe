// Bits of values, halves, and the exchange of values among the 32 threads of a warp.

template <typename To, typename From> static inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof(to));
    return to;
}

// Halves by the nearest, ties to even. In CUDA's dialect they take the place of the prelude's, which are assembly.
static inline float load_f16(unsigned short half) {
    const unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, mantissa = half & 0x3ffu;
    if (exponent == 31) return same_bits<float>(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return same_bits<float>(sign | (exponent + 112) << 23 | mantissa << 13);
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
enum {
    SHUFFLE_XOR = 1, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE, VOTE, SYNC,
    MATRIX_MADE, MATRIX_LOAD, MATRIX_STORE, MATRIX_PRODUCT
};
template <typename T> UNCHECKED static T exchanged_with(unsigned kind, unsigned mask, T value, int from) {
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof(value));
    const unsigned long long* words = machine->exchange(machine, kind, mask, word);
    if ((mask >> from & 1u) == 0) machine->fail(machine, "it asks for the value of one outside the mask", 0);
    __builtin_memcpy(&value, &words[from], sizeof(value));
    return value;
}
static inline int own_lane() { return (int)(machine->number % 32); }
