//! The host's convolution on one thread and on all, beside its matrix product, which is as fast as the machine's
//! multiplications allow.

mod common;

use streampool_device::{Activation, Conv, MatMul, Op, Slide, Window};
use streampool_host::{HostOptions, bare_execute};

use common::{fastest, numbers, queued, view};

/// Channels read, channels made, groups, rows and columns, kernel, stride.
const SHAPES: [(usize, usize, usize, usize, u32, u32); 8] = [
    (64, 64, 1, 56, 3, 1),
    (64, 64, 1, 56, 1, 1),
    (128, 128, 1, 28, 3, 1),
    (256, 256, 1, 14, 3, 1),
    (512, 512, 1, 7, 3, 1),
    (3, 64, 1, 224, 7, 2),
    (128, 256, 1, 56, 3, 2),
    (144, 144, 144, 56, 3, 1),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let most = product_rate()?;
    println!("the matrix product: {most:.1} GFLOP/s on one thread");
    println!(
        "{:>32} {:>9} {:>7} {:>9} {:>9}",
        "convolution", "GFLOP/s", "ratio", "us", "device us"
    );
    for (read, made, groups, size, kernel, stride) in SHAPES {
        let slide = Slide {
            stride,
            before: kernel / 2,
            after: kernel / 2,
            ..Slide::new(kernel)
        };
        let results = slide.windows(size);
        let taps = kernel as usize;
        let src = numbers(&[read, size, size], 0);
        let weight = numbers(&[made, read / groups, taps, taps], 1);
        let dst = numbers(&[made, results, results], 2);
        let op = Op::Conv(Box::new(Conv {
            src: view(&src, &[1, read, size, size])?,
            weight: view(&weight, &[made, read / groups, taps, taps])?,
            bias: None,
            dst: view(&dst, &[1, made, results, results])?,
            window: Window::new(&[slide; 2])?,
            groups,
            transposed: false,
            activation: Activation::None,
        }));
        // SAFETY: the operands live until after the loop, and nothing else touches them.
        let bare =
            fastest(|| unsafe { bare_execute(&op) }.unwrap_or_else(|error| panic!("{error}")));
        let device = queued(&op, HostOptions::default())?;
        let work = 2 * made * (read / groups) * taps * taps * results * results;
        let rate = work as f64 / bare / 1e9;
        let name = format!("{read} -> {made} / {groups}, {size}², {kernel}x{kernel} / {stride}");
        println!(
            "{name:>32} {rate:>9.1} {:>7.2} {:>9.0} {:>9.0}",
            rate / most,
            bare * 1e6,
            device * 1e6,
        );
    }
    Ok(())
}

/// How fast large matrices are multiplied, in GFLOP/s.
fn product_rate() -> streampool_device::Result<f64> {
    const SIDE: usize = 768;
    let [a, b, out] = [(); 3].map(|()| vec![0.5f32; SIDE * SIDE]);
    let op = Op::MatMul(MatMul {
        a: view(&a, &[SIDE, SIDE])?,
        b: view(&b, &[SIDE, SIDE])?,
        out: view(&out, &[SIDE, SIDE])?,
        bias: None,
        activation: Activation::None,
        alpha: 1.0,
    });
    // SAFETY: the operands live until after the call, and nothing else touches them.
    let time = fastest(|| unsafe { bare_execute(&op) }.unwrap_or_else(|error| panic!("{error}")));
    Ok(2.0 * (SIDE * SIDE * SIDE) as f64 / time / 1e9)
}
