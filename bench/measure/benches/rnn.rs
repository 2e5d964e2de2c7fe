//! The host's LSTM, on one thread and through the device.

mod common;

use common::{fastest, numbers, queued, view};
use streampool_device::{Cell, Direction, Op, Rnn};
use streampool_host::{HostOptions, bare_execute};

/// Steps, batch, and the width of input and state.
const SHAPES: [(usize, usize, usize); 5] = [
    (64, 1, 128),
    (64, 8, 128),
    (64, 64, 128),
    (64, 1, 512),
    (64, 16, 512),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:>18} {:>12} {:>12}", "", "one thread", "device");
    for (steps, batch, width) in SHAPES {
        let shapes: [&[usize]; 5] = [
            &[steps, batch, width],
            &[1, 4 * width, width],
            &[1, 4 * width, width],
            &[1, 8 * width],
            &[steps, 1, batch, width],
        ];
        let [src, weight, recurrent, bias, dst] =
            std::array::from_fn(|operand| numbers(shapes[operand], operand));
        let op = Op::Rnn(Box::new(Rnn {
            cell: Cell::Lstm,
            direction: Direction::Forward,
            src: view(&src, shapes[0])?,
            weight: view(&weight, shapes[1])?,
            recurrent: view(&recurrent, shapes[2])?,
            bias: Some(view(&bias, shapes[3])?),
            peephole: None,
            lengths: None,
            hidden: None,
            cell_state: None,
            dst: view(&dst, shapes[4])?,
            last_hidden: None,
            last_cell: None,
        }));
        // SAFETY: the operands live until after the call, and nothing else touches them.
        let bare = fastest(|| unsafe { bare_execute(&op) }.unwrap_or_else(|why| panic!("{why}")));
        let device = queued(&op, HostOptions::default())?;
        let work = (16 * steps * batch * width * width) as f64;
        let rate = |seconds: f64| format!("{:.0} GFLOP/s", work / seconds / 1e9);
        let name = format!("{steps} x {batch} x {width}");
        println!(
            "{name:>18} {:>12} {:>12}   {:.1} us",
            rate(bare),
            rate(device),
            bare * 1e6
        );
    }
    Ok(())
}
