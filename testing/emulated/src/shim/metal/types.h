// The types of Metal.

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;

struct half {
    ushort bits;
    half() = default;
    half(float value) : bits(store_f16(value)) {}
    operator float() const { return load_f16(bits); }
};

// The first half of a float.
struct bfloat {
    ushort bits;
    bfloat() = default;
    bfloat(float value) {
        const uint whole = same_bits<uint>(value);
        const bool is_nan = value != value;
        bits = (ushort)((is_nan ? whole | 0x400000u : whole + 0x7fffu + (whole >> 16 & 1u)) >> 16);
    }
    operator float() const { return same_bits<float>((uint)bits << 16); }
};

namespace metal {
template <typename T, int N> struct Elements;
template <typename T> struct Elements<T, 2> { union { T at[2]; struct { T x, y; }; }; };
template <typename T> struct Elements<T, 3> { union { T at[3]; struct { T x, y, z; }; }; };
template <typename T> struct Elements<T, 4> { union { T at[4]; struct { T x, y, z, w; }; }; };
// Three elements take the place of four.
template <typename T, int N> struct alignas((N + N % 2) * sizeof(T)) vec : Elements<T, N> {
    vec() = default;
    vec(T each) { for (int index = 0; index < N; ++index) this->at[index] = each; }
    T& operator[](int index) { return this->at[index]; }
    const T& operator[](int index) const { return this->at[index]; }
};

template <typename To, typename From> static inline To as_type(From from) { return same_bits<To>(from); }
}

using metal::as_type;
typedef metal::vec<ushort, 2> ushort2;
typedef metal::vec<ushort, 3> ushort3;
typedef metal::vec<uint, 2> uint2;
typedef metal::vec<uint, 3> uint3;
typedef metal::vec<uint, 4> uint4;
typedef metal::vec<ulong, 2> ulong2;
typedef metal::vec<float, 2> float2;
typedef metal::vec<float, 4> float4;
