//! Copy, fill and iota against the reference.

use streampool_device::{DType, Layout, Op, Scalar};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{INTEGERS, any_shape, any_value, read_operand, small, target};
use crate::rng::Rng;

const COPY: Op<usize> = Op::Copy { src: 0, dst: 1 };

/// Copies cast every type to every other: truncating, saturating, wrapping, NaN to zero, `bool` as 0 or 1.
pub fn copies_cast_by_the_rules(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(10);
    let floats = [
        0.0,
        -0.0,
        0.4,
        -0.4,
        0.5,
        1.5,
        2.5,
        -1.9,
        1.9,
        127.4,
        127.9,
        128.0,
        -128.9,
        -129.0,
        255.5,
        256.0,
        300.0,
        -1.0,
        65504.0,
        65520.0,
        2147483647.0,
        2147483648.0,
        -2147483649.0,
        9.3e18,
        -9.3e18,
        1e30,
        1e-7,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for from in DType::ALL {
        let mut values: Vec<Num> = (0..200).map(|_| any_value(&mut rng, from)).collect();
        if from.is_float() {
            values.extend(floats.map(Num::Float));
        }
        let shape = [values.len()];
        for to in DType::ALL {
            let src = Operand::of(from, &shape, values.iter().copied());
            check(
                fixture,
                &mut lane,
                &COPY,
                &[src, Operand::row_major(to, &shape)],
            );
        }
    }
}

/// A copy between any types and layouts.
pub(crate) fn any_copy(rng: &mut Rng) -> Example {
    let shape = any_shape(rng, 600);
    let from = rng.pick(&DType::ALL);
    let to = if rng.chance(2) {
        from
    } else {
        rng.pick(&DType::ALL)
    };
    let src = read_operand(rng, from, &shape, |rng| any_value(rng, from));
    (COPY, vec![src, target(rng, to, &shape)])
}

/// Copies go between any layouts of one shape: strided, reversed, broadcast, empty, of rank 0 to 8.
pub fn copies_go_between_any_layouts(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(11);
    for _ in 0..1200 {
        let (op, operands) = any_copy(&mut rng);
        check(fixture, &mut lane, &op, &operands);
    }
}

/// Copies of lengths around the blocks that a device may work in.
pub fn copies_of_block_lengths(fixture: &Fixture) {
    let mut lane = fixture.lane();
    for block in [8, 16, 32, 64, 128, 256, 1024, 4096, 65_536] {
        for length in [block - 1, block, block + 1] {
            let values = (0..length).map(|index| Num::whole(index as i64 % 251));
            let src = Operand::of(DType::U8, &[length], values);
            check(
                fixture,
                &mut lane,
                &COPY,
                &[src.clone(), Operand::row_major(DType::U8, &[length])],
            );
            if length < 10_000 {
                check(
                    fixture,
                    &mut lane,
                    &COPY,
                    &[src, Operand::row_major(DType::F16, &[length])],
                );
            }
        }
    }
}

/// Copies that transpose, around the tiles that a device may work in.
pub fn copies_transpose(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(12);
    for [rows, columns] in [
        [1, 1],
        [7, 9],
        [16, 16],
        [31, 33],
        [64, 65],
        [3, 200],
        [129, 127],
    ] {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::U8] {
            let turned = Layout::contiguous(&[columns, rows])
                .and_then(|layout| layout.permute(&[1, 0]))
                .expect("the shape is small");
            let mut src = Operand::blank(dtype, turned);
            src.set_all((0..rows * columns).map(|_| small(&mut rng, dtype)));
            check(
                fixture,
                &mut lane,
                &COPY,
                &[src, Operand::row_major(dtype, &[rows, columns])],
            );
        }
    }
}

/// One value in every element of any layout.
pub(crate) fn filling(rng: &mut Rng, dtype: DType, value: Scalar) -> Example {
    let shape = any_shape(rng, 500);
    (Op::Fill { dst: 0, value }, vec![target(rng, dtype, &shape)])
}

/// A fill writes one value, converted to the element type, to every element and to nothing else.
pub fn fills_write_every_element(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(13);
    let values: [Scalar; 8] = [
        0.0.into(),
        1.0.into(),
        3.7.into(),
        100.into(),
        7i64.into(),
        true.into(),
        false.into(),
        0.1f32.into(),
    ];
    for dtype in DType::ALL {
        for value in values {
            for _ in 0..4 {
                let (op, operands) = filling(&mut rng, dtype, value);
                check(fixture, &mut lane, &op, &operands);
            }
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            if dtype.is_float() || dtype == DType::Bool {
                let value = value.into();
                check(
                    fixture,
                    &mut lane,
                    &Op::Fill { dst: 0, value },
                    &[Operand::row_major(dtype, &[17])],
                );
            }
        }
    }
    // Integers wrap: minus one is the largest of an unsigned type.
    for value in [i64::MAX, i64::MIN, -1, 0x1_8001_8001_8081] {
        let value = value.into();
        for dtype in INTEGERS {
            check(
                fixture,
                &mut lane,
                &Op::Fill { dst: 0, value },
                &[Operand::row_major(dtype, &[33])],
            );
        }
    }
}

/// A sequence over any layout.
pub(crate) fn counting(rng: &mut Rng, dtype: DType, start: Scalar, step: Scalar) -> Example {
    let shape = any_shape(rng, 100);
    let op = Op::Iota {
        dst: 0,
        start,
        step,
    };
    (op, vec![target(rng, dtype, &shape)])
}

/// An iota counts row-major, whatever the layout, and integers are exact.
pub fn iotas_count_row_major(fixture: &Fixture) {
    let mut lane = fixture.lane();
    let mut rng = Rng::new(14);
    let steps: [(Scalar, Scalar); 5] = [
        (0.into(), 1.into()),
        (5.into(), 3.into()),
        (100.into(), (-1).into()),
        (1.0.into(), 0.0.into()),
        (2.0.into(), 0.25.into()),
    ];
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        for (start, step) in steps {
            for _ in 0..4 {
                let (op, operands) = counting(&mut rng, dtype, start, step);
                check(fixture, &mut lane, &op, &operands);
            }
        }
    }
    let long = Op::Iota {
        dst: 0,
        start: (1i64 << 40).into(),
        step: 3.into(),
    };
    for dtype in [DType::I64, DType::U64] {
        check(
            fixture,
            &mut lane,
            &long,
            &[Operand::row_major(dtype, &[70_000])],
        );
    }
}
