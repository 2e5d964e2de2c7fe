// Marsaglia and Tsang's method; after so many refusals, the median of the cubes.
#define MOST_ATTEMPTS 64u
struct Attempt { RawWord radius, turn, level, boost; };
FUNCTION Attempt attempted(u64 place, u32 number, u32 key_low, u32 key_high) {
    Attempt attempt;
    if (PLACES == 4) {
        const Block block = philox(place, 2u, number, key_low, key_high);
        attempt.radius = word(block, 0);
        attempt.turn = word(block, 1);
        attempt.level = RawWord(block.words[2]);
        attempt.boost = RawWord(block.words[3]);
    } else {
        const Block block = philox(place, 3u, 2u * number, key_low, key_high);
        const Block more = philox(place, 3u, 2u * number + 1u, key_low, key_high);
        attempt.radius = word(block, 0);
        attempt.turn = word(block, 1);
        attempt.level = word(more, 0);
        attempt.boost = word(more, 1);
    }
    return attempt;
}
FUNCTION Real gamma(u64 place, u32 key_low, u32 key_high, Real d, Real c, Real boost) {
    Real result = d;
    RawWord last = RawWord(0);
    for (u32 number = 0; number < MOST_ATTEMPTS; ++number) {
        const Attempt attempt = attempted(place, number, key_low, key_high);
        last = attempt.boost;
        const Real x = x_mul(radius(attempt.radius), turned(attempt.turn).cosine);
        const Real root = x_fma(c, x, Real(1));
        if (!(root > Real(0))) { continue; }
        const Real v = x_mul(x_mul(root, root), root);
        const Real most = x_fma(d, x_add(x_sub(Real(1), v), logarithm(v)), x_mul(x_mul(Real(0.5f), x), x));
        if (logarithm(positive(attempt.level)) < most) {
            result = x_mul(d, v);
            break;
        }
    }
    return RAISED ? x_mul(result, exponential(x_mul(logarithm(positive(last)), boost))) : result;
}
