//! Sixty-four callers ask a queue, which makes batches of their requests.
//!
//! `cargo run -p streampool --example queue`

use std::time::Duration;

use streampool::batch::Shutdown;
use streampool::prelude::*;

/// Probabilities of 4 classes for rows of 16 values.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mlp.onnx");

/// Runs the example.
pub fn main() -> streampool::Result<()> {
    let session = Session::load(&streampool::host_pool()?, MODEL)?;
    let queue = BatchQueue::for_session(&session, BatchQueue::builder().max_batch_size(32))?;

    let ask = |caller: usize| -> streampool::Result<()> {
        for _ in 0..100 {
            let row = Array::new(&[caller as f32; 16], &[1, 16])?;
            let request = Request::new(vec![row])
                .tenant("example")
                .within(Duration::from_secs(10));
            let outputs = queue.infer(request)?;
            assert_eq!(outputs[0].shape(), [1, 4]);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..64)
            .map(|caller| scope.spawn(move || ask(caller)))
            .collect();
        callers
            .into_iter()
            .try_for_each(|caller| caller.join().expect("no caller panics"))
    })?;

    queue.shutdown(Shutdown::Drain);
    let did = queue.statistics();
    println!("{} requests answered", did.requests.completed);
    println!("{:.1} rows a batch", did.batch_rows.mean());
    Ok(())
}
