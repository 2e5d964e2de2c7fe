FUNCTION f32 short_exp2(f32 x) { return exp2(x); }
template <typename T> FUNCTION T shuffle(T value, u32 from) { return simd_shuffle(value, ushort(from)); }
FUNCTION f32 short_inverse(f32 x) { return 1.0f / x; }
