// Matrices of short floats in the registers of a warp, as the tensor cores take them. Each of the 32 threads,
// `place`, holds pairs of neighbours, the first in the low half:
//   of a left operand, 16 x 16, rows place / 4 and 8 on, columns place % 4 * 2 and 8 on (four pairs);
//   of a right operand, 16 x 8, rows place % 4 * 2 and 8 on, column place / 4 (two pairs);
//   of sums, 16 x 8, rows place / 4 and 8 on, columns place % 4 * 2 and the next (four numbers).

#ifdef NATIVE_TILES
FUNCTION u32 pair_f16(f32 first, f32 second) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
FUNCTION u32 pair_bf16(f32 first, f32 second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
FUNCTION void multiply_f16(f32* sums, const u32* a, u32 b0, u32 b1, u32) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FUNCTION void multiply_bf16(f32* sums, const u32* a, u32 b0, u32 b1, u32) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Four matrices of 8 x 8: those of a block of 16 x 16, the second below the first, then the right half. The
// block's rows begin at multiples of 16 bytes.
FUNCTION void load_tile(u32* to, const u16* at, u32 pitch, u32 place) {
    const u32 from = u32(__cvta_generic_to_shared(at + place % 16 * pitch + place / 16 * 8));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
// The same, each of the four turned.
FUNCTION void load_turned_tile(u32* to, const u16* at, u32 pitch, u32 place) {
    const u32 from = u32(__cvta_generic_to_shared(at + place % 16 * pitch + place / 16 * 8));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
// Begins to copy 16 aligned bytes of elements, or zeros.
template <typename T> FUNCTION void copy_async(T* to, const T* from, bool inside) {
    const u32 place = u32(__cvta_generic_to_shared(to));
    const u32 bytes = inside ? 16u : 0u;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(place), "l"(from), "r"(bytes) : "memory");
}
// This thread's copies have arrived; others see them after a barrier.
FUNCTION void copies_arrive() { asm volatile("cp.async.wait_all;" : : : "memory"); }
#else
FUNCTION u32 pair_f16(f32 first, f32 second) { return u32(store_f16(first)) | u32(store_f16(second)) << 16; }
FUNCTION u32 pair_bf16(f32 first, f32 second) { return u32(store_bf16(first)) | u32(store_bf16(second)) << 16; }
FUNCTION f32 half_of_f16(u32 pair, u32 index) { return load_f16(u16(pair >> 16 * index)); }
FUNCTION f32 half_of_bf16(u32 pair, u32 index) { return load_bf16(u16(pair >> 16 * index)); }
// Every thread gets the pairs of its rows and columns from those that hold them.
#define MULTIPLY(TYPE) \
    FUNCTION void multiply_##TYPE(PRIVATE f32* sums, PRIVATE const u32* a, u32 b0, u32 b1, u32 place) { \
        const u32 row = place / 4 * 4, column = place % 4 * 8; \
        for (u32 k = 0; k < 4; ++k) { \
            u32 left[4], right[4]; \
            for (u32 part = 0; part < 4; ++part) { left[part] = shuffle(a[part], row + k); } \
            right[0] = shuffle(b0, column + k); \
            right[1] = shuffle(b1, column + k); \
            right[2] = shuffle(b0, column + 4 + k); \
            right[3] = shuffle(b1, column + 4 + k); \
            for (u32 end = 0; end < 2; ++end) { \
                for (u32 side = 0; side < 2; ++side) { \
                    const f32 y0 = half_of_##TYPE(right[side * 2], end), y1 = half_of_##TYPE(right[side * 2 + 1], end); \
                    sums[side] += half_of_##TYPE(left[0], end) * y0 + half_of_##TYPE(left[2], end) * y1; \
                    sums[2 + side] += half_of_##TYPE(left[1], end) * y0 + half_of_##TYPE(left[3], end) * y1; \
                } \
            } \
        } \
    }
MULTIPLY(f16)
MULTIPLY(bf16)
FUNCTION void load_tile(PRIVATE u32* to, SHARED const u16* at, u32 pitch, u32 place) {
    for (u32 part = 0; part < 4; ++part) {
        SHARED const u16* from = at + (part % 2 * 8 + place / 4) * pitch + part / 2 * 8 + place % 4 * 2;
        to[part] = u32(from[0]) | u32(from[1]) << 16;
    }
}
FUNCTION void load_turned_tile(PRIVATE u32* to, SHARED const u16* at, u32 pitch, u32 place) {
    for (u32 part = 0; part < 4; ++part) {
        SHARED const u16* from = at + (part % 2 * 8 + place % 4 * 2) * pitch + part / 2 * 8 + place / 4;
        to[part] = u32(from[0]) | u32(from[pitch]) << 16;
    }
}
template <typename T> FUNCTION void copy_async(SHARED T* to, GLOBAL const T* from, bool inside) {
    for (u32 index = 0; index < 16 / sizeof(T); ++index) { to[index] = inside ? from[index] : T(0); }
}
FUNCTION void copies_arrive() {}
#endif
