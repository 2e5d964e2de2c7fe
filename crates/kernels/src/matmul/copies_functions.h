// What products on tensor cores have in common: copies that are under way while others are used, and lines of f32.
#ifdef NATIVE_TILES
// The compiler cannot tell where it comes from, and keeps it instead of computing it again on each turn.
FUNCTION u32 kept(u32 value) {
    asm volatile("" : "+r"(value));
    return value;
}
// What is copied since the last call belongs together; all but the last few of these have arrived.
FUNCTION void end_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int COUNT> FUNCTION void all_but_arrive() { asm volatile("cp.async.wait_group %0;" : : "n"(COUNT) : "memory"); }
// Four matrices of 8 lines of four numbers; thread 8 i + j tells where line j of matrix i is.
FUNCTION void load_lines(f32* to, const f32* line, u32) {
    const u32 at = u32(__cvta_generic_to_shared(line));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(at) : "memory");
}
#else
FUNCTION u32 kept(u32 value) { return value; }
FUNCTION void end_copies() {}
template <int COUNT> FUNCTION void all_but_arrive() {}
FUNCTION void load_lines(f32* to, const f32* line, u32 place) {
    const u64 own = u64(line);
    for (u32 part = 0; part < 4; ++part) { to[part] = ((const f32*)shuffle(own, part * 8 + place / 4))[place % 4]; }
}
#endif
