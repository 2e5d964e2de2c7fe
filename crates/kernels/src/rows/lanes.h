template <typename Operation, typename T> FUNCTION T among_lanes(T value, u32 width) {
    for (u32 distance = width / 2; distance > 0; distance /= 2)
        value = Operation::combine(value, exchanged(value, distance));
    return value;
}
