// A tile of a factor has lines along the inner dimension, or across it, in packs of four numbers. Packs change places
// within their line, so that what is read at once lies in different banks: along the inner dimension as the tensor
// cores expect it.
struct alignas(16) Words { f32 numbers[4]; };

#define COLUMNS 64u
#define PART_THREADS 128u
#define A_NUMBERS (ROWS * DEPTH)
#define B_NUMBERS (COLUMNS * DEPTH)
// Packs of a line, and lines that the threads of a part copy at once.
#define LINE_PACKS (DEPTH / 4)
#define LINES (PART_THREADS / LINE_PACKS)
// Packs that each thread copies.
#define A_PACKS (A_NUMBERS / 4 / PART_THREADS)
#define B_PACKS (B_NUMBERS / 4 / PART_THREADS)
#define SUMS (ROWS * COLUMNS / PART_THREADS)
// Terms are multiplied by eight.
#define STEPS (DEPTH / 8)
#if DEPTH == 16
#define LINE_SHIFT(line) ((line) / 2 % 4)
#define LINE_MODE 2ull
#else
#define LINE_SHIFT(line) ((line) % 8)
#define LINE_MODE 1ull
#endif

// Where a number is in a tile of lines along the inner dimension, and in one of lines across it.
FUNCTION u32 along_place(u32 line, u32 depth) { return line * DEPTH + (depth / 4 ^ LINE_SHIFT(line)) * 4 + depth % 4; }
FUNCTION u32 across_place(u32 depth, u32 column) { return depth * COLUMNS + (column / 8 ^ depth % 4) * 8 + column % 8; }

// The higher part of a number, rounded, and what that leaves.
FUNCTION void halve(u32* high, u32* low, f32 number) {
    *high = (f32_bits(number) + 0x1000u) & 0xffffe000u;
    *low = f32_bits(number - bits_f32(*high));
}
// What is left of a number whose later bits are cut off, rounded.
FUNCTION f32 rest_of(f32 number) {
    const f32 rest = number - bits_f32(f32_bits(number) & 0xffffe000u);
    return bits_f32(f32_bits(rest) + 0x1000u);
}

#if defined(NATIVE_TILES) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Four matrices of 8 lines of four numbers; thread 8 i + j tells where line j of matrix i is.
FUNCTION void load_lines(f32* to, const f32* line, u32) {
    const u32 at = u32(__cvta_generic_to_shared(line));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(at) : "memory");
}
// The compiler cannot tell where it comes from, and keeps it instead of computing it again on each turn.
FUNCTION u32 kept(u32 value) {
    asm volatile("" : "+r"(value));
    return value;
}
// What is copied since the last call belongs together; all but the last few of these have arrived.
FUNCTION void end_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int COUNT> FUNCTION void all_but_arrive() { asm volatile("cp.async.wait_group %0;" : : "n"(COUNT) : "memory"); }
// All threads of the part arrive, and what they wrote to shared memory is seen by them and by the tensor cores.
FUNCTION void part_arrives(u32 part) {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    asm volatile("bar.sync %0, 128;" : : "r"(part + 1) : "memory");
}
// How tensor cores find a tile: its address, and the bytes from eight lines to the next, both in units of 16 bytes.
typedef u64 Tile;
FUNCTION Tile tile_at(const f32* at) {
    const u64 address = u64(__cvta_generic_to_shared(at)) / 16;
    return address | 1ull << 16 | u64(DEPTH * 4 * 8 / 16) << 32 | LINE_MODE << 62;
}
FUNCTION Tile at_step(Tile tile, u32 step) { return tile + step * 2; }
// Between these two, tensor cores add to sums. Nobody else touches sums or factors meanwhile.
FUNCTION void begin_products() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
FUNCTION void end_products(f32* sums) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
    UNROLL
    for (u32 index = 0; index < SUMS; ++index) { asm volatile("" : "+f"(sums[index]) : : "memory"); }
}
FUNCTION void go() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
#define FOUR(at) "+f"(sums[at]), "+f"(sums[at + 1]), "+f"(sums[at + 2]), "+f"(sums[at + 3])
// Of the left factor, 64 x 8, each warp has 16 rows: place / 4 and 8 on, columns place % 4 and 4 on. The right one has
// its columns as the lines of a tile. Unless `add`, sums begin at zero.
FUNCTION void multiply(f32* sums, const u32* left, Tile right, bool add, u32) {
#if ROWS == 64
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, add, 1, 1;\n}\n"
                 : FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(u32(add)));
#else
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %21, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15}, {%16, %17, %18, %19}, %20, add, 1, 1;\n}\n"
                 : FOUR(0), FOUR(4), FOUR(8), FOUR(12)
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(u32(add)));
#endif
}
#else
FUNCTION void load_lines(f32* to, const f32* line, u32 place) {
    const u64 own = u64(line);
    for (u32 part = 0; part < 4; ++part) { to[part] = ((const f32*)shuffle(own, part * 8 + place / 4))[place % 4]; }
}
FUNCTION u32 kept(u32 value) { return value; }
FUNCTION void end_copies() {}
template <int COUNT> FUNCTION void all_but_arrive() {}
FUNCTION void part_arrives(u32) { BARRIER(); }
struct Tile { const f32* numbers; u32 step; };
FUNCTION Tile tile_at(const f32* at) { return Tile{at, 0}; }
FUNCTION Tile at_step(Tile tile, u32 step) { return Tile{tile.numbers, step}; }
FUNCTION void begin_products() {}
FUNCTION void end_products(f32*) {}
FUNCTION void go() {}
FUNCTION f32 short_part(u32 bits) { return bits_f32((bits & 0x7f800000u) == 0x7f800000u ? bits : bits & 0xffffe000u); }
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
