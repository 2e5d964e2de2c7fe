// Tiles of factors in shared memory, as Hopper's tensor cores take them. A tile has lines along the inner dimension, or
// across it, in packs of 16 bytes. Packs change places within their line, so that what is read at once lies in
// different banks.
struct alignas(16) Words { u32 numbers[4]; };

#define BYTES (u32(sizeof(Stored)))
// Elements of a pack.
#define PACK (16u / BYTES)
#define A_NUMBERS (ROWS * DEPTH)
#define B_NUMBERS (COLUMNS * DEPTH)
// Packs of a line along the inner dimension, and lines that the threads of a team copy at once; the same of those across.
#define LINE_PACKS (DEPTH / PACK)
#define LINES (TEAM_THREADS / LINE_PACKS)
#define B_LINES (TEAM_THREADS / (COLUMNS / PACK))
// Packs that each thread copies.
#define A_PACKS (A_NUMBERS / PACK / TEAM_THREADS)
#define B_PACKS (B_NUMBERS / PACK / TEAM_THREADS)
// How far apart these are in a tile of the second factor. Lines across are of 64 columns at most.
#if B_ALONG_K
#define B_FURTHER (LINES * DEPTH)
#else
#define B_FURTHER (B_LINES * ACROSS_COLUMNS)
#endif
#define ACROSS_COLUMNS (COLUMNS < 64 ? COLUMNS : 64u)
// How packs change places in a line of 64 or 128 bytes.
#define LINE_SHIFT(bytes, line) ((bytes) == 64 ? (line) / 2 % 4 : (line) % 8)

// Where an element of a line along the inner dimension is.
FUNCTION u32 along_place(u32 line, u32 depth) {
    return line * DEPTH + (depth / PACK ^ LINE_SHIFT(DEPTH * BYTES, line)) * PACK + depth % PACK;
}

#if defined(NATIVE_TILES) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NATIVE_WARPGROUPS
// All threads of the team arrive, and what they wrote to shared memory is seen by them and by the tensor cores.
FUNCTION void team_arrives(u32 team) {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    asm volatile("bar.sync %0, %1;" : : "r"(team + 1), "n"(TEAM_THREADS) : "memory");
}
// How tensor cores find a tile: its address, how its lines are, and how far it is from eight lines to the next, in units
// of 16 bytes; of lines across also from 64 columns to the next.
typedef u64 Tile;
FUNCTION u64 address_of(const Stored* at) { return u64(__cvta_generic_to_shared(at)) / 16; }
FUNCTION Tile along_at(const Stored* at) {
    const u64 mode = DEPTH * BYTES == 64 ? 2 : 1;
    return address_of(at) | 1ull << 16 | u64(DEPTH * BYTES * 8 / 16) << 32 | mode << 62;
}
FUNCTION Tile across_at(const Stored* at) {
    const u64 line = ACROSS_COLUMNS * BYTES, mode = line == 64 ? 2 : 1;
    return address_of(at) | DEPTH * line / 16 << 16 | line * 8 / 16 << 32 | mode << 62;
}
// The terms that are multiplied at once: 32 bytes of lines along, 16 lines across.
FUNCTION Tile along_step(Tile tile, u32 step) { return tile + step * (32 / 16); }
FUNCTION Tile across_step(Tile tile, u32 step) { return tile + step * (ACROSS_COLUMNS * BYTES); }
// Between these two, tensor cores add to sums. Nobody else touches sums or factors meanwhile.
FUNCTION void begin_products() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
template <u32 COUNT> FUNCTION void end_products(f32* sums) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
    UNROLL
    for (u32 index = 0; index < COUNT; ++index) { asm volatile("" : "+f"(sums[index]) : : "memory"); }
}
// Those since the last call belong together; all but the last of these are over.
FUNCTION void go() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
FUNCTION void all_but_last_end() { asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory"); }
#define FOUR(at) "+f"(sums[at]), "+f"(sums[at + 1]), "+f"(sums[at + 2]), "+f"(sums[at + 3])
#define SIXTEEN(at) FOUR(at), FOUR(at + 4), FOUR(at + 8), FOUR(at + 12)
#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#else
FUNCTION void team_arrives(u32) { BARRIER(); }
struct Tile { const Stored* numbers; u32 step; };
FUNCTION Tile along_at(const Stored* at) { return Tile{at, 0}; }
FUNCTION Tile along_step(Tile tile, u32 step) { return Tile{tile.numbers, step}; }
FUNCTION void begin_products() {}
template <u32 COUNT> FUNCTION void end_products(f32*) {}
FUNCTION void go() {}
#endif
