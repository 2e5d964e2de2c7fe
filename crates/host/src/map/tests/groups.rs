//! Several groups of operands in one call.

use std::sync::Arc;

use streampool_device::{DType, Layout, View};

use crate::team::{Solo, Team};

use super::fused::{element, random_expr};
use super::threads::Threads;
use super::{Buffer, Numbers, execute};

/// The bytes of all outputs of groups of these shapes, at once or group after group.
fn results(seed: u64, shapes: &[Vec<usize>], at_once: bool, team: &dyn Team) -> Vec<Vec<u8>> {
    let mut numbers = Numbers::new(seed);
    let expr = Arc::new(random_expr(&mut numbers, 8));
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    let (mut inputs, mut outputs): (Vec<View>, Vec<View>) = (Vec::new(), Vec::new());
    for shape in shapes {
        let whole = Layout::contiguous(shape).unwrap();
        for (number, &dtype) in expr.inputs().iter().enumerate() {
            // Now and then one row for all.
            let layout = match number % 3 {
                2 => Layout::contiguous(&shape[shape.len().min(1)..]).unwrap(),
                _ => whole,
            };
            let elements = (0..layout.elements()).map(|_| element(dtype, &mut numbers));
            let bytes: Vec<u8> = elements.flat_map(|element| element.write(dtype)).collect();
            let mut source = Buffer::of(&bytes);
            inputs.push(source.view(dtype, layout));
            sources.push(source);
        }
        for &value in expr.outputs() {
            let dtype: DType = expr.dtype(value);
            let mut target = Buffer::new(whole.elements() * dtype.size());
            outputs.push(target.view(dtype, whole));
            targets.push(target);
        }
    }
    if at_once {
        execute(&expr, &inputs, &outputs, team);
    } else {
        let (reads, writes) = (expr.inputs().len(), expr.outputs().len());
        for (group, outputs) in outputs.chunks(writes).enumerate() {
            execute(&expr, &inputs[group * reads..][..reads], outputs, team);
        }
    }
    targets
        .iter()
        .map(|target| target.bytes().to_vec())
        .collect()
}

#[test]
fn groups_are_computed_as_if_alone() {
    let shapes = [
        vec![3, 5],
        vec![],
        vec![0, 4],
        vec![40_000],
        vec![7, 9, 300],
        vec![1],
        vec![100, 2000],
    ];
    for seed in 0..20 {
        let alone = results(seed, &shapes, false, &Solo);
        for threads in [1, 2, 3, 8] {
            assert_eq!(
                results(seed, &shapes, true, &Threads(threads)),
                alone,
                "{threads} threads"
            );
        }
    }
}
