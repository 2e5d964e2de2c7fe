// Puts the products of eight states and the weights of some gates where the threads of the simdgroup find them.
template <u32 SOME>
FUNCTION void put_products(SHARED f32* strip, SHARED const u16* states,
                           PRIVATE const simdgroup_matrix<Factor, 8, 8>* gate_weights) {
    simdgroup_matrix<f32, 8, 8> sums[SOME];
    UNROLL
    for (u32 gate = 0; gate < SOME; ++gate) { sums[gate] = make_filled_simdgroup_matrix<f32, 8, 8>(0.0f); }
    UNROLL
    for (u32 k = 0; k < WIDTH / 8; ++k) {
        simdgroup_matrix<Factor, 8, 8> a;
        simdgroup_load(a, (SHARED const Factor*)states + k * 8, PITCH);
        UNROLL
        for (u32 gate = 0; gate < SOME; ++gate) {
            simdgroup_matrix<Factor, 8, 8> b = gate_weights[gate * (WIDTH / 8) + k];
            simdgroup_multiply_accumulate(sums[gate], a, b, sums[gate]);
        }
    }
    UNROLL
    for (u32 gate = 0; gate < SOME; ++gate) { simdgroup_store(sums[gate], strip + gate * 64, 8); }
    simdgroup_barrier(mem_flags::mem_threadgroup);
}
