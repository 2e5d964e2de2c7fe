// What NVRTC gives the text of a kernel, on a CPU: the threads of a group, how they meet, and shared memory.
// Where a text uses the assembly of a GPU, it asks for this name and does it in another way.
#define STREAMPOOL_EMULATED

struct Place { unsigned x, y, z; };
// As `Machine` of machine.rs.
struct Machine {
    Place thread, block, threads, blocks;
    void (*barrier)(Machine*, unsigned line);
    const unsigned long long* (*exchange)(Machine*, unsigned kind, unsigned mask, unsigned long long value);
    void* (*shared)(Machine*, unsigned long long bytes);
    void (*fail)(Machine*, const char* why, unsigned line);
};
static thread_local Machine* machine;

#define threadIdx (machine->thread)
#define blockIdx (machine->block)
#define blockDim (machine->threads)
#define gridDim (machine->blocks)
#define warpSize 32

#define __global__ static
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)

#define __syncthreads() machine->barrier(machine, __LINE__)
#define __threadfence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __threadfence_block() __atomic_thread_fence(__ATOMIC_SEQ_CST)

// `__shared__ TYPE NAME[LENGTH];` is written as `auto& NAME = shared_array<TYPE, LENGTH>();`.
template <typename T, unsigned long long LENGTH> static inline T (&shared_array())[LENGTH] {
    return *(T(*)[LENGTH])machine->shared(machine, sizeof(T) * LENGTH);
}

// What an entry is called with: addresses become pointers of any type, and the bytes its parameters.
struct Address {
    void* at;
    template <typename T> operator T*() const { return (T*)at; }
};
struct Bytes {
    const void* at;
    template <typename T> operator T() const {
        T params;
        __builtin_memcpy(&params, at, sizeof(T));
        return params;
    }
};

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
