//! Eight threads run one model at once. Each has a stream of its own; all share the weights.
//!
//! `cargo run -p streampool --example threads`

use streampool::prelude::*;

/// Probabilities of 4 classes for rows of 16 values.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mlp.onnx");

/// Runs the example.
pub fn main() -> streampool::Result<()> {
    let pool = streampool::host_pool()?; // `cuda_pool()` for an NVIDIA GPU
    let session = Session::load(&pool, MODEL)?;

    let run = |thread: usize| -> streampool::Result<Vec<f32>> {
        let x = Array::new(&[thread as f32; 16], &[1, 16])?;
        let outputs = session.run([("x", &x)])?;
        Ok(outputs["y"].values()?.to_vec())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        for (number, thread) in threads.into_iter().enumerate() {
            let y = thread.join().expect("no thread panics")?;
            println!("thread {number}: {y:.3?}");
            assert!((y.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
        Ok(())
    })
}
