//! How ops on rows are lowered.

use streampool_device::{Axes, DType, Layout, Norm, NormKind, ReduceKind};

use super::testing::{LIMITS, row_major, view};
use super::*;
use crate::{Kernel, Plan};

fn size_of_params(text: &KernelText) -> usize {
    let end = text.params.iter().fold(0usize, |end, field| {
        let size = match field.ty {
            "u32" | "f32" => 4,
            _ => 8,
        };
        end.next_multiple_of(size) + size
    });
    end.next_multiple_of(8)
}

/// Plans of every op, over dimensions that become one and over some that do not.
fn plans() -> Vec<Plan> {
    let shape = [6, 40, 5, 48];
    let gaps = Layout::strided(&shape, &[24_000, 512, 100, 2], 0).expect("it is small");
    let mut plans = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        for src in [row_major(dtype, &shape), view(dtype, gaps)] {
            for kind in [ReduceKind::Mean, ReduceKind::Max, ReduceKind::ArgMin] {
                let index = kind == ReduceKind::ArgMin;
                let sets = [&[3][..], &[0], &[1, 3]];
                for axes in sets.into_iter().filter(|axes| !index || axes.len() == 1) {
                    let mut kept = shape;
                    axes.iter().for_each(|&axis| kept[axis] = 1);
                    let to = if index { DType::I64 } else { dtype };
                    let axes = Axes::new(axes).expect("they are axes");
                    plans.push(reduce(kind, &src, &row_major(to, &kept), axes, &LIMITS));
                }
            }
            let dst = row_major(dtype, &shape);
            for axis in 0..4 {
                plans.push(softmax(&src, &dst, axis, axis % 2 == 0, &LIMITS));
                plans.push(norm(
                    &Norm {
                        added: None,
                        sum: None,
                        kind: NormKind::Rms,
                        src,
                        dst,
                        scale: Some(row_major(dtype, &shape[axis..])),
                        bias: None,
                        axis,
                        epsilon: 0.0,
                    },
                    &LIMITS,
                ));
            }
        }
    }
    let long = row_major(DType::F32, &[3, 1 << 20]);
    let axes = Axes::new(&[1]).expect("it is an axis");
    plans.push(reduce(
        ReduceKind::Sum,
        &long,
        &row_major(DType::F32, &[3, 1]),
        axes,
        &LIMITS,
    ));
    plans
}

#[test]
fn params_buffers_and_threads_are_those_of_the_text() {
    let plans = plans();
    assert!(plans.iter().any(|plan| plan.dispatches.len() == 2));
    for dispatch in plans.iter().flat_map(|plan| &plan.dispatches) {
        let Kernel::Rows(kernel) = &dispatch.kernel else {
            panic!("{:?} does not work on rows", dispatch.kernel);
        };
        let text = kernel.text(Dialect::Cuda).expect("CUDA has every type");
        assert_eq!(
            size_of_params(&text),
            dispatch.params.as_bytes().len(),
            "{kernel:?}"
        );
        assert_eq!(text.buffers.len(), dispatch.operands.len(), "{kernel:?}");
        assert_eq!(text.threads, Some(dispatch.threads), "{kernel:?}");
    }
}
