// Products of f32 on tensor cores, which take TF32: a number is the sum of two of these.

#ifdef NATIVE_TILES
// Of `a`, 16 x 8, rows place / 4 and 8 on, columns place % 4 and 4 on; of `b`, 8 x 8, rows place % 4 and 4 on,
// column place / 4.
FUNCTION void multiply(f32* sums, const u32* a, const u32* b, u32) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
FUNCTION f32 short_part(u32 bits) { return bits_f32((bits & 0x7f800000u) == 0x7f800000u ? bits : bits & 0xffffe000u); }
FUNCTION void multiply(f32* sums, const u32* a, const u32* b, u32 place) {
    const u32 row = place / 4 * 4, column = place % 4 * 8;
    for (u32 k = 0; k < 8; ++k) {
        const f32 upper = short_part(shuffle(a[k / 4 * 2], row + k % 4));
        const f32 lower = short_part(shuffle(a[k / 4 * 2 + 1], row + k % 4));
        const f32 left = short_part(shuffle(b[k / 4], column + k % 4));
        const f32 right = short_part(shuffle(b[k / 4], column + 4 + k % 4));
        sums[0] += upper * left;
        sums[1] += upper * right;
        sums[2] += lower * left;
        sums[3] += lower * right;
    }
}
#endif

// The parts of numbers: the higher ones are rounded, so that the lower ones are of either sign. Multiplying looks at no
// more bits of these than TF32 has.
template <u32 COUNT> FUNCTION void split(u32* high, u32* low, const f32* numbers) {
    UNROLL
    for (u32 index = 0; index < COUNT; ++index) {
        high[index] = (f32_bits(numbers[index]) + 0x1000u) & 0xffffe000u;
        low[index] = f32_bits(numbers[index] - bits_f32(high[index]));
    }
}
