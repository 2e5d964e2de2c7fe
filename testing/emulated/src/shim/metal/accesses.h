// What the compiler calls before each access to memory that is not the thread's alone: only what the launch is given,
// shared memory and stacks may be touched.

// It is called more often than anything else is.
__attribute__((no_sanitize("thread", "undefined"), optimize("O2"))) static void accessed(const void* at, unsigned long long bytes) {
    Machine** const own = &machine;
    if (at == (const void*)own) return;
    const char *begin = (const char*)at, *end = begin + bytes;
    const Range *range = (*own)->ranges, *last = range + (*own)->range_count;
    for (; range != last; ++range) {
        if (begin >= range->begin && end <= range->end) return;
    }
    (*own)->astray(*own, at, bytes);
}

extern "C" {
#define CALLED __attribute__((visibility("hidden"), used)) UNCHECKED
#define ACCESS(NAME, BYTES) CALLED void __tsan_##NAME(void* at) { accessed(at, BYTES); }
#define ACCESSES(NAME) \
    ACCESS(NAME##1, 1) ACCESS(NAME##2, 2) ACCESS(NAME##4, 4) ACCESS(NAME##8, 8) ACCESS(NAME##16, 16)
ACCESSES(read)
ACCESSES(write)
ACCESSES(unaligned_read)
ACCESSES(unaligned_write)
#undef ACCESSES
#undef ACCESS
CALLED void __tsan_read_range(void* at, unsigned long bytes) { accessed(at, bytes); }
CALLED void __tsan_write_range(void* at, unsigned long bytes) { accessed(at, bytes); }
CALLED void __tsan_func_entry(void*) {}
CALLED void __tsan_func_exit() {}
CALLED void __tsan_init() {}
CALLED void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
    accessed(from, bytes);
    accessed(to, bytes);
    return __builtin_memcpy(to, from, bytes);
}
CALLED void* __tsan_memset(void* to, int value, unsigned long bytes) {
    accessed(to, bytes);
    return __builtin_memset(to, value, bytes);
}
#undef CALLED
}
