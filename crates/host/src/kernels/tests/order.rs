//! Scans and sorts.

use proptest::prelude::*;
use streampool_device::{DType, Op, Scan, ScanKind, Sort};

use super::tensor::{Number, Random, Tensor, Threads, near, run, run_on};
use crate::testing::cases;

/// The index of each line along `axis`: that of its first element.
fn lines(tensor: &Tensor, axis: usize) -> Vec<Vec<usize>> {
    let indices = tensor.indices().into_iter();
    indices.filter(|index| index[axis] == 0).collect()
}

fn along(line: &[usize], axis: usize, place: usize) -> Vec<usize> {
    let mut index = line.to_vec();
    index[axis] = place;
    index
}

fn any_number(random: &mut Random, dtype: DType) -> Number {
    match (dtype.is_float(), random.below(9)) {
        (true, 0) => Number::Float(f64::NAN),
        (true, 1) => Number::Float(f64::INFINITY),
        (true, 2) => Number::Float(f64::NEG_INFINITY),
        (true, 3) => Number::Float(-0.0),
        (true, 4) => Number::Float(0.0),
        (true, _) => Number::Float(f64::from(random.below(9) as u32) - 4.0),
        (false, 0) if dtype == DType::U64 => Number::Int(u64::MAX.into()),
        (false, 0) if dtype == DType::I64 => Number::Int(i64::MIN.into()),
        (false, _) if dtype == DType::Bool || dtype.is_unsigned() => {
            Number::Int(random.below(2) as i128)
        }
        (false, _) => Number::Int(random.below(9) as i128 - 4),
    }
}

fn scanned(kind: ScanKind, total: Number, next: Number, dtype: DType) -> Number {
    let wrap = |value: i128| match dtype {
        DType::U64 => value as u64 as i128,
        _ => value as i64 as i128,
    };
    match (total, next) {
        (Number::Int(x), Number::Int(y)) => Number::Int(wrap(match kind {
            ScanKind::Sum => x + y,
            ScanKind::Prod => x.wrapping_mul(y),
            ScanKind::Max => x.max(y),
            ScanKind::Min => x.min(y),
        })),
        _ => {
            let (x, y) = (total.float(), next.float());
            Number::Float(match kind {
                ScanKind::Sum => x + y,
                ScanKind::Prod => x * y,
                _ if x.is_nan() || y.is_nan() => f64::NAN,
                ScanKind::Max => x.max(y),
                ScanKind::Min => x.min(y),
            })
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn scans_combine_all_before(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let kind = random.pick(&[ScanKind::Sum, ScanKind::Prod, ScanKind::Max, ScanKind::Min]);
        let dtype = random.pick(&DType::ALL[..12]);
        let rank = 1 + random.below(4);
        let shape = random.shape(rank, if rank < 3 { 90 } else { 6 });
        let axis = random.below(rank);
        let src = Tensor::new(random, dtype, &shape, true);
        let nan = random.chance(4);
        let src = src.fill(|| match kind {
            ScanKind::Max | ScanKind::Min if nan => any_number(random, dtype),
            ScanKind::Prod if dtype.is_float() => Number::Float(0.9 + 0.1 * random.number().abs()),
            _ if dtype.is_float() => Number::Float(random.number()),
            _ => Number::Int(random.below(100) as i128),
        });
        let random = &mut Random(!seed);
        let dst = Tensor::new(random, dtype, &shape, false);
        let (exclusive, reverse) = (random.chance(2), random.chance(2));
        run(&Op::Scan(Scan { kind, src: src.view, dst: dst.view, axis, exclusive, reverse }));
        let mut most = Tensor::plain(dtype, &[1]);
        for line in lines(&dst, axis) {
            let length = shape[axis];
            let mut total = match kind {
                ScanKind::Sum => Number::Int(0),
                ScanKind::Prod => Number::Int(1),
                ScanKind::Max => Number::Float(f64::NEG_INFINITY),
                ScanKind::Min => Number::Float(f64::INFINITY),
            };
            if dtype.is_float() {
                total = Number::Float(total.float());
            } else if let Number::Float(value) = total {
                total = Number::Int(match (dtype, value < 0.0) {
                    (DType::I8, true) => i8::MIN.into(),
                    (DType::I8, false) => i8::MAX.into(),
                    (DType::I16, true) => i16::MIN.into(),
                    (DType::I16, false) => i16::MAX.into(),
                    (DType::I32, true) => i32::MIN.into(),
                    (DType::I32, false) => i32::MAX.into(),
                    (DType::I64, true) => i64::MIN.into(),
                    (DType::I64, false) => i64::MAX.into(),
                    (_, true) => 0,
                    (DType::U8, false) => u8::MAX.into(),
                    (DType::U16, false) => u16::MAX.into(),
                    (DType::U32, false) => u32::MAX.into(),
                    (_, false) => u64::MAX.into(),
                });
            }
            for place in 0..length {
                let place = if reverse { length - 1 - place } else { place };
                let index = along(&line, axis, place);
                let next = scanned(kind, total, src.get(&index), dtype);
                most.set(&[0], if exclusive { total } else { next });
                let (got, wanted) = (dst.get(&index), most.get(&[0]));
                prop_assert!(
                    got == wanted || dtype.is_float()
                        && near(dtype, got.float(), wanted.float(), length as f64, 1.0),
                    "{:?}: {:?}, not {:?}", index, got, wanted
                );
                total = next;
            }
        }
        prop_assert!(dst.gaps_untouched());
    }

    #[test]
    fn sorts_are_stable_with_nan_last(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let dtype = random.pick(&DType::ALL);
        let rank = 1 + random.below(4);
        let shape = random.shape(rank, if rank < 3 { 300 } else { 7 });
        let axis = random.below(rank);
        let src = Tensor::new(random, dtype, &shape, true).fill(|| any_number(random, dtype));
        let random = &mut Random(!seed);
        let mut cut = shape.clone();
        cut[axis] = random.below(shape[axis] + 1);
        let values = Tensor::new(random, dtype, &cut, false);
        let indices = Tensor::new(random, DType::I64, &cut, false);
        let with_indices = !random.chance(4);
        let descending = random.chance(2);
        run(&Op::Sort(Sort {
            src: src.view,
            values: values.view,
            indices: with_indices.then_some(indices.view),
            axis,
            descending,
        }));
        for line in lines(&values, axis) {
            let value = |place: usize| src.get(&along(&line, axis, place));
            let mut places: Vec<usize> = (0..shape[axis]).collect();
            let order = |&x: &usize, &y: &usize| match (value(x), value(y)) {
                (Number::Int(x), Number::Int(y)) => x.cmp(&y),
                (x, y) if x.float().is_nan() || y.float().is_nan() => {
                    x.float().is_nan().cmp(&y.float().is_nan())
                }
                (x, y) => x.float().partial_cmp(&y.float()).unwrap(),
            };
            places.sort_by(|x, y| if descending { order(y, x) } else { order(x, y) });
            for (number, &place) in places[..cut[axis]].iter().enumerate() {
                let at = along(&line, axis, number);
                let (got, wanted) = (values.get(&at).float(), value(place).float());
                prop_assert!(got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan());
                if with_indices {
                    prop_assert_eq!(indices.get(&at), Number::Int(place as i128));
                }
            }
        }
        prop_assert!(values.gaps_untouched());
        prop_assert!(!with_indices || indices.gaps_untouched());
    }
}

/// The bytes that the op writes on each number of threads.
fn on_threads(dst: &Tensor, op: &Op) -> Vec<Vec<u8>> {
    [1, 2, 3, 8]
        .iter()
        .map(|&threads| {
            run_on(op, &Threads(threads));
            dst.bytes().to_vec()
        })
        .collect()
}

#[test]
fn long_lines_are_the_same_on_any_number_of_threads() {
    let random = &mut Random(3);
    for length in [1 << 14, (1 << 14) + 1, 100_000, 300_001] {
        let src = Tensor::plain(DType::F32, &[1, length]).small(random);
        let dst = Tensor::plain(DType::F32, &[1, length]);
        for reverse in [false, true] {
            let op = Op::Scan(Scan {
                kind: ScanKind::Sum,
                src: src.view,
                dst: dst.view,
                axis: 1,
                exclusive: reverse,
                reverse,
            });
            let results = on_threads(&dst, &op);
            assert!(
                results.windows(2).all(|pair| pair[0] == pair[1]),
                "scan of {length}"
            );
        }
        for dtype in [DType::F32, DType::I64] {
            let src = Tensor::plain(dtype, &[1, length]).small(random);
            let values = Tensor::plain(dtype, &[1, length]);
            let indices = Tensor::plain(DType::I64, &[1, length]);
            let op = Op::Sort(Sort {
                src: src.view,
                values: values.view,
                indices: Some(indices.view),
                axis: 1,
                descending: false,
            });
            let results = on_threads(&indices, &op);
            assert!(
                results.windows(2).all(|pair| pair[0] == pair[1]),
                "sort of {length}"
            );
            let sorted: Vec<f64> = values
                .indices()
                .iter()
                .map(|at| values.get(at).float())
                .collect();
            assert!(sorted.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}
