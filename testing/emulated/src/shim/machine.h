// What the text of a kernel stands on here: the threads of a group, how they meet, and shared memory.
// Where a text uses the assembly of a GPU, it asks for this name and does it in another way.
#define STREAMPOOL_EMULATED

struct Place { unsigned x, y, z; };
struct Range { const char *begin, *end; };
// As `Machine` of machine.rs.
struct Machine {
    Place thread, block, threads, blocks;
    unsigned number;
    void (*barrier)(Machine*, unsigned line);
    const unsigned long long* (*exchange)(Machine*, unsigned kind, unsigned mask, unsigned long long value);
    void* (*shared)(Machine*, unsigned long long bytes);
    void (*fail)(Machine*, const char* why, unsigned line);
    void (*astray)(Machine*, const void* at, unsigned long long bytes);
    const Range* ranges;
    unsigned long long range_count;
};
static thread_local Machine* machine;

// A function whose accesses to memory are not those of the kernel.
#define UNCHECKED __attribute__((no_sanitize("thread")))

// A declaration of a shared array, `TYPE NAME[LENGTH];`, is written as `auto& NAME = shared_array<TYPE, LENGTH>();`.
template <typename T, unsigned long long LENGTH> static inline T (&shared_array())[LENGTH] {
    return *(T(*)[LENGTH])machine->shared(machine, sizeof(T) * LENGTH);
}

// What an entry is called with: addresses become pointers and references of any type.
struct Address {
    void* at;
    template <typename T> operator T*() const { return (T*)at; }
};
struct Referred {
    void* at;
    template <typename T> operator T&() const { return *(T*)at; }
};
