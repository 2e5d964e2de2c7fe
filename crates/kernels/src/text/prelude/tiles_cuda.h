#if !defined(STREAMPOOL_EMULATED) && __CUDA_ARCH__ >= 800
#define NATIVE_TILES
FUNCTION f32 short_exp2(f32 x) {
    f32 result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
FUNCTION f32 short_inverse(f32 x) {
    f32 result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
#else
FUNCTION f32 short_exp2(f32 x) { return exp2f(x); }
FUNCTION f32 short_inverse(f32 x) { return 1.0f / x; }
#endif
template <typename T> FUNCTION T shuffle(T value, u32 from) { return __shfl_sync(0xffffffffu, value, i32(from)); }
