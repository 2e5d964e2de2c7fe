//! The chapter on safety: nothing crashes, races, leaks or fails for others.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use streampool::host::{HostDevice, HostOptions};
use streampool::{Activation, Buffer, DType, Device, Layout, MatMul, Op, OpKind, Pool, Stream};
use streampool_host::OpMatcher;

use super::chapter::{Chapter, Check, Found, Now, Seen, bars, sums};
use super::setting::{self, MOST_THREADS, Setting, Subject, on_own_streams, same};
use crate::noise::Noise;
use crate::text::{bytes, count};
use crate::threads::together;
use crate::{Failure, Result};

/// The chapter.
pub fn chapter() -> Chapter {
    Chapter {
        name: "safety",
        claim: "When 8 or 31 threads use one device at the same time and share its weights, every output equals the output of a \
                single thread. A fault affects only its own stream, and no memory leaks."
            .to_owned(),
        how: "One thread runs each model on different inputs. Then 8 and 31 threads run it at the same time, and each output is \
              compared bit by bit with that of the single thread. On a host device with injected delays and faults, threads \
              multiply with shared weights, a producer passes memory to slow readers and reuses it, and a fault hits one of 31 \
              streams."
            .to_owned(),
        tell,
    }
}

/// A host device that can be made slow and faulty, and a pool on it.
struct Stage {
    device: Arc<HostDevice>,
    pool: Pool,
}

/// All that do not run models share one device and one pool, whose properties do not depend on the environment.
fn tell(setting: &Setting, now: Now<'_>) -> Result<Found> {
    let device = HostDevice::new(HostOptions::default())?;
    let pool = setting::pool(device.clone())?;
    let stage = &Stage { device, pool };
    let mut checks = Vec::new();
    for subject in &setting.subjects {
        for threads in [8, MOST_THREADS] {
            let name = &subject.name;
            let what = format!("{threads} threads run {name}");
            let run = || run(subject, threads, 2 * setting.slice);
            checks.push(Check::tried(now, format!("{name}-{threads}"), what, run));
        }
    }
    let what = format!("{MOST_THREADS} threads, {PRODUCTS} products each");
    checks.push(Check::tried(now, "products", what, || multiply_all(stage)));
    let what = format!("{} passed to {CONSUMERS} slow readers", bytes(HANDED));
    checks.push(Check::tried(now, "handover", what, || hand_over(stage)));
    let what = format!("a fault on one of {MOST_THREADS} streams");
    checks.push(Check::tried(now, "fault", what, || break_one(stage)));
    let what = "memory still in use at the end";
    checks.push(Check::tried(now, "leftover", what, || {
        count_leftover(stage)
    }));
    let [right, wrong] = sums(&checks);
    let title = "Safety: compared results";
    Ok(Found {
        drawings: vec![bars(title, "results", ["right", "wrong"], &checks)],
        sum: format!(
            "Of {} results, {} were wrong. The fault affected only its stream, and all memory was returned.",
            count(right + wrong),
            count(wrong)
        ),
        checks,
        ..Found::default()
    })
}

/// Many threads run one session, and every output is compared with that of one thread.
fn run(subject: &Subject, threads: usize, time: Duration) -> Result<Seen> {
    let expected = subject.alone()?;
    let count_wrong = |thread: usize, begin: Instant| -> Result<(u64, u64)> {
        let inputs = subject.inputs(thread);
        let (mut runs, mut wrong) = (0u64, 0u64);
        loop {
            let outputs = subject.session.run_positional(&inputs)?;
            runs += 1;
            wrong += u64::from(!same(&outputs, &expected, thread));
            if begin.elapsed() >= time {
                return Ok((runs, wrong));
            }
        }
    };
    let done = together(0..threads, Ok, || (), count_wrong)?.done;
    let runs: u64 = done.iter().map(|(runs, _)| runs).sum();
    let wrong: u64 = done.iter().map(|(_, wrong)| wrong).sum();
    let numbers = json!({ "threads": threads, "checked": runs, "wrong": wrong });
    Ok(Seen::compared(runs, wrong, numbers))
}

const PRODUCTS: usize = 100;

const ROWS: usize = 4;
const INNER: usize = 128;
const COLUMNS: usize = 64;

/// A matrix on the device that all multiply with, and the same on the host. All is in integers so small that sums of their
/// products are exact in any order: results compare equal or are wrong.
struct Weights {
    on_device: Buffer,
    on_host: Vec<f32>,
}

impl Weights {
    /// The weights, ready on the device.
    fn new(stream: &Stream) -> streampool::Result<Weights> {
        let on_host = Noise::new(0).integers(INNER * COLUMNS);
        let mut on_device = stream.allocate(on_host.len() * DType::F32.size())?;
        stream.upload(&mut on_device, &on_host)?;
        stream.synchronize()?;
        Ok(Weights { on_device, on_host })
    }

    /// Multiplies the input that belongs to `seed` on `stream`; says whether the result is right.
    fn multiply(&self, stream: &Stream, seed: usize) -> streampool::Result<bool> {
        let x = Noise::new(seed as u64).integers(ROWS * INNER);
        let mut input = stream.allocate(x.len() * DType::F32.size())?;
        let mut output = stream.allocate(ROWS * COLUMNS * DType::F32.size())?;
        stream.upload(&mut input, &x)?;
        stream.encode(Op::MatMul(MatMul {
            a: input.read(DType::F32, &[ROWS, INNER])?,
            b: self.on_device.read(DType::F32, &[INNER, COLUMNS])?,
            out: output.write(DType::F32, &[ROWS, COLUMNS])?,
            bias: None,
            activation: Activation::None,
            alpha: 1.0,
        }))?;
        Ok(stream.download::<f32>(&output)? == product(&x, &self.on_host))
    }
}

fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; ROWS * COLUMNS];
    for (row, out) in a.chunks_exact(INNER).zip(out.chunks_exact_mut(COLUMNS)) {
        for (&x, b) in row.iter().zip(b.chunks_exact(COLUMNS)) {
            for (out, &y) in out.iter_mut().zip(b) {
                *out += x * y;
            }
        }
    }
    out
}

/// Many threads multiply at once with shared weights, and every product is checked.
fn multiply_all(stage: &Stage) -> Result<Seen> {
    let weights = Weights::new(stage.pool.current()?)?;
    let done = on_own_streams(&stage.pool, MOST_THREADS, |thread, stream| {
        let mut wrong = 0u64;
        for number in 0..PRODUCTS {
            let right = weights.multiply(stream, 1 + thread * PRODUCTS + number)?;
            wrong += u64::from(!right);
        }
        Ok((stream.index(), wrong))
    })?;
    let checked = (MOST_THREADS * PRODUCTS) as u64;
    let wrong: u64 = done.iter().map(|(_, wrong)| wrong).sum();
    let mut streams: Vec<u8> = done.iter().map(|&(stream, _)| stream).collect();
    streams.sort_unstable();
    streams.dedup();
    let numbers = json!({
        "threads": MOST_THREADS,
        "streams": streams.len(),
        "checked": checked,
        "wrong": wrong,
    });
    Ok(Seen {
        ok: wrong == 0 && streams.len() == MOST_THREADS,
        ..Seen::compared(checked, wrong, numbers)
    })
}

const CONSUMERS: usize = 3;
const HANDOVERS: usize = 1920;

/// Elements and bytes of one buffer, and the bytes of all.
const ELEMENTS: usize = 4096;
const BYTES: usize = ELEMENTS * DType::I32.size();
const HANDED: usize = HANDOVERS * BYTES;

/// Reads that a consumer has under way before it looks at what it read.
const UNDER_WAY: usize = 64;

// What is still under way at the end would go unchecked.
const _: () = assert!(HANDOVERS.is_multiple_of(UNDER_WAY));

/// How much later each op of a consumer executes.
const DELAY: Duration = Duration::from_micros(50);

/// A producer hands buffers to consumers that are slow, lets go of them at once, and goes on in the same memory.
fn hand_over(stage: &Stage) -> Result<Seen> {
    let panicked = |_| Failure::from("a thread panicked");
    let done: Result<_> = thread::scope(|scope| {
        let (mut senders, mut consumers) = (Vec::new(), Vec::new());
        for _ in 0..CONSUMERS {
            let (send, receive) = mpsc::sync_channel(UNDER_WAY);
            senders.push(send);
            consumers.push(scope.spawn(|| consume(stage, receive)));
        }
        let produced = scope.spawn(|| produce(&stage.pool, senders)).join();
        // All are joined, whatever became of the first.
        let consumed = consumers.into_iter().map(|consumer| consumer.join());
        let consumed: Vec<_> = consumed.collect();
        let memory = produced.map_err(panicked)??;
        let mut corrupted = 0;
        for one in consumed {
            corrupted += one.map_err(panicked)??;
        }
        Ok((corrupted, memory))
    });
    stage.device.injector().clear();
    let (corrupted, memory) = done?;
    let read = (HANDOVERS * CONSUMERS) as u64;
    Ok(Seen {
        // Otherwise there was room for all, and no memory had to be used twice.
        ok: corrupted == 0 && memory < HANDED,
        figures: format!(
            "{} checked, {} wrong, in {}",
            count(read),
            count(corrupted),
            bytes(memory)
        ),
        numbers: json!({
            "read": read,
            "corrupted": corrupted,
            "bytes_handed_over": HANDED,
            "bytes_of_memory": memory,
        }),
        drawn: vec![read - corrupted, corrupted],
    })
}

/// Fills buffer after buffer with its number, and gives each away; says how much memory the stream has for it.
fn produce(pool: &Pool, consumers: Vec<SyncSender<Arc<Buffer>>>) -> streampool::Result<usize> {
    let stream = pool.current()?;
    for number in 0..HANDOVERS {
        let mut buffer = stream.allocate(BYTES)?;
        stream.encode(Op::Fill {
            dst: buffer.write(DType::I32, &[ELEMENTS])?,
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
    let injector = stage.device.injector();
    injector.delay_queue(u32::from(stream.index()), DELAY);
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
            corrupted += count_corrupted(&stream.download::<i32>(&copies)?, first);
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

/// The stream that a fault hits, how many products each thread tries, and which of the victim's fails.
const VICTIM: u8 = 16;
const TRIES: usize = 40;
const FAILING: u64 = 20;

/// What one thread saw.
#[derive(Debug, Default)]
struct Outcome {
    stream: u8,
    faults: usize,
    recovered: usize,
    right: usize,
    wrong: usize,
}

/// A fault on one stream while all others work.
fn break_one(stage: &Stage) -> Result<Seen> {
    let weights = Weights::new(stage.pool.current()?)?;
    let injector = stage.device.injector();
    let target = OpMatcher::any()
        .on_queue(u32::from(VICTIM))
        .of_kind(OpKind::MatMul);
    injector.fail_op(target, FAILING, "injected by the story");
    let seen = on_own_streams(&stage.pool, MOST_THREADS, |thread, stream| {
        multiply(&weights, stream, thread)
    });
    injector.clear();
    let seen = seen?;
    let faulted: Vec<&Outcome> = seen.iter().filter(|seen| seen.faults > 0).collect();
    let wrong: usize = seen.iter().map(|seen| seen.wrong).sum();
    let right: usize = seen.iter().map(|seen| seen.right).sum();
    let recovered: usize = faulted.iter().map(|seen| seen.recovered).sum();
    let as_meant = match faulted[..] {
        [hit] => hit.stream == VICTIM && (hit.faults, hit.recovered) == (1, 1),
        _ => false,
    };
    // The one that failed is the one that is missing.
    let complete = right == MOST_THREADS * TRIES - 1;
    Ok(Seen {
        ok: as_meant && wrong == 0 && complete,
        figures: format!(
            "{} faulted, {recovered} recovered, {wrong} wrong",
            faulted.len()
        ),
        numbers: json!({
            "streams": MOST_THREADS,
            "faulted": faulted.len(),
            "recovered": recovered,
            "right": right,
            "wrong": wrong,
        }),
        drawn: vec![right as u64, wrong as u64],
    })
}

fn multiply(weights: &Weights, stream: &Stream, thread: usize) -> streampool::Result<Outcome> {
    let mut seen = Outcome {
        stream: stream.index(),
        ..Outcome::default()
    };
    for number in 0..TRIES {
        match weights.multiply(stream, 1 + thread * TRIES + number) {
            Ok(true) => seen.right += 1,
            Ok(false) => seen.wrong += 1,
            Err(error) if error.fault().is_some() => {
                seen.faults += 1;
                stream.recover()?;
                seen.recovered += usize::from(stream.fault().is_none());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

/// What is left in memory after all of it. The pool keeps memory for the next who asks; trimmed, it gives all of it back.
fn count_leftover(stage: &Stage) -> Result<Seen> {
    stage.pool.synchronize()?;
    let memory = stage.pool.snapshot()?.memory;
    let trimmed = stage.pool.trim()?;
    let held = stage.device.memory_use().in_use;
    Ok(Seen {
        ok: memory.in_use == 0 && memory.pending == 0 && held == 0,
        figures: format!(
            "{} in buffers, {} once trimmed",
            bytes(memory.in_use + memory.pending),
            bytes(held)
        ),
        numbers: json!({
            "in_use": memory.in_use,
            "pending": memory.pending,
            "given_back": trimmed,
            "kept": held,
        }),
        ..Seen::default()
    })
}

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

    #[test]
    fn the_reference_multiplies() {
        let mut a = vec![0.0; ROWS * INNER];
        a[0] = 2.0;
        a[INNER + 1] = 3.0;
        let b: Vec<f32> = (0..INNER * COLUMNS).map(|i| (i % 10) as f32).collect();
        let out = product(&a, &b);
        assert_eq!(out[5], 2.0 * b[5]);
        assert_eq!(out[COLUMNS + 5], 3.0 * b[COLUMNS + 5]);
        assert_eq!(out[2 * COLUMNS + 5], 0.0);
    }
}
