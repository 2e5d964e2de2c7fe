//! A producer hands buffers to consumers that are slow, lets go of them at once, and goes on in the same memory.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use serde_json::json;
use streampool::{Buffer, DType, Layout, Op, Pool};

use super::stage::Stage;
use crate::story::steps::{Seen, Step};
use crate::text::{bytes, count};
use crate::{Failure, Result};

const CONSUMERS: usize = 3;
const HANDOVERS: usize = 1920;

/// Elements of one buffer.
const ELEMENTS: usize = 4096;
const BYTES: usize = ELEMENTS * DType::I32.size();

/// Reads that a consumer has under way before it looks at what it read.
const UNDER_WAY: usize = 64;

/// How much later each op of a consumer executes.
const DELAY: Duration = Duration::from_micros(50);

/// The step.
pub fn step(stage: &Stage) -> Step<'_> {
    Step::new(
        "handover",
        format!(
            "{} handed to {CONSUMERS} slow readers",
            bytes(HANDOVERS * BYTES)
        ),
        || hand_over(stage),
    )
}

fn hand_over(stage: &Stage) -> Result<Seen> {
    let done: Result<_> = thread::scope(|scope| {
        let (mut senders, mut consumers) = (Vec::new(), Vec::new());
        for _ in 0..CONSUMERS {
            let (send, receive) = mpsc::sync_channel(UNDER_WAY);
            senders.push(send);
            consumers.push(scope.spawn(|| consume(stage, receive)));
        }
        let producer = scope.spawn(|| produce(&stage.pool, senders));
        // All are joined, whatever became of the first.
        let produced = producer.join();
        let consumed: Vec<_> = consumers
            .into_iter()
            .map(|consumer| consumer.join())
            .collect();
        let memory = produced.map_err(panicked)??;
        let corrupted = consumed
            .into_iter()
            .map(|corrupted| corrupted.map_err(panicked)?.map_err(Failure::from))
            .sum::<Result<u64>>()?;
        Ok((corrupted, memory))
    });
    stage.device.injector().clear();
    let (corrupted, memory) = done?;
    let handed = HANDOVERS * BYTES;
    let read = (HANDOVERS * CONSUMERS) as u64;
    Ok(Seen {
        // Otherwise there was room for all, and no memory had to be used twice.
        ok: corrupted == 0 && memory < handed,
        figures: format!(
            "{} checked, {} wrong, in {}",
            count(read),
            count(corrupted),
            bytes(memory)
        ),
        numbers: json!({
            "read": read,
            "corrupted": corrupted,
            "bytes_handed_over": handed,
            "bytes_of_memory": memory,
        }),
        drawn: vec![read - corrupted, corrupted],
    })
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Failure {
    "a thread panicked".into()
}

/// Fills buffer after buffer with its number, and gives each away; says how much memory the stream has for it.
fn produce(pool: &Pool, consumers: Vec<SyncSender<Arc<Buffer>>>) -> streampool::Result<usize> {
    let stream = pool.current()?;
    for number in 0..HANDOVERS {
        let mut buffer = stream.allocate(BYTES)?;
        let dst = buffer.write(DType::I32, &[ELEMENTS])?;
        stream.encode(Op::Fill {
            dst,
            value: (number as i32).into(),
        })?;
        let buffer = Arc::new(buffer);
        for consumer in &consumers {
            // A consumer that is gone says itself why.
            let _ = consumer.send(buffer.clone());
        }
    }
    let made = pool.snapshot()?.made;
    let own = made
        .iter()
        .find(|snapshot| snapshot.index == stream.index());
    Ok(own.map_or(0, |snapshot| snapshot.memory.reserved))
}

/// Encodes a copy of each buffer that arrives, lets go of it before the copy is executed, and later counts the
/// copies that do not hold what was handed over.
fn consume(stage: &Stage, arriving: Receiver<Arc<Buffer>>) -> streampool::Result<u64> {
    let stream = stage.pool.current()?;
    stage
        .device
        .injector()
        .delay_queue(u32::from(stream.index()), DELAY);
    let mut copies = stream.allocate(UNDER_WAY * BYTES)?;
    let (mut arrived, mut corrupted) = (0, 0);
    for buffer in arriving {
        let place = arrived % UNDER_WAY;
        let here = Layout::strided(&[ELEMENTS], &[1], place * ELEMENTS)?;
        stream.encode(Op::Copy {
            src: buffer.read(DType::I32, &[ELEMENTS])?,
            dst: copies.write_as(DType::I32, here)?,
        })?;
        drop(buffer);
        arrived += 1;
        if place + 1 == UNDER_WAY {
            let first = (arrived - UNDER_WAY) as i32;
            let read = stream.download::<i32>(&copies)?;
            corrupted += count_corrupted(&read, first);
        }
    }
    Ok(corrupted)
}

/// How many of the buffers in `read`, one after the other, do not hold their number throughout.
fn count_corrupted(read: &[i32], first: i32) -> u64 {
    let wrong = read
        .chunks_exact(ELEMENTS)
        .zip(first..)
        .filter(|(copy, number)| copy.iter().any(|value| value != number));
    wrong.count() as u64
}

// What is still under way at the end would go unchecked.
const _: () = assert!(HANDOVERS.is_multiple_of(UNDER_WAY));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_element_is_a_corrupted_buffer() {
        let mut read: Vec<i32> = (5..8).flat_map(|number| [number; ELEMENTS]).collect();
        assert_eq!(count_corrupted(&read, 5), 0);
        read[ELEMENTS + 17] = 7;
        assert_eq!(count_corrupted(&read, 5), 1);
        assert_eq!(count_corrupted(&read, 6), 3);
    }
}
