//! Random numbers that anybody can have again.

use streampool_tensor::{DType, Distribution, Generator, Tensor};

use crate::{FLOATS, assert_refused, common::pool, values};

#[test]
fn the_same_seed_gives_the_same_numbers_on_every_thread_in_every_pool() {
    let draw = || {
        let pool = pool();
        let mut generator = Generator::new(5);
        let drawn = [
            generator.uniform(&pool, &[7, 3], -1.0, 1.0, DType::F32),
            generator.normal(&pool, &[33], 0.0, 1.0, DType::F64),
            generator.gamma(&pool, &[9], 0.5, 3.0, DType::F32),
            generator.bernoulli(&pool, &[40], 0.3, DType::Bool),
            generator.integers(&pool, &[21], -4, 9, DType::I16),
            generator.permutation(&pool, 30),
        ];
        let bytes = drawn.map(|drawn| drawn.unwrap().to_bytes().unwrap());
        (bytes, generator)
    };
    let here = draw();
    let there: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(there.iter().all(|drawn| *drawn == here));
}

#[test]
fn a_sequence_goes_on_where_it_was() {
    let pool = pool();
    let draw = |generator: &mut Generator, count| {
        values(
            &generator
                .uniform(&pool, &[count], 0.0, 1.0, DType::F32)
                .unwrap(),
        )
    };
    let mut generator = Generator::new(9);
    let whole = draw(&mut generator.clone(), 50);
    let first = draw(&mut generator, 13);
    assert_eq!((generator.seed(), generator.offset()), (9, 13));
    let parts = [first, draw(&mut generator, 37)].concat();
    assert_eq!(parts, whole);
    assert_eq!(draw(&mut Generator::at(9, 13), 37), whole[13..]);
    let forks: Vec<_> = (0..4)
        .map(|index| draw(&mut generator.fork(index), 50))
        .collect();
    for (index, fork) in forks.iter().enumerate() {
        assert!(*fork != whole && !forks[..index].contains(fork));
        assert_eq!(*fork, draw(&mut Generator::new(9).fork(index as u64), 50));
    }
    let nothing = generator
        .normal(&pool, &[0, 3], 0.0, 1.0, DType::F32)
        .unwrap();
    assert_eq!((nothing.shape(), generator.offset()), (&[0, 3][..], 50));
}

#[test]
fn numbers_stay_in_their_range() {
    let pool = pool();
    let mut generator = Generator::new(1);
    for dtype in FLOATS {
        let drawn = values(&generator.uniform(&pool, &[5000], 0.25, 0.5, dtype).unwrap());
        assert!(drawn.iter().all(|x| (0.25..0.5).contains(x)), "{dtype}");
        let drawn = values(&generator.exponential(&pool, &[5000], 3.0, dtype).unwrap());
        assert!(drawn.iter().all(|&x| x >= 0.0 && x.is_finite()), "{dtype}");
    }
    for dtype in DType::ALL {
        let drawn = generator.bernoulli(&pool, &[4000], 0.25, dtype).unwrap();
        let (drawn, _) = (values(&drawn), drawn);
        let ones = drawn.iter().filter(|&&x| x == 1.0).count();
        assert!(drawn.iter().all(|&x| x == 0.0 || x == 1.0) && (850..1150).contains(&ones));
        if dtype != DType::Bool {
            let drawn = values(&generator.integers(&pool, &[4000], 2, 6, dtype).unwrap());
            for face in 2..6 {
                let count = drawn.iter().filter(|&&x| x == f64::from(face)).count();
                assert!(
                    (850..1150).contains(&count),
                    "{dtype}: {count} times {face}"
                );
            }
        }
    }
    for (probability, expected) in [(0.0, 0.0), (1.0, 1.0)] {
        let drawn = generator
            .bernoulli(&pool, &[1000], probability, DType::F32)
            .unwrap();
        assert_eq!(values(&drawn), [expected; 1000]);
    }
    let bits = generator
        .draw(&pool, &[4000], Distribution::Bits, DType::U8)
        .unwrap();
    assert_eq!(
        values(&bits.bincount(256).unwrap().gt(0).unwrap()),
        [1.0; 256]
    );
}

#[test]
fn probabilities_may_differ_from_element_to_element() {
    let pool = pool();
    let mut generator = Generator::new(2);
    for dtype in FLOATS {
        let chances = Tensor::from_slice(&pool, &[0.0f32, 0.25, 1.0], &[3]).unwrap();
        let chances = chances.to_dtype(dtype).unwrap().expand(&[4000, 3]).unwrap();
        let drawn = generator.bernoulli_of(&chances).unwrap();
        assert_eq!(drawn.dtype(), DType::Bool);
        let counts = values(
            &drawn
                .to_dtype(DType::F32)
                .unwrap()
                .sum(&[0], false)
                .unwrap(),
        );
        assert_eq!((counts[0], counts[2]), (0.0, 4000.0));
        assert!((850.0..1150.0).contains(&counts[1]), "{dtype}: {counts:?}");
    }
}

#[test]
fn a_permutation_has_each_number_once() {
    let pool = pool();
    let mut generator = Generator::new(3);
    for count in [0, 1, 100] {
        let drawn = generator.permutation(&pool, count).unwrap();
        let mut numbers = drawn.to_vec::<i64>().unwrap();
        assert_eq!(count > 50, !numbers.is_sorted());
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..count as i64));
    }
}

#[test]
fn classes_are_drawn_by_their_weight() {
    let pool = pool();
    let mut generator = Generator::new(4);
    for dtype in FLOATS {
        let weights =
            Tensor::from_slice(&pool, &[1.0f32, 0.0, 3.0, 2.0, 2.0, 0.0], &[2, 3]).unwrap();
        let weights = weights.to_dtype(dtype).unwrap();
        let drawn = generator.multinomial(&weights, 4000, true).unwrap();
        assert_eq!((drawn.shape(), drawn.dtype()), (&[2, 4000][..], DType::I64));
        for (row, expected) in [(0, [1000, 0, 3000]), (1, [2000, 2000, 0])] {
            let counts = drawn.select(0, row).unwrap().bincount(3).unwrap();
            for (count, expected) in counts.to_vec::<i64>().unwrap().into_iter().zip(expected) {
                assert!(
                    (count - expected).abs() <= expected.min(150),
                    "{dtype}: {count}, {expected}"
                );
            }
        }
        // Those with a weight come first, each once; the heavy one mostly before the light.
        let weights = weights.select(0, 0).unwrap().expand(&[4000, 3]).unwrap();
        let drawn = generator.multinomial(&weights, 2, false).unwrap();
        let (first, second) = (drawn.select(1, 0).unwrap(), drawn.select(1, 1).unwrap());
        let counts = first.bincount(3).unwrap().to_vec::<i64>().unwrap();
        assert!(
            counts[1] == 0 && (2850..3150).contains(&counts[2]),
            "{dtype}: {counts:?}"
        );
        let both = first.add(&second).unwrap();
        assert_eq!(values(&both), [2.0; 4000]);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let pool = pool();
    let mut generator = Generator::new(0);
    let x = Tensor::ones(&pool, &[2, 3], DType::F32).unwrap();
    let whole = x.to_dtype(DType::I32).unwrap();
    assert_refused([
        (
            generator.uniform(&pool, &[2], 1.0, 0.0, DType::F32),
            "uniform: distribution is Uniform { low: 1.0, high: 0.0 }, expected finite",
        ),
        (
            generator.uniform(&pool, &[2], 0.0, 1.0, DType::I32),
            "uniform: dtype is i32, expected a float type",
        ),
        (
            generator.normal(&pool, &[2], 0.0, -1.0, DType::F32),
            "normal: distribution is Normal",
        ),
        (
            generator.exponential(&pool, &[2], 0.0, DType::F32),
            "exponential: distribution is",
        ),
        (
            generator.gamma(&pool, &[2], -1.0, 1.0, DType::F32),
            "gamma: distribution is",
        ),
        (
            generator.gamma(&pool, &[2], 1.0, 0.0, DType::F32),
            "gamma: scale is 0, expected positive and finite",
        ),
        (
            generator.bernoulli(&pool, &[2], 1.5, DType::F32),
            "bernoulli: distribution is",
        ),
        (
            generator.integers(&pool, &[2], 3, 3, DType::I32),
            "integers: distribution is",
        ),
        (
            generator.integers(&pool, &[2], 0, 2, DType::Bool),
            "integers: dtype is bool, expected a number type",
        ),
        (
            generator.uniform(&pool, &[1; 9], 0.0, 1.0, DType::F32),
            "uniform: shape has shape [1, 1, 1, 1, 1, 1, 1, 1, 1], expected at most 8 axes",
        ),
        (
            generator.bernoulli_of(&whole),
            "bernoulli_of: probabilities is of type i32",
        ),
        (
            generator.multinomial(&whole, 1, true),
            "multinomial: weights is of type i32",
        ),
        (
            generator.multinomial(&x, 4, false),
            "multinomial: count is 4, expected at most 3, the number of classes",
        ),
        (
            generator.multinomial(&x.narrow(1, 0, 0).unwrap(), 1, true),
            "multinomial: weights has shape [2, 0]",
        ),
    ]);
    // What is refused takes no place.
    assert_eq!(generator.offset(), 0);
}
