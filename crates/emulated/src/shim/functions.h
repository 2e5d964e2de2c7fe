// Functions of floats, as CUDA names them: those of the C library, and some that it lacks.

extern "C" {
float expf(float); double exp(double);
float exp2f(float); double exp2(double);
float expm1f(float); double expm1(double);
float logf(float); double log(double);
float log2f(float); double log2(double);
float log10f(float); double log10(double);
float log1pf(float); double log1p(double);
float sqrtf(float); double sqrt(double);
float cbrtf(float); double cbrt(double);
float sinf(float); double sin(double);
float cosf(float); double cos(double);
float tanf(float); double tan(double);
float asinf(float); double asin(double);
float acosf(float); double acos(double);
float atanf(float); double atan(double);
float sinhf(float); double sinh(double);
float coshf(float); double cosh(double);
float tanhf(float); double tanh(double);
float asinhf(float); double asinh(double);
float acoshf(float); double acosh(double);
float atanhf(float); double atanh(double);
float erff(float); double erf(double);
float erfcf(float); double erfc(double);
float lgammaf(float); double lgamma(double);
float tgammaf(float); double tgamma(double);
float floorf(float); double floor(double);
float ceilf(float); double ceil(double);
float rintf(float); double rint(double);
float nearbyintf(float); double nearbyint(double);
float roundf(float); double round(double);
float truncf(float); double trunc(double);
float fabsf(float); double fabs(double);
float atan2f(float, float); double atan2(double, double);
float powf(float, float); double pow(double, double);
float fmodf(float, float); double fmod(double, double);
float remainderf(float, float); double remainder(double, double);
float copysignf(float, float); double copysign(double, double);
float fminf(float, float); double fmin(double, double);
float fmaxf(float, float); double fmax(double, double);
float hypotf(float, float); double hypot(double, double);
float nextafterf(float, float); double nextafter(double, double);
float fdimf(float, float); double fdim(double, double);
float fmaf(float, float, float); double fma(double, double, double);
float ldexpf(float, int); double ldexp(double, int);
}

static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }
static inline float normcdff(float x) { return (float)normcdf((double)x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float exp10f(float x) { return powf(10.0f, x); }
static inline double exp10(double x) { return pow(10.0, x); }
static inline float sinpif(float x) { return (float)sin(3.14159265358979324 * fmod((double)x, 2.0)); }
static inline float cospif(float x) { return (float)cos(3.14159265358979324 * fmod((double)x, 2.0)); }
static inline float __expf(float x) { return expf(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

template <typename T> static inline T min(T x, T y) { return y < x ? y : x; }
template <typename T> static inline T max(T x, T y) { return x < y ? y : x; }
