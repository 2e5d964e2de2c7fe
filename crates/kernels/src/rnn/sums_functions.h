// Each thread sums the gates of a unit, of RUN neighbouring sequences; then of another unit, if there are more.
struct alignas(sizeof(Number) * VECTOR) Run { Number numbers[VECTOR]; };

// Adds the products of the states with gates from FIRST on.
template <u32 FIRST, u32 COUNT>
FUNCTION void multiply(PRIVATE Number* sums, STATE const Number* states, GLOBAL const Stored* weights, u32 unit,
                       u32 hidden) {
    GLOBAL const Stored* from = weights + i64(unit) * GATES;
    for (u32 k = 0; k < hidden; ++k) {
        Number w[COUNT];
#if GATES_AT_ONCE
        const Pack<Stored, 4> pack = load_pack<4>(from);
        UNROLL
        for (u32 gate = 0; gate < COUNT; ++gate) { w[gate] = loaded(pack.values[gate]); }
#else
        UNROLL
        for (u32 gate = 0; gate < COUNT; ++gate) { w[gate] = loaded(from[FIRST + gate]); }
#endif
        UNROLL
        for (u32 part = 0; part < RUN / VECTOR; ++part) {
            const Run run = *(STATE const Run*)(states + part * VECTOR);
            UNROLL
            for (u32 index = 0; index < VECTOR; ++index) {
                UNROLL
                for (u32 gate = 0; gate < COUNT; ++gate) {
                    sums[(part * VECTOR + index) * GATES + FIRST + gate] += w[gate] * run.numbers[index];
                }
            }
        }
        from += i64(hidden) * GATES;
        states += PITCH;
    }
}
