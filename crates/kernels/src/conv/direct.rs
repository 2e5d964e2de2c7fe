//! A thread for each result.

use streampool_device::Conv;

use super::ends::Ends;
use super::shared_text::{buffers, ends, operands, place_fields, places};
use crate::dispatch::{Dispatch, Params, Plan, grid};
use crate::elementwise::form::{distance_type, number_type};
use crate::spatial::{self, Order, slides};
use crate::text::{Field, KernelText};

/// A thread for each result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Direct {
    pub(super) ends: Ends,
    /// The window's extents where it is small.
    unrolled: Option<[u8; 3]>,
    order: Order,
    wide: bool,
}

/// Threads in each group.
const THREADS: u32 = 256;
/// A window of at most so many elements is unrolled.
const MOST_UNROLLED: u32 = 32;

pub(super) fn plan<K>(op: &Conv, kind: impl FnOnce(Direct) -> K) -> Option<Plan<K>> {
    let wide = spatial::is_wide(&[&op.src, &op.weight, &op.dst]);
    let kernels = slides(&op.window).map(|slide| slide.kernel);
    let small = kernels
        .iter()
        .try_fold(1u32, |product, &kernel| product.checked_mul(kernel));
    let kernel = Direct {
        ends: Ends::of(op),
        unrolled: small
            .filter(|&product| product <= MOST_UNROLLED)
            .map(|_| kernels.map(|kernel| kernel as u8)),
        order: Order::of(&op.dst),
        wide,
    };
    let shape = spatial::shape(&op.dst);
    let count = kernel.order.count(Params::new(), wide, shape);
    let params = places(count, wide, op)
        .size(op.src.shape()[1] / op.groups)
        .size(op.dst.shape()[1] / op.groups);
    let groups = op.dst.layout().elements().div_ceil(THREADS as usize);
    Some(Plan::of(Dispatch {
        kernel: kind(kernel),
        groups: grid([groups, 1, 1]),
        threads: THREADS,
        operands: operands(op),
        params,
    }))
}

impl Direct {
    pub(super) fn text(&self) -> KernelText {
        let mut params = spatial::count_fields(self.wide);
        params.extend(place_fields(self.wide, self.ends));
        params.extend(["read", "made"].map(|name| Field::new("u32", name)));
        let mut functions = format!(
            "typedef {} Count;\ntypedef {} Distance;\n#define TAPS {}\n",
            number_type(self.wide),
            distance_type(self.wide),
            self.unrolled.map_or("", |_| "UNROLL"),
        );
        for axis in 0..3 {
            functions.push_str(&match self.unrolled {
                Some(kernels) => format!("#define KERNEL_{axis} {}\n", kernels[axis]),
                None => format!("#define KERNEL_{axis} p.kernel_{axis}\n"),
            });
        }
        functions.push_str(&ends(self.ends));
        let mut body = String::from(
            "    const Count index = Count(group_x) * threads + lane;\n    \
             if (index >= p.count) { return; }\n",
        );
        body.push_str(&self.order.places(self.wide));
        body.push_str(include_str!("direct_body.h"));
        KernelText {
            entry: "conv_direct",
            buffers: buffers(self.ends),
            params,
            threads: Some(THREADS),
            functions,
            body,
            ..KernelText::default()
        }
    }
}
