// The logarithm of a positive normal number.
FUNCTION Real logarithm(Real x) {
    const Real m = mantissa(x);
    const Real s = x_div(x_sub(m, Real(1)), x_add(m, Real(1)));
    const Real square = x_mul(s, s), twice = x_add(s, s);
    return x_fma(exponent(x), LN_2, x_fma(twice, x_mul(square, log_series(square)), twice));
}
FUNCTION Real minus_logarithm(Real x) { return x_sub(Real(0), logarithm(x)); }

// exp(x) for x that is not positive; zero far out.
FUNCTION Real exponential(Real x) {
    if (!(x >= LEAST_POWER)) { return Real(0); }
    const Real n = m_round(x_mul(x, LOG2_E));
    return x_mul(exp_series(x_fma(-n, LN_2, x)), power_of_two(n));
}

struct Turn { Real cosine, sine; };
FUNCTION Turn turned(RawWord word) {
    const Real x = x_mul(beyond_quarter(word), TURN), square = x_mul(x, x);
    const Real sine = x_fma(x, x_mul(square, sin_series(square)), x);
    const Real cosine = x_fma(square, cos_series(square), Real(1));
    const u32 quarters = quarter(word) & 3u;
    const bool across = (quarters & 1u) != 0u;
    Turn turn;
    turn.cosine = across ? sine : cosine;
    turn.sine = across ? cosine : sine;
    if (quarters == 1u || quarters == 2u) { turn.cosine = -turn.cosine; }
    if (quarters >= 2u) { turn.sine = -turn.sine; }
    return turn;
}

FUNCTION Real radius(RawWord word) { return x_sqrt(x_mul(Real(2), minus_logarithm(positive(word)))); }
