// Elements of 64 bits: two words of a block, the lower half first.
typedef u64 RawWord;
#define PLACES 2
FUNCTION RawWord word(Block block, u32 place) {
    return u64(block.words[2 * place + 1]) << 32 | u64(block.words[2 * place]);
}
FUNCTION u32 upper_half(RawWord word) { return u32(word >> 32); }
// The upper bits of word * range.
FUNCTION u64 share(RawWord word, u64 range) {
    const u64 low = u64(u32(word)) * u64(u32(range)), across = u64(u32(word)) * (range >> 32);
    const u64 middle = (word >> 32) * u64(u32(range)) + (low >> 32);
    const u64 carried = (middle & 0xffffffffu) + (across & 0xffffffffu);
    return (word >> 32) * (range >> 32) + (middle >> 32) + (across >> 32) + (carried >> 32);
}
