//! The host's attention, on one thread and through the device.

mod common;

use common::{fastest, numbers, queued, view};
use streampool_device::{Attention, Op};
use streampool_host::{HostOptions, bare_execute};

/// Batch, heads, queries and keys, width, and whether it is causal.
const SHAPES: [(usize, usize, usize, usize, bool); 6] = [
    (1, 12, 128, 32, false),
    (1, 12, 128, 32, true),
    (1, 12, 128, 64, false),
    (1, 16, 512, 64, false),
    (1, 8, 1024, 128, false),
    (1, 8, 1024, 128, true),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:>28} {:>12} {:>12}", "", "one thread", "device");
    for (batch, heads, length, width, causal) in SHAPES {
        let shape = [batch, heads, length, width];
        let [query, key, value, out] = [1, 2, 3, 0].map(|seed| numbers(&shape, seed));
        let op = Op::Attention(Box::new(Attention {
            query: view(&query, &shape)?,
            key: view(&key, &shape)?,
            value: view(&value, &shape)?,
            mask: None,
            out: view(&out, &shape)?,
            scale: 1.0 / (width as f64).sqrt(),
            causal: causal.then_some(0),
            softcap: 0.0,
        }));
        // SAFETY: the operands live until after the call, and nothing else touches them.
        let bare = fastest(|| unsafe { bare_execute(&op) }.unwrap_or_else(|why| panic!("{why}")));
        let device = queued(&op, HostOptions::default())?;
        let work = 4.0 * (batch * heads * length * length * width) as f64;
        let rate = |seconds: f64| format!("{:.0} GFLOP/s", work / seconds / 1e9);
        let name = format!(
            "{batch} x {heads} x {length} x {width}{}",
            if causal { " causal" } else { "" }
        );
        println!(
            "{name:>28} {:>12} {:>12}   {:.1} us",
            rate(bare),
            rate(device),
            bare * 1e6
        );
    }
    Ok(())
}
