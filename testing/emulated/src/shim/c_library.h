// Functions of floats of the C library, and one that it lacks.

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

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
