// The words of Metal. All memory has one address space here: the check of kernel text with clang keeps them apart.

#define kernel static
#define device
#define constant const
#define threadgroup
#define thread
#define EACH_SPACE(DECLARED) DECLARED()

// What becomes of the functions of floats that Metal's library declares.
#define ONE(name) static inline float name(float x) { return ::name##f(x); }
#define TWO(name) static inline float name(float x, float y) { return ::name##f(x, y); }
#define THREE(name) static inline float name(float x, float y, float z) { return ::name##f(x, y, z); }

static inline float absf(float x) { return fabsf(x); }
static inline float minf(float x, float y) { return fminf(x, y); }
static inline float maxf(float x, float y) { return fmaxf(x, y); }
static inline float clampf(float x, float low, float high) { return fminf(fmaxf(x, low), high); }
