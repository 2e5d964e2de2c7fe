// Puts `wanted` where `expected` is; gives what was there. The exchange may fail for no reason.
FUNCTION u32 swap_if(CHANGED u32* at, u32 expected, u32 wanted) {
    CHANGED metal::atomic_uint* place = reinterpret_cast<CHANGED metal::atomic_uint*>(at);
    u32 found = expected;
    while (!metal::atomic_compare_exchange_weak_explicit(place, &found, wanted,
               metal::memory_order_relaxed, metal::memory_order_relaxed)) {
        if (found != expected) return found;
    }
    return expected;
}
FUNCTION void add_at(CHANGED u32* at, u32 value) {
    CHANGED metal::atomic_uint* place = reinterpret_cast<CHANGED metal::atomic_uint*>(at);
    metal::atomic_fetch_add_explicit(place, value, metal::memory_order_relaxed);
}
FUNCTION void add_at(CHANGED i32* at, i32 value) { add_at(reinterpret_cast<CHANGED u32*>(at), u32(value)); }
// Gives what was there.
FUNCTION f32 added_at(CHANGED f32* at, f32 value) {
    CHANGED u32* place = reinterpret_cast<CHANGED u32*>(at);
    for (u32 old = *place;;) {
        const u32 found = swap_if(place, old, f32_bits(bits_f32(old) + value));
        if (found == old) return bits_f32(old);
        old = found;
    }
}
FUNCTION void add_at(CHANGED f32* at, f32 value) { added_at(at, value); }
