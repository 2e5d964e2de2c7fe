//! Ensembles of decision trees.

use streampool_device::{DType, Op, OpKind, TreeCombine, TreeTest, Trees};

use crate::execute::{Example, check};
use crate::fixture::Fixture;
use crate::num::Num;
use crate::operand::Operand;
use crate::random::{read_operand, target};
use crate::rng::Rng;

const TYPES: [DType; 2] = [DType::F32, DType::F64];

const TESTS: [TreeTest; 3] = [TreeTest::AtMost, TreeTest::Below, TreeTest::Bits];

const COMBINES: [TreeCombine; 3] = [TreeCombine::Sum, TreeCombine::Min, TreeCombine::Max];

/// The source, the records and the results are the operands.
fn ensemble(trees: usize, depth: usize, test: TreeTest, combine: TreeCombine) -> Op<usize> {
    Op::Trees(Trees {
        src: 0,
        records: 1,
        dst: 2,
        trees,
        depth,
        test,
        combine,
    })
}

fn record(word: u32, next: usize, dtype: DType, value: f64) -> [u32; 4] {
    let bits = match dtype {
        DType::F64 => value.to_bits(),
        _ => u64::from((value as f32).to_bits()),
    };
    [word, next as u32, bits as u32, (bits >> 32) as u32]
}

fn operand_of(records: &[[u32; 4]]) -> Operand {
    let words = records.as_flattened().iter();
    let words = words.map(|&word| Num::whole(i64::from(word.cast_signed())));
    Operand::of(DType::I32, &[records.len(), 4], words)
}

/// Whole trees of up to so many levels, whose leaves are weights and lists.
fn planted(
    rng: &mut Rng,
    dtype: DType,
    [trees, levels, features, targets]: [usize; 4],
) -> Vec<[u32; 4]> {
    let mut records = vec![[0; 4]; trees];
    let mut open: Vec<(usize, usize)> = (0..trees).map(|root| (root, levels)).collect();
    let mut lists = Vec::new();
    while let Some((at, levels)) = open.pop() {
        if levels > 0 && !rng.chance(6) {
            let tests = [12, 4, 16, 24, 8, 20, 44, 36, 52, 0];
            let word =
                Trees::TEST | rng.pick(&tests) | (rng.below(features) as u32) << Trees::SHIFT;
            let next = records.len();
            records[at] = record(word, next, dtype, value(rng));
            records.extend([[0; 4]; 2]);
            open.extend([(next, levels - 1), (next + 1, levels - 1)]);
        } else if rng.chance(3) {
            records[at] = [Trees::LIST, at as u32, 0, 0];
            lists.push(at);
        } else {
            let word = (rng.below(targets) as u32) << Trees::SHIFT;
            records[at] = record(word, at, dtype, rng.real(-2.0, 2.0));
        }
    }
    for at in lists {
        let count = rng.below(targets + 2);
        records[at][2] = records.len() as u32;
        records[at][3] = count as u32;
        for _ in 0..count {
            let word = (rng.below(targets) as u32) << Trees::SHIFT;
            let itself = records.len();
            records.push(record(word, itself, dtype, rng.real(-2.0, 2.0)));
        }
    }
    records
}

/// A value that features have, too, now and then.
fn value(rng: &mut Rng) -> f64 {
    match rng.below(8) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 | 4 => rng.pick(&[0.0, -0.0, 0.5, -1.0]),
        _ => rng.real(-2.0, 2.0),
    }
}

/// An ensemble over rows of any layout.
pub(crate) fn any_ensemble(rng: &mut Rng, dtype: DType) -> Example {
    let sizes = [
        1 + rng.below(20),
        rng.below(6),
        1 + rng.below(9),
        1 + rng.below(4),
    ];
    let rows = rng.pick(&[0, 1, 2, 15, 16, 17, 40]);
    some_ensemble(rng, dtype, rows, sizes)
}

fn some_ensemble(rng: &mut Rng, dtype: DType, rows: usize, sizes: [usize; 4]) -> Example {
    let [trees, levels, features, targets] = sizes;
    let records = planted(rng, dtype, sizes);
    let src = read_operand(rng, dtype, &[rows, features], |rng| {
        Num::Float(value(rng)).cast(dtype)
    });
    let dst = target(rng, dtype, &[rows, targets]);
    let op = ensemble(
        trees,
        levels.min(records.len()),
        rng.pick(&TESTS),
        rng.pick(&COMBINES),
    );
    (op, vec![src, operand_of(&records), dst])
}

/// Ensembles of both types, of rows of any layout, with every test and every way to combine.
pub fn ensembles_of_any_layout(fixture: &Fixture) {
    if !fixture.supports(OpKind::Trees) {
        return;
    }
    let mut rng = Rng::new(110);
    let mut lane = fixture.lane();
    for dtype in TYPES {
        for _ in 0..40 {
            let (op, operands) = any_ensemble(&mut rng, dtype);
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// Numbers of rows and trees around the blocks that a device may take at once.
pub fn ensembles_of_block_lengths(fixture: &Fixture) {
    if !fixture.supports(OpKind::Trees) {
        return;
    }
    let mut rng = Rng::new(111);
    let mut lane = fixture.lane();
    for rows in [1, 16, 127, 128, 129, 300] {
        for trees in [1, 15, 16, 17, 33] {
            let (op, operands) = some_ensemble(&mut rng, DType::F32, rows, [trees, 4, 7, 3]);
            check(fixture, &mut lane, &op, &operands);
        }
    }
}

/// Records of any numbers, in circles and beyond the last: each number beyond the last is the last, and what is at a test in
/// the end adds nothing.
pub fn records_that_lead_nowhere(fixture: &Fixture) {
    if !fixture.supports(OpKind::Trees) {
        return;
    }
    let mut rng = Rng::new(112);
    let mut lane = fixture.lane();
    for dtype in TYPES {
        for test in TESTS {
            for combine in COMBINES {
                let count = 1 + rng.below(30);
                let records: Vec<[u32; 4]> = (0..count)
                    .map(|at| {
                        let word =
                            rng.bits() as u32 & 63 | (rng.bits() as u32 & 15) << Trees::SHIFT;
                        let next = rng.pick(&[0, 1, count - 1, count, 9, u32::MAX as usize]);
                        // A leaf leads to itself.
                        let next = if word & Trees::TEST == 0 { at } else { next };
                        let [word, next, low, high] =
                            record(word, next, dtype, rng.real(-2.0, 2.0));
                        match word & 3 {
                            2 => [word, next, rng.pick(&[0, 3, 1000]), rng.pick(&[0, 2, 1000])],
                            _ => [word, next, low, high],
                        }
                    })
                    .collect();
                let src = read_operand(&mut rng, dtype, &[33, 5], |rng| {
                    Num::Float(value(rng)).cast(dtype)
                });
                let dst = target(&mut rng, dtype, &[33, 3]);
                let op = ensemble(1 + rng.below(count), rng.below(count), test, combine);
                check(fixture, &mut lane, &op, &[src, operand_of(&records), dst]);
            }
        }
    }
}
