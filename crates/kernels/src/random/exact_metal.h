// Basic operations, each rounded by itself: none is fused with another.
#pragma clang fp contract(off)
FUNCTION f32 x_mul(f32 x, f32 y) { return x * y; }
FUNCTION f32 x_add(f32 x, f32 y) { return x + y; }
FUNCTION f32 x_sub(f32 x, f32 y) { return x - y; }
FUNCTION f32 x_div(f32 x, f32 y) { return x / y; }
FUNCTION f32 x_sqrt(f32 x) { return precise::sqrt(x); }
FUNCTION f32 x_fma(f32 x, f32 y, f32 z) { return fma(x, y, z); }
