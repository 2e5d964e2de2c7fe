template <typename Operation, typename T>
FUNCTION T among_group(T value, SHARED T* shared, u32 lane, u32 threads) {
    value = among_lanes<Operation>(value, 32);
    BARRIER();
    if (lane % 32 == 0) shared[lane / 32] = value;
    BARRIER();
    const u32 parts = threads / 32;
    value = shared[lane & (parts - 1)];
    return among_lanes<Operation>(value, parts);
}
