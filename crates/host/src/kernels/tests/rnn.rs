//! Recurrent layers: the same at each level of instructions and on any number of threads. What they compute is
//! compared with a reference by the conformance suite.

use streampool_device::{Cell, DType, Direction, Op, Rnn};

use crate::kernels::simd::forced::at_each_level;

use super::tensor::{Random, Tensor, Threads, near, run, run_on};

/// Steps, sequences, and the sizes of input and state.
const SIZES: [[usize; 4]; 5] = [
    [5, 1, 7, 130],
    [4, 3, 16, 33],
    [3, 14, 5, 64],
    [2, 50, 3, 20],
    [40, 2, 64, 128],
];

fn each(mut f: impl FnMut(&Op, &mut Tensor)) {
    let mut random = Random(11);
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for cell in [
            Cell::Tanh,
            Cell::Relu,
            Cell::Gru { reset_after: false },
            Cell::Gru { reset_after: true },
            Cell::Lstm,
        ] {
            for [steps, batch, input, hidden] in SIZES {
                let gates = cell.gates() * hidden;
                let mut of = |shape: &[usize], most: f64| {
                    Tensor::plain(dtype, shape)
                        .fill(|| super::tensor::Number::Float(random.number() * most / 2.0))
                };
                let src = of(&[steps, batch, input], 1.0);
                let weight = of(&[2, gates, input], 0.3);
                let recurrent = of(&[2, gates, hidden], 1.0 / hidden as f64);
                let bias = of(&[2, 2 * gates], 0.5);
                let mut dst = of(&[steps, 2, batch, hidden], 1.0);
                let op = Op::Rnn(Box::new(Rnn {
                    cell,
                    direction: Direction::Both,
                    src: src.view,
                    weight: weight.view,
                    recurrent: recurrent.view,
                    bias: Some(bias.view),
                    peephole: None,
                    lengths: None,
                    hidden: None,
                    cell_state: None,
                    dst: dst.view,
                    last_hidden: None,
                    last_cell: None,
                }));
                f(&op, &mut dst);
            }
        }
    }
}

#[test]
fn threads_share_layers_bit_for_bit() {
    each(|op, dst| {
        dst.clear();
        run(op);
        let alone = dst.bytes().to_vec();
        dst.clear();
        run_on(op, &Threads(3));
        assert_eq!(alone, dst.bytes(), "{op:?}");
    });
}

#[test]
fn levels_agree() {
    each(|op, dst| {
        run(op);
        let best: Vec<f64> = dst
            .indices()
            .iter()
            .map(|index| dst.get(index).float())
            .collect();
        at_each_level(|level| {
            dst.clear();
            run(op);
            for (index, &wanted) in dst.indices().iter().zip(&best) {
                let got = dst.get(index).float();
                let dtype = dst.view.dtype();
                assert!(
                    near(dtype, got, wanted, 4.0, 64.0),
                    "{level:?} {index:?} {got} {wanted}"
                );
            }
        });
    });
}
