//! Threads in a ring, each handing what it computed to the next, which reads it on a stream of its own: every
//! result is checked, and nothing may be left over.

mod work;

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use serde::Serialize;
use streampool::{Lease, Pool, Stream};

use crate::crew::Crew;
use crate::text::count;
use crate::{Failure, Result};
use work::{Parcel, Shared};

/// Ops that each thread computes for the next.
const OPS: usize = 1000;

/// What became of it.
#[derive(Debug, Serialize)]
pub struct Sharing {
    threads: usize,
    ops_each: usize,
    /// Results that were compared.
    checked: u64,
    /// Of these, not what the host says.
    wrong: u64,
    /// Ops that failed.
    faults: u64,
    /// Whether buffers and device memory are what they were before.
    memory_restored: bool,
    /// Whether all of it is as it should be.
    pub met: bool,
    seconds: f64,
}

impl Sharing {
    /// What a run comes to in which all is as it should be.
    #[cfg(test)]
    pub fn of_a_good_run() -> Sharing {
        Sharing {
            threads: 31,
            ops_each: OPS,
            checked: 31_000,
            wrong: 0,
            faults: 0,
            memory_restored: true,
            met: true,
            seconds: 1.5,
        }
    }

    /// It in two lines.
    pub fn lines(&self) -> String {
        let memory = match self.memory_restored {
            true => "memory as before",
            false => "MEMORY NOT AS BEFORE",
        };
        format!(
            "{} threads, {} ops each, shared across streams:\n{} checked, {} wrong, {} faults, {memory}: {}",
            self.threads,
            count(self.ops_each as u64),
            count(self.checked),
            count(self.wrong),
            count(self.faults),
            if self.met { "ok" } else { "FAILED" },
        )
    }
}

/// Has all threads of the crew share.
pub fn share(crew: &Crew) -> Result<Sharing> {
    ring(&crew.pool, &crew.streams, OPS)
}

/// What one thread saw.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    checked: u64,
    wrong: u64,
    faults: u64,
}

fn ring(pool: &Pool, streams: &[Lease], ops: usize) -> Result<Sharing> {
    let first = streams.first().ok_or("there is no stream")?;
    let shared = &Shared::new(first)?;
    let begin = Instant::now();
    let before = at_rest(pool)?;
    let (senders, mut receivers): (Vec<_>, Vec<_>) =
        streams.iter().map(|_| mpsc::channel()).unzip();
    // Each thread receives what the one before it sends.
    receivers.rotate_right(1);
    let seen = thread::scope(|scope| {
        let threads: Vec<_> = (0..streams.len())
            .zip(streams)
            .zip(senders.into_iter().zip(receivers))
            .map(|((number, stream), (next, previous))| {
                scope.spawn(move || {
                    pool.with_stream(stream, || link(shared, stream, number, ops, next, previous))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let seen = thread.join();
                Ok(seen.map_err(|_| Failure::from("a thread panicked"))??)
            })
            .collect::<Result<Vec<Seen>>>()
    })?;
    let (in_buffers, reserved) = at_rest(pool)?;
    let memory_restored = in_buffers == before.0 && reserved <= before.1;
    let total = |part: fn(&Seen) -> u64| seen.iter().map(part).sum::<u64>();
    let (checked, wrong) = (total(|seen| seen.checked), total(|seen| seen.wrong));
    let faults = total(|seen| seen.faults);
    Ok(Sharing {
        threads: streams.len(),
        ops_each: ops,
        checked,
        wrong,
        faults,
        memory_restored,
        met: checked == (streams.len() * ops) as u64 && wrong + faults == 0 && memory_restored,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Bytes in buffers, and bytes taken from the device once what is idle has been given back.
fn at_rest(pool: &Pool) -> Result<(usize, usize)> {
    pool.synchronize()?;
    pool.trim()?;
    let memory = pool.snapshot()?.memory;
    Ok((memory.in_use + memory.pending, memory.reserved))
}

/// One thread of the ring.
fn link(
    shared: &Shared,
    stream: &Stream,
    number: usize,
    ops: usize,
    next: Sender<Option<Parcel>>,
    previous: Receiver<Option<Parcel>>,
) -> Seen {
    let mut seen = Seen::default();
    for op in 0..ops {
        let parcel = shared.make(stream, (number * ops + op) as u64);
        // What failed is counted where it did; the next thread is told so as not to wait for it.
        let _ = next.send(good(stream, parcel, &mut seen));
        match previous.recv() {
            Ok(None) => {}
            Ok(Some(parcel)) => {
                let right = shared.check(stream, parcel);
                if let Some(right) = good(stream, right, &mut seen) {
                    seen.checked += 1;
                    seen.wrong += u64::from(!right);
                }
            }
            // Whoever was before is gone, and says why itself.
            Err(_) => break,
        }
    }
    seen
}

/// What came out, if anything did; a failure is counted, and the stream made usable again.
fn good<T>(stream: &Stream, outcome: streampool::runtime::Result<T>, seen: &mut Seen) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(_) => {
            seen.faults += 1;
            // If that fails as well, so will what comes next.
            let _ = stream.recover();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_on_the_host_gets_everything_right() {
        let pool = streampool::host_pool().unwrap();
        let streams: Vec<Lease> = (0..5).map(|_| pool.lease().unwrap()).collect();
        let sharing = ring(&pool, &streams, 40).unwrap();
        assert!(sharing.met, "{sharing:?}");
        assert_eq!(sharing.checked, 200);
        assert!(sharing.lines().ends_with("memory as before: ok"));
    }
}
