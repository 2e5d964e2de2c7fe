template <typename Operation, typename T>
FUNCTION T among_columns(T value, SHARED T* shared, u32 lane, u32 threads, u32 columns) {
    BARRIER();
    shared[lane] = value;
    for (u32 half_way = threads / 2; half_way >= columns; half_way /= 2) {
        BARRIER();
        if (lane < half_way) {
            const T mine = shared[lane], other = shared[lane + half_way];
            shared[lane] = Operation::combine(mine, other);
        }
    }
    BARRIER();
    return shared[lane & (columns - 1)];
}
