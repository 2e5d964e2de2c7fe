// Negative indices count from the end.
FUNCTION i64 position(i64 index, i64 size) { return index < 0 ? index + size : index; }
