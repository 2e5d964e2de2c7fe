//! Random numbers of every type and distribution, in each way in which they may lie.

use streampool_device::{DType, Distribution, Op, Random};

use super::Memory;

/// Ops on random numbers.
pub fn ops() -> Vec<Op> {
    let mut ops = Vec::new();
    for dtype in DType::ALL {
        for distribution in distributions(dtype) {
            let mut memory = Memory::default();
            let mut places = vec![(memory.row_major(dtype, &[1000]), 0)];
            // Where elements lie makes the same difference for all types.
            if matches!(dtype, DType::F32 | DType::F64) {
                places.push((memory.row_major(dtype, &[1000]), 1));
                places.push((memory.turned(dtype, &[10, 90]), 0));
            }
            for (dst, offset) in places {
                ops.push(Op::Random(Random {
                    distribution,
                    dst,
                    seed: 1,
                    offset,
                }));
            }
        }
    }
    ops
}

fn distributions(dtype: DType) -> Vec<Distribution> {
    let mut all = vec![Distribution::Bernoulli { probability: 0.3 }];
    if dtype != DType::Bool {
        all.push(Distribution::Integers { low: 0, high: 10 });
    }
    if dtype.is_integer() {
        all.push(Distribution::Bits);
    }
    if dtype.is_float() {
        all.extend([
            Distribution::Uniform {
                low: 0.0,
                high: 1.0,
            },
            Distribution::Normal {
                mean: 0.0,
                deviation: 1.0,
            },
            Distribution::Exponential { rate: 1.0 },
            Distribution::Gamma { concentration: 0.5 },
            Distribution::Gamma { concentration: 2.0 },
        ]);
    }
    all
}
