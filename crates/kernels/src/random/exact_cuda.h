// Basic operations, each rounded by itself: none is fused with another.
#define EXACT(T, PREFIX, FUSED) \
    FUNCTION T x_mul(T x, T y) { return PREFIX##mul_rn(x, y); } \
    FUNCTION T x_add(T x, T y) { return PREFIX##add_rn(x, y); } \
    FUNCTION T x_sub(T x, T y) { return PREFIX##add_rn(x, -y); } \
    FUNCTION T x_div(T x, T y) { return PREFIX##div_rn(x, y); } \
    FUNCTION T x_sqrt(T x) { return PREFIX##sqrt_rn(x); } \
    FUNCTION T x_fma(T x, T y, T z) { return FUSED(x, y, z); }
EXACT(f32, __f, __fmaf_rn)
EXACT(f64, __d, __fma_rn)
#undef EXACT
