//! Histograms, and places of what is not zero.

use proptest::prelude::*;
use streampool_device::{DType, Histogram, NonZero, Op};

use super::tensor::{Number, Random, Tensor, Threads, near, run, run_on};
use crate::testing::cases;

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn histograms_count_what_lies_in_each_bin(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let dtype = random.pick(&DType::ALL[..12]);
        let rank = random.below(4);
        let shape = random.shape(rank, 20);
        let mut src = Tensor::new(random, dtype, &shape, true).small(random);
        if dtype.is_float() && random.chance(3) {
            for at in src.indices().into_iter().step_by(5) {
                src.set(&at, Number::Float(random.pick(&[f64::NAN, f64::INFINITY, -2.0, 2.0])));
            }
        }
        let weight = random.pick(&DType::ALL[..4]);
        let weights = random.chance(2).then(|| Tensor::new(random, weight, &shape, true).small(random));
        let (low, high) = if dtype.is_float() { (-2.0, 2.0) } else { (-50.0, 150.0) };
        let bins = 1 + random.below(9);
        let to = if weights.is_some() { weight } else { DType::I64 };
        let dst = Tensor::new(random, to, &[bins], false);
        run(&Op::Histogram(Histogram {
            src: src.view,
            weights: weights.as_ref().map(|weights| weights.view),
            dst: dst.view,
            low,
            high,
        }));
        let mut expected = vec![(0.0, 0.0); bins];
        for at in src.indices() {
            let value = src.get(&at).float();
            if value >= low && value <= high {
                let bin = ((value - low) / (high - low) * bins as f64) as usize;
                let weight = weights.as_ref().map_or(1.0, |weights| weights.get(&at).float());
                let (sum, scale) = &mut expected[bin.min(bins - 1)];
                *sum += weight;
                *scale += weight.abs();
            }
        }
        for (bin, &(sum, scale)) in expected.iter().enumerate() {
            let got = dst.get(&[bin]).float();
            prop_assert!(near(to, got, sum, scale, 1.0), "bin {}: {}, not {}", bin, got, sum);
        }
        prop_assert!(dst.gaps_untouched());
    }

    #[test]
    fn places_of_what_is_not_zero(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let dtype = random.pick(&DType::ALL);
        let rank = random.below(5);
        let shape = random.shape(rank, 9);
        let sparse = 1 + random.below(5);
        let src = Tensor::new(random, dtype, &shape, true).fill(|| match random.chance(sparse) {
            true if dtype.is_float() => Number::Float(if random.chance(3) { f64::NAN } else { 0.5 }),
            true => Number::Int(1),
            false if dtype.is_float() => Number::Float(-0.0),
            false => Number::Int(0),
        });
        let random = &mut Random(!seed);
        let elements = shape.iter().product();
        let indices = Tensor::new(random, DType::I64, &[rank, elements], false);
        let count = Tensor::new(random, DType::I64, &[1], false);
        run(&Op::NonZero(NonZero { src: src.view, indices: indices.view, count: count.view }));
        let found: Vec<Vec<usize>> = src
            .indices()
            .into_iter()
            .filter(|at| src.get(at).float() != 0.0)
            .collect();
        prop_assert_eq!(count.get(&[0]), Number::Int(found.len() as i128));
        for column in 0..elements {
            for axis in 0..rank {
                let wanted = found.get(column).map_or(-1, |at| at[axis] as i128);
                prop_assert_eq!(indices.get(&[axis, column]), Number::Int(wanted));
            }
        }
        prop_assert!(indices.gaps_untouched() && count.gaps_untouched());
    }
}

#[test]
fn tallies_are_the_same_on_any_number_of_threads() {
    let random = &mut Random(5);
    let shape = [7, 60_001];
    let src = Tensor::plain(DType::F32, &shape).small(random);
    let weights = Tensor::plain(DType::F32, &shape).small(random);
    let sums = Tensor::plain(DType::F32, &[100]);
    let histogram = Op::Histogram(Histogram {
        src: src.view,
        weights: Some(weights.view),
        dst: sums.view,
        low: -1.5,
        high: 2.0,
    });
    let indices = Tensor::plain(DType::I64, &[2, 7 * 60_001]);
    let count = Tensor::plain(DType::I64, &[1]);
    let truth = Tensor::plain(DType::Bool, &shape).small(random);
    let nonzero = Op::NonZero(NonZero {
        src: truth.view,
        indices: indices.view,
        count: count.view,
    });
    for (op, dst) in [(histogram, &sums), (nonzero, &indices)] {
        let results: Vec<Vec<u8>> = [1, 2, 3, 8]
            .iter()
            .map(|&threads| {
                run_on(&op, &Threads(threads));
                dst.bytes().to_vec()
            })
            .collect();
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
