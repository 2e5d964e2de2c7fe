// Elements of up to 32 bits: four words of a block.
typedef u32 RawWord;
#define PLACES 4
FUNCTION RawWord word(Block block, u32 place) { return block.words[place]; }
FUNCTION u32 upper_half(RawWord word) { return word; }
// The upper bits of word * range.
FUNCTION u64 share(RawWord word, u64 range) {
    return u64(word) * (range >> 32) + (u64(word) * u64(u32(range)) >> 32);
}
