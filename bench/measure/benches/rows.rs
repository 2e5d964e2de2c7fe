//! The host's softmax, norm and GELU through the device, on one thread and on all.

mod common;

use std::sync::Arc;

use common::{numbers, queued, view};
use streampool_device::{DType, Expr, Norm, NormKind, Op, Result, Unary};
use streampool_host::HostOptions;

fn main() -> Result<()> {
    println!("{:>28} {:>12} {:>12}", "", "one thread", "all threads");
    for (rows, length) in [(12 * 128, 128), (128, 1024), (8, 32_000)] {
        let shape = [rows, length];
        let [src, dst] = [1, 2].map(|seed| numbers(&shape, seed));
        let op = Op::Softmax {
            src: view(&src, &shape)?,
            dst: view(&dst, &shape)?,
            axis: 1,
            log: false,
        };
        report("softmax", &shape, &op)?;
    }
    for (rows, length) in [(128, 384), (128, 1024), (512, 4096)] {
        let shape = [rows, length];
        let [src, dst, scale, bias] = [1, 2, 3, 4].map(|seed| numbers(&shape, seed));
        let op = Op::Norm(Norm {
            added: None,
            kind: NormKind::Layer,
            src: view(&src, &shape)?,
            dst: view(&dst, &shape)?,
            scale: Some(view(&scale, &[length])?),
            bias: Some(view(&bias, &[length])?),
            axis: 1,
            epsilon: 1e-5,
        });
        report("layer norm", &shape, &op)?;
    }
    for shape in [[128, 384], [128, 1536], [1024, 4096]] {
        let [src, dst] = [1, 2].map(|seed| numbers(&shape, seed));
        let mut expr = Expr::builder();
        let x = expr.input(DType::F32)?;
        let y = expr.unary(Unary::Gelu, x)?;
        let op = Op::Map {
            expr: Arc::new(expr.finish(&[y])?),
            inputs: vec![view(&src, &shape)?],
            outputs: vec![view(&dst, &shape)?],
        };
        report("gelu", &shape, &op)?;
    }
    Ok(())
}

/// Measures an op, unless the program was given a name that is another's.
fn report(name: &str, shape: &[usize], op: &Op) -> Result<()> {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    if wanted.is_some_and(|wanted| !name.contains(&wanted)) {
        return Ok(());
    }
    let elements: usize = shape.iter().product();
    let [alone, all] = [
        queued(op, HostOptions::default().threads(1))?,
        queued(op, HostOptions::default())?,
    ];
    println!(
        "{:>28} {:>9.1} us {:>9.1} us   {:.3} ns an element",
        format!("{name} {shape:?}"),
        alone * 1e6,
        all * 1e6,
        alone * 1e9 / elements as f64
    );
    Ok(())
}
