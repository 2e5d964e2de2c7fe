//! Ensembles of decision trees.

use streampool_device::{DType, TreeCombine, TreeTest, Trees};

use super::expected::Expected;
use crate::num::Num;
use crate::operand::Operand;

/// Each row down each tree.
pub(super) fn trees(op: &Trees<usize>, operands: &[Operand]) -> Vec<Expected> {
    let (src, dst) = (&operands[op.src], &operands[op.dst]);
    let [rows, features] = [src.shape()[0], src.shape()[1]];
    let targets = dst.shape()[1];
    let words: Vec<u32> = operands[op.records]
        .values()
        .into_iter()
        .map(|word| word.int() as u32)
        .collect();
    let (records, _) = words.as_chunks::<4>();
    let last = records.len() - 1;
    let value = |record: &[u32; 4]| match src.dtype {
        DType::F64 => f64::from_bits(u64::from(record[2]) | u64::from(record[3]) << 32),
        _ => f64::from(f32::from_bits(record[2])),
    };
    let features_of = src.values();
    let mut results = Vec::new();
    for row in 0..rows {
        let mut sums = vec![(None, 0.0); targets];
        for tree in 0..op.trees {
            let mut at = tree;
            for _ in 0..op.depth {
                let record = &records[at];
                if record[0] & Trees::TEST == 0 {
                    break;
                }
                let feature = (record[0] >> 8).min(features as u32 - 1) as usize;
                let x = features_of[row * features + feature].float();
                let bit = match x.partial_cmp(&value(record)) {
                    Some(std::cmp::Ordering::Less) => Trees::LESS,
                    Some(std::cmp::Ordering::Equal) => Trees::EQUAL,
                    Some(std::cmp::Ordering::Greater) => Trees::GREATER,
                    None => Trees::NAN,
                };
                let passing = match op.test {
                    TreeTest::AtMost => Trees::LESS | Trees::EQUAL,
                    TreeTest::Below => Trees::LESS,
                    TreeTest::Bits => record[0],
                };
                let next = record[1].wrapping_add(u32::from(passing & bit == 0));
                at = (next as usize).min(last);
            }
            let leaf = &records[at];
            let weights = match leaf[0] & 3 {
                0 => at..at + 1,
                2 => {
                    let first = (leaf[2] as usize).min(records.len());
                    first..(first + targets.min(leaf[3] as usize)).min(records.len())
                }
                _ => 0..0,
            };
            for weight in &records[weights] {
                let target = (weight[0] >> 8).min(targets as u32 - 1) as usize;
                let (sum, scale): &mut (Option<f64>, f64) = &mut sums[target];
                let own = value(weight);
                *scale += own.abs();
                *sum = Some(match (op.combine, *sum) {
                    (_, None) => own,
                    (TreeCombine::Sum, Some(sum)) => sum + own,
                    (TreeCombine::Min, Some(sum)) => sum.min(own),
                    (TreeCombine::Max, Some(sum)) => sum.max(own),
                });
            }
        }
        results.extend(sums.into_iter().map(|(sum, scale)| Expected {
            value: Num::Float(sum.unwrap_or(0.0)),
            scale: if op.combine == TreeCombine::Sum {
                scale
            } else {
                0.0
            },
        }));
    }
    results
}
