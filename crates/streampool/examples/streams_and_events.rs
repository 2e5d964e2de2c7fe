//! Streams of one's own choice, ordered by an event, and timed by two.
//!
//! `cargo run -p streampool --example streams_and_events`

use streampool::prelude::*;

/// Runs the example.
pub fn main() -> streampool::Result<()> {
    let pool = streampool::host_pool()?;
    let (producer, consumer) = (pool.lease()?, pool.lease()?);
    let (begin, end) = (pool.timed_event()?, pool.timed_event()?);

    // Encoding returns at once; the work is done when somebody waits for it.
    let x = pool.with_stream(&producer, || {
        producer.record(&begin)?;
        let ones = Tensor::ones(&pool, &[256, 256], DType::F32)?;
        let x = ones.matmul(&ones)?;
        producer.record(&end)?;
        Ok::<Tensor, streampool::Error>(x)
    })??;

    // The consumer reads what the producer wrote: that order needs no event. This one is for work that shares no tensor.
    consumer.wait(&end)?;
    let sum = pool.with_stream(&consumer, || x.sum(&[0, 1], false)?.to_vec::<f32>())??;
    assert_eq!(sum, [256.0 * 256.0 * 256.0]);

    end.wait()?;
    println!("the product took {:?}", end.elapsed_since(&begin)?);
    Ok(())
}
