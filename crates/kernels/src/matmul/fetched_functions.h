// A warpgroup has 64 rows and some columns of a group's results, and each of its threads so many of these.
#define SUMS (WIDTH / 2u)
#define A_BYTES (ROWS * DEPTH * BYTES)
#define B_BYTES (COLUMNS * DEPTH * BYTES)
// A tile across has parts of so many columns.
#define PART_BYTES (ACROSS_COLUMNS * DEPTH * BYTES)

#ifdef CLUSTER
#define PARTS CLUSTER
#else
#define PARTS 1u
#endif
// Each group of a cluster has a part of the terms, and each of its threads finishes some of the pairs of results.
#define PART_BEGINS(part) (turns * (part) / PARTS)
#ifdef NATIVE_WARPGROUPS
#define OWN_PAIRS ((SUMS / 2 + PARTS - 1) / PARTS)
#define PAIR(own) ((own) * PARTS + part)
#else
// Here groups do not see each other's memory: the first has all parts, and finishes all results.
#define OWN_PAIRS (SUMS / 2)
#define PAIR(own) (own)
#endif

#ifdef NATIVE_WARPGROUPS
#if B_ALONG_K
#define right_at along_at
#define right_step along_step
// Where a column begins in a tile.
#define COLUMN_AT(column) ((column) * DEPTH)
#define ACROSS "0"
#else
#define right_at across_at
#define right_step across_step
#define COLUMN_AT(column) ((column) / 64 * 64 * DEPTH + (column) % 64)
#define ACROSS "1"
#endif
#if BRAIN
#define FACTORS "bf16.bf16"
#else
#define FACTORS "f16.f16"
#endif
#if WIDTH == 128
#define SHAPE "m64n128k16"
#define NAMES NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
    "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FACTOR_NAMES "%64, %65"
#define ALL_SUMS SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)
#elif WIDTH == 64
#define SHAPE "m64n64k16"
#define NAMES NAMES_32
#define FACTOR_NAMES "%32, %33"
#define ALL_SUMS SIXTEEN(0), SIXTEEN(16)
#else
#define SHAPE "m64n32k16"
#define NAMES NAMES_16
#define FACTOR_NAMES "%16, %17"
#define ALL_SUMS SIXTEEN(0)
#endif
FUNCTION void multiply(f32* sums, Tile left, Tile right) {
    asm volatile("{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned." SHAPE ".f32." FACTORS " {" NAMES "}, " FACTOR_NAMES ", add, 1, 1, 0, " ACROSS ";\n}\n"
                 : ALL_SUMS : "l"(left), "l"(right));
}
// Barriers in shared memory. Each turn of one ends when as many have arrived as it counts, and all bytes have that it expects.
FUNCTION u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }
FUNCTION void count_arrivals(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(count) : "memory");
}
FUNCTION void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory"); }
FUNCTION void arrive_with_bytes(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}
// Until a turn has ended: an even one, or an odd one.
FUNCTION void await(u32 barrier, u32 odd) {
    asm volatile("{\n.reg .pred ended;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@!ended bra AGAIN;\n}\n" : : "r"(barrier), "r"(odd) : "memory");
}
FUNCTION void prepare_fetches(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory"); }
// The copy engine copies a tile, and then has its bytes arrive. What lies outside of the matrix is zero.
FUNCTION void fetch(u32 to, const TensorMap* map, i64 x, i64 y, u32 matrix, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 : : "r"(to), "l"(map), "r"(i32(x)), "r"(i32(y)), "r"(matrix), "r"(barrier) : "memory");
}
#if PARTS > 1
// All threads of the cluster that are still there arrive, and see what the others wrote to their groups' memory.
FUNCTION void await_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" : : : "memory");
}
FUNCTION u32 pair_place(u32 pair) { return (pair * TEAM_THREADS + threadIdx.x) * 8; }
FUNCTION void store_sums(Words* words, const f32* sums) {
    UNROLL
    for (u32 pair = 0; pair < SUMS / 2; ++pair) {
        *(float2*)((char*)words + pair_place(pair)) = make_float2(sums[pair * 2], sums[pair * 2 + 1]);
    }
}
FUNCTION void add_parts(f32* totals, const Words* words, u32 pair) {
    f32 x[PARTS], y[PARTS];
    // The last may have fewer pairs.
    const u32 at = shared_address(words) + pair_place(pair < SUMS / 2 ? pair : 0);
    UNROLL
    for (u32 part = 0; part < PARTS; ++part) {
        u32 there;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(part));
        asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x[part]), "=f"(y[part]) : "r"(there) : "memory");
    }
    totals[0] = totals[1] = 0.0f;
    UNROLL
    for (u32 part = 0; part < PARTS; ++part) {
        totals[0] += x[part];
        totals[1] += y[part];
    }
}
#endif
#endif
