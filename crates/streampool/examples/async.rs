//! A thousand tokio tasks ask a queue over a model. No thread is blocked while they wait.
//!
//! `cargo run -p streampool --example async`

use std::sync::Arc;

use streampool::prelude::*;

/// Probabilities of 4 classes for rows of 16 values.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mlp.onnx");

async fn ask(queue: Arc<BatchQueue>, number: usize) -> streampool::Result<Vec<f32>> {
    let row = Array::new(&[number as f32 / 1000.0; 16], &[1, 16])?;
    // Waits for room in the queue, then for the answer. To drop the future is to cancel the request.
    let outputs = queue.submit_when_room(row).await?.await?;
    Ok(outputs[0].values()?.to_vec())
}

/// Runs the example.
pub fn main() -> streampool::Result<()> {
    let session = Session::load(&streampool::host_pool()?, MODEL)?;
    let queue = BatchQueue::for_session(&session, BatchQueue::builder().max_batch_size(32))?;
    let queue = Arc::new(queue);

    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    runtime.block_on(async {
        let tasks = (0..1000).map(|number| tokio::spawn(ask(queue.clone(), number)));
        for task in tasks.collect::<Vec<_>>() {
            let answer = task.await.expect("no task panics")?;
            assert_eq!(answer.len(), 4);
        }
        Ok::<(), streampool::Error>(())
    })?;
    println!(
        "1000 tasks, {:.1} rows a batch",
        queue.statistics().batch_rows.mean()
    );
    Ok(())
}
