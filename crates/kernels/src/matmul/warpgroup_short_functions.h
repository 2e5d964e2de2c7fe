// A warpgroup sums for 64 rows and all columns of a group. Both factors are read from shared memory.
#define SUMS (COLUMNS / 2u)
// Parts of the terms that a team sums.
#define OWN_PARTS (PARTS / TEAMS)
// Terms are multiplied by sixteen.
#define STEPS (DEPTH / 16)
FUNCTION u32 across_place(u32 depth, u32 column) {
    const u32 line = column / 64 * DEPTH + depth, pack = column % 64 / 8;
    return line * ACROSS_COLUMNS + (pack ^ LINE_SHIFT(ACROSS_COLUMNS * BYTES, depth)) * 8 + column % 8;
}
#if B_ALONG_K
#define right_at along_at
#define right_step along_step
#define ACROSS "0"
#else
#define right_at across_at
#define right_step across_step
#define ACROSS "1"
#endif

#ifdef NATIVE_WARPGROUPS
#if BRAIN
#define FACTORS "bf16.bf16"
#else
#define FACTORS "f16.f16"
#endif
FUNCTION void multiply(f32* sums, Tile left, Tile right, u32, u32) {
#if COLUMNS == 128
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." FACTORS " {" NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, "
                 "%39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63}, %64, %65, add, 1, 1, 0, " ACROSS ";\n}\n"
                 : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48) : "l"(left), "l"(right));
#elif COLUMNS == 32
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32." FACTORS " {" NAMES_16 "}, %16, %17, add, 1, 1, 0, " ACROSS ";\n}\n"
                 : SIXTEEN(0) : "l"(left), "l"(right));
#else
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." FACTORS " {" NAMES_32 "}, %32, %33, add, 1, 1, 0, " ACROSS ";\n}\n"
                 : SIXTEEN(0), SIXTEEN(16) : "l"(left), "l"(right));
#endif
}
#else
FUNCTION void multiply(f32* sums, Tile left, Tile right, u32 line, u32 column) {
    for (u32 index = 0; index < SUMS; ++index) {
        const u32 row = line + index % 4 / 2 * 8, across = column + index / 4 * 8 + index % 2;
        for (u32 k = 0; k < 16; ++k) {
            const u32 depth = left.step * 16 + k;
            const Stored number = right.numbers[B_ALONG_K ? along_place(across, depth) : across_place(depth, across)];
            sums[index] += loaded(left.numbers[along_place(row, depth)]) * loaded(number);
        }
    }
}
#endif
