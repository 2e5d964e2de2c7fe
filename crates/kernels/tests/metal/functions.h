// The functions of Metal's library that kernels use, as it declares them. Whoever includes this has its types and
// says with ONE, TWO and THREE what becomes of a function of so many floats.
namespace metal {
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
mem_flags operator|(mem_flags, mem_flags);
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);

// Shuffles take numbers of at most 32 bits.
#define SHUFFLES(T) \
    T simd_shuffle_xor(T, ushort); \
    T simd_shuffle(T, ushort);
SHUFFLES(float)
SHUFFLES(int)
SHUFFLES(uint)
SHUFFLES(short)
SHUFFLES(ushort)
SHUFFLES(char)
SHUFFLES(uchar)
#undef SHUFFLES
long simd_shuffle_xor(long, ushort) = delete;
ulong simd_shuffle_xor(ulong, ushort) = delete;
long simd_shuffle(long, ushort) = delete;
ulong simd_shuffle(ulong, ushort) = delete;

struct atomic_uint { uint value; };
enum memory_order { memory_order_relaxed };
#define ATOMICS(SPACE) \
    bool atomic_compare_exchange_weak_explicit(volatile SPACE atomic_uint*, thread uint*, uint, memory_order, memory_order); \
    uint atomic_fetch_add_explicit(volatile SPACE atomic_uint*, uint, memory_order);
ATOMICS(device)
ATOMICS(threadgroup)
#undef ATOMICS

uint clz(uint);
uint mulhi(uint, uint);
int min(int, int);
int max(int, int);
int abs(int);
uint min(uint, uint);
uint max(uint, uint);

#define COMMON \
    ONE(fabs) ONE(floor) ONE(ceil) ONE(rint) ONE(trunc) ONE(exp) ONE(exp2) ONE(log) ONE(sqrt) ONE(rsqrt) ONE(sin) \
    ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) \
    ONE(atanh) TWO(atan2) TWO(pow) TWO(fmod) TWO(fmin) TWO(fmax)
COMMON THREE(fma) TWO(copysign) THREE(clamp) TWO(min) TWO(max) ONE(abs)
namespace precise {
COMMON
}
#undef COMMON
#undef THREE
#undef TWO
#undef ONE
}
