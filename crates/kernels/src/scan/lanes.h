template <typename T> FUNCTION T exchanged(T value, u32 distance) {
    return shuffle_xor(value, distance);
}
// What the threads before this one among `width` neighbours have, combined in their order; and what all have.
template <typename T> FUNCTION T before_lane(T value, T none, u32 width, u32 slot, PRIVATE T& all) {
    T before = none;
    all = value;
    for (u32 distance = 1; distance < width; distance *= 2) {
        const T other = exchanged(all, distance);
        const bool behind = (slot & distance) != 0;
        before = behind ? combine(other, before) : before;
        all = behind ? combine(other, all) : combine(all, other);
    }
    return before;
}
