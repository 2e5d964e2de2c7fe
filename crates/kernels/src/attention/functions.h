// How many of the first keys a query attends to at most.
FUNCTION u32 visible(u32 row, i64 distance, u32 keys) {
#if CAUSAL
    const i64 end = i64(row) + distance + 1;
    return end < 0 ? 0u : end > i64(keys) ? keys : u32(end);
#else
    return keys;
#endif
}

// A score as the exponential takes it, of a product.
FUNCTION Number scored(Number product, Number scale, Number softcap) {
#if SOFTCAP
    return softcap * UNIT * m_tanh(product * scale / softcap);
#else
    return product * scale;
#endif
}

// Moves all operands on to the head of this number.
#define FIND_HEAD(number) \
    const u32 head = (number) % p.heads, batch = (number) / p.heads, key_head = head / p.shares; \
    query += p.query_at + i64(batch) * p.query_batch + i64(head) * p.query_head; \
    key += p.key_at + i64(batch) * p.key_batch + i64(key_head) * p.key_head; \
    value += p.value_at + i64(batch) * p.value_batch + i64(key_head) * p.value_head; \
    out += p.out_at + i64(batch) * p.out_batch + i64(head) * p.out_head; \
    MOVE_MASK
#if MASK
#define MOVE_MASK mask += p.mask_at + i64(batch) * p.mask_batch + i64(head) * p.mask_head;
#define MASK_AT(row, column) mask[i64(row) * p.mask_row + i64(column) * p.mask_column]
#else
#define MOVE_MASK
#endif
#define MASKED(score, row, column) MASKED_BY(score, MASK_AT(row, column))
#if MASK == 1
#define MASKED_BY(score, element) ((element) != 0 ? (score) : -INFINITE)
#else
// Times the unit, a type's lowest number would be infinite, and a row that has nothing else would be no mean of its
// values but nothing: it is raised so far that it is not.
FUNCTION Number as_scored(Number element) {
    return UNIT * (element < -MOST && element != -INFINITE ? -MOST : element);
}
#define MASKED_BY(score, element) ((score) + as_scored(loaded(element)))
#endif

// What is left of a query that no score counts for: nothing if it may attend to no key, else NaN, as of any softmax of
// minus infinity alone.
#if MASK == 0
#define NONE_COUNTS(row, result) const Number result = visible(row, p.distance, p.keys) > 0 ? NOT_A_NUMBER : Number(0)
#else
#if MASK == 1
#define IS_MASKED(element) ((element) == 0)
#else
#define IS_MASKED(element) (loaded(element) == -INFINITE)
#endif
#define NONE_COUNTS(row, result) \
    Number result = Number(0); \
    for (u32 key_of_mask = visible(row, p.distance, p.keys); key_of_mask-- > 0;) { \
        if (!IS_MASKED(MASK_AT(row, key_of_mask))) { \
            result = NOT_A_NUMBER; \
            break; \
        } \
    }
#endif
