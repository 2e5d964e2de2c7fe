//! Copies, constants and sequences.

use proptest::prelude::*;
use streampool_conformance::halves::{nearest_bf16, nearest_f16};
use streampool_device::{DType, Op, Scalar};

use crate::testing::cases;

use super::tensor::{Number, Random, Tensor, Threads, run, run_on};

/// The cast by the words of the contract.
fn cast(value: Number, from: DType, to: DType) -> Number {
    let value = match (from, value) {
        (DType::Bool, value) => Number::Int(i128::from(value.int() != 0)),
        (_, value) => value,
    };
    macro_rules! integer {
        ($type:ty) => {
            Number::Int(match value {
                Number::Float(value) => i128::from(value as $type),
                Number::Int(value) => i128::from(value as $type),
            })
        };
    }
    match to {
        DType::F64 => Number::Float(value.float()),
        DType::F32 => Number::Float(f64::from(match value {
            Number::Float(value) => value as f32,
            Number::Int(value) => value as f32,
        })),
        DType::F16 => Number::Float(nearest_f16(value.float()).to_f64()),
        DType::BF16 => Number::Float(nearest_bf16(value.float()).to_f64()),
        DType::Bool => Number::Int(i128::from(match value {
            Number::Float(value) => value != 0.0,
            Number::Int(value) => value != 0,
        })),
        DType::I8 => integer!(i8),
        DType::U8 => integer!(u8),
        DType::I16 => integer!(i16),
        DType::U16 => integer!(u16),
        DType::I32 => integer!(i32),
        DType::U32 => integer!(u32),
        DType::I64 => integer!(i64),
        DType::U64 => integer!(u64),
    }
}

fn same(left: Number, right: Number) -> bool {
    left == right || left.float().is_nan() && right.float().is_nan()
}

/// Numbers that conversions stumble over.
fn awkward(random: &mut Random, dtype: DType) -> Number {
    if dtype == DType::Bool {
        return Number::Int(random.below(2) as i128);
    }
    if !dtype.is_float() {
        // Below 2⁵³, so that the reference may go by way of `f64`.
        let bits = random.bits() as i64 >> (11 + random.below(53));
        return cast(Number::Int(i128::from(bits)), DType::I64, dtype);
    }
    Number::Float(match random.below(8) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        4 => random.number() * 1e-7,
        5 => random.number() * 1e5,
        6 => random.number() * 1e20,
        _ => random.number() * 300.0,
    })
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn copies_cast_any_type_to_any(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let (from, to) = (random.pick(&DType::ALL), random.pick(&DType::ALL));
        let rank = random.below(5);
        let most = if rank < 3 { 40 } else { 6 };
        let shape = random.shape(rank, most);
        let src = Tensor::new(random, from, &shape, true).fill({
            let mut inner = Random(seed ^ 1);
            move || awkward(&mut inner, from)
        });
        let dst = Tensor::new(random, to, &shape, false);
        run(&Op::Copy { src: src.view, dst: dst.view });
        for index in dst.indices() {
            let wanted = cast(src.get(&index), from, to);
            prop_assert!(same(dst.get(&index), wanted), "{from} to {to} of {:?}: {:?}", src.get(&index), dst.get(&index));
        }
        prop_assert!(dst.gaps_untouched());
    }

    #[test]
    fn constants_and_sequences(seed in any::<u64>()) {
        let random = &mut Random(seed);
        let dtype = random.pick(&DType::ALL[..12]);
        let rank = random.below(5);
        let shape = random.shape(rank, 9);
        let mut dst = Tensor::new(random, dtype, &shape, false);
        run(&Op::Fill { dst: dst.view, value: Scalar::Int(7) });
        prop_assert!(dst.indices().iter().all(|index| dst.get(index).float() == 7.0));
        prop_assert!(dst.gaps_untouched());
        dst.clear();
        run(&Op::Iota { dst: dst.view, start: Scalar::Int(5), step: Scalar::Int(-2) });
        for (position, index) in dst.indices().iter().enumerate() {
            let wanted = cast(Number::Int(5 - 2 * position as i128), DType::I64, dtype);
            prop_assert_eq!(dst.get(index), wanted);
        }
        prop_assert!(dst.gaps_untouched());
    }
}

#[test]
fn large_copies_are_the_same_on_a_team() {
    let random = &mut Random(3);
    let src = Tensor::plain(DType::F32, &[3, 400, 500]).small(random);
    for (from, order) in [
        (DType::F32, [0, 1, 2]),
        (DType::F16, [2, 1, 0]),
        (DType::I64, [0, 2, 1]),
    ] {
        let layout = src.view.layout().permute(&order).unwrap();
        let view = streampool_device::View::new(src.view.span(), DType::F32, layout).unwrap();
        let (alone, together) = (
            Tensor::plain(from, layout.shape()),
            Tensor::plain(from, layout.shape()),
        );
        run(&Op::Copy {
            src: view,
            dst: alone.view,
        });
        run_on(
            &Op::Copy {
                src: view,
                dst: together.view,
            },
            &Threads(3),
        );
        assert_eq!(alone.bytes(), together.bytes());
        assert!(alone.bytes().iter().any(|&byte| byte != 0));
    }
}

#[test]
fn scalars_and_the_highest_rank() {
    let random = &mut Random(4);
    for shape in [&[][..], &[2; 8]] {
        let src = Tensor::new(random, DType::I32, shape, false).small(random);
        let dst = Tensor::new(random, DType::F64, shape, false);
        run(&Op::Copy {
            src: src.view,
            dst: dst.view,
        });
        assert!(
            dst.indices()
                .iter()
                .all(|index| dst.get(index).float() == src.get(index).float())
        );
    }
}

#[test]
fn a_sequence_of_halves_stays_exact_beyond_its_own_integers() {
    let dst = Tensor::plain(DType::F16, &[4000]);
    run(&Op::Iota {
        dst: dst.view,
        start: Scalar::Float(0.0),
        step: Scalar::Float(0.5),
    });
    assert_eq!(dst.get(&[3999]).float(), nearest_f16(1999.5).to_f64());
}
