//! The kernels that ops are made of, on GPUs of different sizes.

use std::collections::HashSet;

use streampool_device::{Combine, DType, Op};
use streampool_kernels::{
    Dialect, Kernel, Limits, Plan, Source, lower, lower_to_simdgroups, product_of_many, rnn,
    tensor_core_product, warpgroup_conv, warpgroup_product,
};

/// A large GPU and a small one. Which it is makes a difference for no element type that it does not make for `f32`, so
/// where compiling takes long, other types are left out for the small one.
const LIMITS: [Limits; 2] = [
    Limits {
        compute_units: 132,
        shared_bytes: 48 * 1024,
        buffers: 480,
    },
    Limits {
        compute_units: 8,
        shared_bytes: 32 * 1024,
        buffers: 30,
    },
];

/// What an Apple GPU has.
const APPLE: Limits = LIMITS[1];

/// The kernels that `ops` are made of, each once, and their texts.
pub fn kernels(ops: &[Op], dialect: Dialect) -> Vec<(Kernel, Source)> {
    let mut known: HashSet<Kernel> = HashSet::new();
    let mut kernels = Vec::new();
    for op in ops {
        let (mut doubles, mut singles) = (false, true);
        // Metal changes at most 32 bits at once.
        let lacking = match op {
            Op::Scatter(op) => op.combine != Combine::Replace && op.dst.dtype().size() == 8,
            Op::Map { expr, .. } => expr.nodes().iter().any(|(_, dtype)| *dtype == DType::F64),
            _ => false,
        };
        op.for_each_operand(|_, _, view| {
            doubles |= view.dtype() == DType::F64;
            singles &= view.dtype() == DType::F32;
        });
        let metal = dialect == Dialect::Metal;
        for limits in &LIMITS[..1 + usize::from(singles || metal)] {
            let limits = match dialect {
                Dialect::Cuda => limits,
                Dialect::Metal => &Limits {
                    compute_units: limits.compute_units,
                    ..APPLE
                },
            };
            let plan = lower(op, limits).unwrap_or_else(|| panic!("there is no kernel for {op:?}"));
            let special = match (op, dialect) {
                (Op::MatMul(op), Dialect::Cuda) => tensor_core_product(op, limits),
                (Op::Rnn(op), Dialect::Cuda) => rnn::tensor_core_rnn(op, limits),
                (op, Dialect::Metal) => lower_to_simdgroups(op, limits),
                _ => None,
            };
            let of_many = match (op, dialect) {
                (Op::MatMul(op), Dialect::Cuda) => product_of_many(op, limits),
                _ => None,
            };
            let by_warpgroups = [false, true].map(|many| match (op, dialect) {
                (Op::MatMul(op), Dialect::Cuda) => warpgroup_product(op, limits, many),
                (Op::Conv(op), Dialect::Cuda) => warpgroup_conv(op, limits, many),
                _ => None,
            });
            let plans = [Some(plan), special, of_many].into_iter();
            let plans = plans.chain(by_warpgroups).flatten();
            for dispatch in plans.flat_map(|plan: Plan| plan.dispatches) {
                if !known.insert(dispatch.kernel.clone()) {
                    continue;
                }
                let source = dispatch.kernel.source(dialect);
                assert!(
                    source.is_some() || (doubles || lacking) && metal,
                    "{op:?} has no text"
                );
                kernels.extend(source.map(|source| (dispatch.kernel, source)));
            }
        }
    }
    kernels
}
