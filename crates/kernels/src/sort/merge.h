// How many of `count` rising keys come before `key`, or are equal to it, if those count, too.
FUNCTION i64 keys_before(const GLOBAL Key* keys, i64 count, Key key, bool equal_too) {
    i64 low = 0, high = count;
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        const Key other = keys[middle];
        if (other < key || (equal_too && other == key)) low = middle + 1;
        else high = middle;
    }
    return low;
}
