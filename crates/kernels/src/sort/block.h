// Whether a key and its place come behind another.
FUNCTION bool behind(Key key, u32 place, Key other, u32 other_place) {
    return key != other ? key > other : place > other_place;
}
// Sorts each block of `size` elements, a power of two; there are half as many threads as elements.
FUNCTION void sort_blocks(SHARED Key* keys, SHARED u32* places, u32 size, u32 lane) {
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 distance = run / 2; distance > 0; distance /= 2) {
            BARRIER();
            const u32 low = 2 * lane - (lane & (distance - 1)), high = low + distance;
            const bool rising = run == size || (low & run) == 0;
            const Key key = keys[low], other = keys[high];
            const u32 place = places[low], other_place = places[high];
            if (behind(key, place, other, other_place) == rising) {
                keys[low] = other;
                keys[high] = key;
                places[low] = other_place;
                places[high] = place;
            }
        }
    }
    BARRIER();
}
