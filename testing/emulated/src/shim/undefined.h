// What the compiler calls where C++ says nothing of what a text does, and machines differ.

struct Undefined {
    const char* file;
    unsigned line, column;
};
#define UNDEFINED(NAME, WHY, ...) \
    extern "C" __attribute__((visibility("hidden"), used)) UNCHECKED void __ubsan_handle_##NAME(Undefined* at, ##__VA_ARGS__) { \
        machine->fail(machine, WHY, at->line); \
    }
UNDEFINED(type_mismatch_v1, "an address is not a multiple of what its type is aligned to", void*)
UNDEFINED(out_of_bounds, "an index is beyond its array", void*)
UNDEFINED(shift_out_of_bounds, "a shift is longer than its type", void*, void*)
UNDEFINED(divrem_overflow, "a division by zero", void*, void*)
UNDEFINED(float_cast_overflow, "a float is too large for the integer it becomes", void*)
#undef UNDEFINED
