// The same among all threads of the group.
template <typename T>
FUNCTION T before_thread(T value, T none, SHARED T* shared, u32 lane, u32 threads, PRIVATE T& all) {
    T within;
    T before = before_lane(value, none, 32, lane % 32, within);
    BARRIER();
    if (lane % 32 == 0) shared[lane / 32] = within;
    BARRIER();
    all = none;
    for (u32 part = 0; part < threads / 32; part++) {
        if (part == lane / 32) before = combine(all, before);
        all = combine(all, shared[part]);
    }
    return before;
}
