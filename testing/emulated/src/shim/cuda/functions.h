// Functions of floats that CUDA has beside those of the C library.

static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }
static inline float normcdff(float x) { return (float)normcdf((double)x); }
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
