//! What the built-in models should give: plain loops in float64, which share nothing with the runtime.

use super::{Builtin, Dense, EPSILON, HEADS, LENGTH, Layer, Norm, WIDTH};

impl Builtin {
    /// Its output for rows, or sequences, one after the other.
    pub fn reference(&self, x: &[f32]) -> Vec<f64> {
        let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
        match self {
            Builtin::Linear(dense) => dense.of(&x),
            Builtin::Encoder(layers) => {
                let sequences = x.chunks_exact(LENGTH * WIDTH);
                let through = |x: &[f64]| layers.iter().fold(x.to_vec(), |x, layer| layer.of(&x));
                sequences.flat_map(through).collect()
            }
        }
    }
}

impl Dense {
    fn of(&self, x: &[f64]) -> Vec<f64> {
        let mut y = Vec::with_capacity(x.len() / self.inputs * self.outputs);
        for row in x.chunks_exact(self.inputs) {
            let mut sums: Vec<f64> = self.bias.iter().copied().map(f64::from).collect();
            for (&x, weights) in row.iter().zip(self.weight.chunks_exact(self.outputs)) {
                for (sum, &weight) in sums.iter_mut().zip(weights) {
                    *sum += x * f64::from(weight);
                }
            }
            y.extend(sums);
        }
        y
    }
}

impl Norm {
    /// Of the sums of `a` and `b`.
    fn of(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        let mut y = Vec::with_capacity(a.len());
        for (a, b) in a.chunks_exact(WIDTH).zip(b.chunks_exact(WIDTH)) {
            let row: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
            let mean = row.iter().sum::<f64>() / WIDTH as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
            let deviation = (variance + f64::from(EPSILON)).sqrt();
            for ((x, &scale), &bias) in row.iter().zip(&self.scale).zip(&self.bias) {
                y.push((x - mean) / deviation * f64::from(scale) + f64::from(bias));
            }
        }
        y
    }
}

impl Layer {
    /// Of one sequence.
    fn of(&self, x: &[f64]) -> Vec<f64> {
        let attended = attention(&self.query.of(x), &self.key.of(x), &self.value.of(x));
        let between = self.first.of(x, &self.mixed.of(&attended));
        let active: Vec<f64> = self.up.of(&between).into_iter().map(gelu).collect();
        self.second.of(&between, &self.down.of(&active))
    }
}

fn attention(query: &[f64], key: &[f64], value: &[f64]) -> Vec<f64> {
    const HEAD: usize = WIDTH / HEADS;
    let part = |of: &[f64], place: usize, head: usize| -> Vec<f64> {
        of[place * WIDTH + head * HEAD..][..HEAD].to_vec()
    };
    let mut out = vec![0.0; LENGTH * WIDTH];
    for place in 0..LENGTH {
        for head in 0..HEADS {
            let own = part(query, place, head);
            let score = |other| {
                let key = part(key, other, head);
                let product: f64 = own.iter().zip(key).map(|(q, k)| q * k).sum();
                product / (HEAD as f64).sqrt()
            };
            let scores: Vec<f64> = (0..LENGTH).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let all: f64 = shares.iter().sum();
            let mixed = &mut out[place * WIDTH + head * HEAD..][..HEAD];
            for (other, share) in shares.iter().enumerate() {
                for (mixed, value) in mixed.iter_mut().zip(part(value, other, head)) {
                    *mixed += share / all * value;
                }
            }
        }
    }
    out
}

/// By its definition: `x` times the part of a normal distribution that lies below it.
fn gelu(x: f64) -> f64 {
    x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

/// The error function, by the series of which all terms have the same sign.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, 0.0);
    let mut odd = 1.0;
    while term.abs() > 1e-18 {
        sum += term;
        odd += 2.0;
        term *= 2.0 * x * x / odd;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_is_what_tables_say() {
        for (x, expected) in [
            (0.0, 0.0),
            (0.1, 0.112_462_916_018_284_89),
            (1.0, 0.842_700_792_949_714_9),
            (-2.0, -0.995_322_265_018_952_7),
            (3.5, 0.999_999_256_901_627_7),
            (9.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() < 1e-14, "{x}: {}", erf(x));
        }
        assert!((gelu(1.0) - 0.841_344_746_068_542_9).abs() < 1e-14);
    }

    #[test]
    fn a_layer_is_a_product_and_a_sum() {
        let dense = Dense {
            inputs: 2,
            outputs: 3,
            weight: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            bias: vec![0.5, 0.0, -0.5],
        };
        let y = dense.of(&[1.0, 0.0, 1.0, -1.0]);
        assert_eq!(y, [1.5, 2.0, 2.5, -2.5, -3.0, -3.5]);
    }

    #[test]
    fn attention_to_equal_keys_is_the_mean() {
        let same = vec![1.0; LENGTH * WIDTH];
        let value: Vec<f64> = (0..LENGTH * WIDTH).map(|i| (i / WIDTH) as f64).collect();
        let mean = (LENGTH - 1) as f64 / 2.0;
        let out = attention(&same, &same, &value);
        assert!(out.iter().all(|x| (x - mean).abs() < 1e-12));
        // A key that all that is asked for agrees with takes nearly everything.
        let mut keys = vec![0.0; LENGTH * WIDTH];
        keys[5 * WIDTH..6 * WIDTH].fill(10.0);
        let out = attention(&same, &keys, &value);
        assert!(out.iter().all(|x| (x - 5.0).abs() < 1e-6));
    }

    #[test]
    fn normalised_rows_have_mean_and_deviation_of_their_scale() {
        let norm = Norm {
            scale: vec![2.0; WIDTH],
            bias: vec![3.0; WIDTH],
        };
        let a: Vec<f64> = (0..WIDTH).map(|i| i as f64).collect();
        let y = norm.of(&a, &a);
        let mean = y.iter().sum::<f64>() / WIDTH as f64;
        let square = y.iter().map(|y| (y - 3.0).powi(2)).sum::<f64>() / WIDTH as f64;
        assert!((mean - 3.0).abs() < 1e-12 && (square - 4.0).abs() < 1e-6);
    }
}
