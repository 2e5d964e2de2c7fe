// Philox 4x32-10.
struct Block { u32 words[4]; };
FUNCTION Block philox(u64 number, u32 third, u32 fourth, u32 key_low, u32 key_high) {
    u32 a = u32(number), b = u32(number >> 32), c = third, d = fourth;
    UNROLL
    for (u32 round = 0; round < 10; ++round) {
        const u64 left = u64(a) * 0xd2511f53u, right = u64(c) * 0xcd9e8d57u;
        a = u32(right >> 32) ^ b ^ key_low;
        c = u32(left >> 32) ^ d ^ key_high;
        b = u32(right);
        d = u32(left);
        key_low += 0x9e3779b9u;
        key_high += 0xbb67ae85u;
    }
    Block block;
    block.words[0] = a;
    block.words[1] = b;
    block.words[2] = c;
    block.words[3] = d;
    return block;
}
