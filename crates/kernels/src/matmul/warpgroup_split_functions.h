// Each number is the sum of two TF32 numbers. Lines across the inner dimension are read by threads, not by tensor cores.
#define SUMS (ROWS * COLUMNS / TEAM_THREADS)
// Terms are multiplied by eight.
#define STEPS (DEPTH / 8)
FUNCTION u32 across_place(u32 depth, u32 column) { return depth * COLUMNS + (column / 8 ^ depth % 4) * 8 + column % 8; }

// What is left of a number whose later bits are cut off, rounded.
FUNCTION f32 rest_of(f32 number) {
    const f32 rest = number - bits_f32(f32_bits(number) & 0xffffe000u);
    return bits_f32(f32_bits(rest) + 0x1000u);
}

#ifdef NATIVE_WARPGROUPS
// Of the left factor, 64 x 8, each warp has 16 rows: place / 4 and 8 on, columns place % 4 and 4 on. The right one has
// its columns as the lines of a tile. Unless `add`, sums begin at zero.
FUNCTION void multiply(f32* sums, const u32* left, Tile right, bool add, u32) {
#if ROWS == 64
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" NAMES_32 "}, {%32, %33, %34, %35}, %36, add, 1, 1;\n}\n"
                 : SIXTEEN(0), SIXTEEN(16)
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(u32(add)));
#else
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %21, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {" NAMES_16 "}, {%16, %17, %18, %19}, %20, add, 1, 1;\n}\n"
                 : SIXTEEN(0)
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(u32(add)));
#endif
}
#else
FUNCTION void multiply(f32* sums, const u32* left, Tile right, bool add, u32 place) {
    for (u32 index = 0; index < SUMS && !add; ++index) { sums[index] = 0.0f; }
    for (u32 k = 0; k < 8; ++k) {
        const f32 upper = short_part(shuffle(left[k / 4 * 2], place / 4 * 4 + k % 4));
        const f32 lower = short_part(shuffle(left[k / 4 * 2 + 1], place / 4 * 4 + k % 4));
        for (u32 index = 0; index < SUMS; ++index) {
            const u32 line = index / 4 * 8 + place % 4 * 2 + index % 2;
            const f32 number = short_part(f32_bits(right.numbers[along_place(line, right.step * 8 + k)]));
            sums[index] += (index % 4 < 2 ? upper : lower) * number;
        }
    }
}
#endif

// The plain sum of one row and column.
FUNCTION f32 plain_sum(const f32* a, const f32* b, i64 r, i64 c, const Params& p) {
    f32 sum = 0.0f;
#if WINDOWS
    const u32 image = u32(r) / p.windows, window = u32(r) % p.windows;
    const i32 top = i32(window / p.windows_x) * p.stride_y - p.before_y;
    const i32 left = i32(window % p.windows_x) * p.stride_x - p.before_x;
#pragma unroll 1
    for (u32 k = 0; k < u32(p.k); ++k) {
        const u32 channel = k % p.channels, tap = k / p.channels;
        const i32 y = top + i32(tap / p.kernel_x) * p.dilation_y, x = left + i32(tap % p.kernel_x) * p.dilation_x;
        if (u32(y) < p.height && u32(x) < p.width) {
            sum += a[i32(image) * p.src_image + y * p.src_y + x * p.src_x + i32(channel)] * b[c * p.b_column + k];
        }
    }
#else
#pragma unroll 1
    for (i64 k = 0; k < p.k; ++k) { sum += a[r * p.a_row + k] * b[c * p.b_column + k * p.b_row]; }
#endif
    return sum;
}
