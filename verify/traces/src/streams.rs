//! Threads that share a block on three streams: the scenario of `Streams.tla`. The runtime is the shipped one, whole; what is seen is what it
//! gives its device, and how far that is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, RwLock};

use device::{Access, Span};
use streampool_runtime::{Buffer, DType, Op, Pool, Stream};

use crate::fake::{self, Command, Given, below, sow};

/// As in the graph.
const STREAMS: usize = 3;

/// Waits show with the op that they are for.
fn show(given: &Given) -> String {
    let all = &given.commands;
    let last = all
        .iter()
        .rposition(|command| !matches!(command, Command::Wait(..)));
    let all = all[..last.map_or(0, |last| last + 1)].iter();
    let all: String = all
        .map(|command| match command {
            Command::Op(shown) => shown.clone(),
            Command::Mark => "m".to_owned(),
            Command::Wait(stream, tick) => format!("({stream}.{tick})"),
        })
        .collect();
    format!("{all}/{}", given.done)
}

fn op(access: Access, _: usize) -> String {
    match access {
        Access::Read => "r",
        Access::Write => "w",
    }
    .to_owned()
}

/// The block as its users have it: lent to all who read or to one who writes; or free.
struct Block {
    buffer: Option<Buffer>,
    is_written: bool,
    span: Span,
    /// Other memory that was given instead, because the block is still in use.
    others: Vec<Buffer>,
}

/// What one thread does with the block on its stream.
fn uses(pool: &Pool, stream: &Stream, block: &RwLock<Block>, ops: &AtomicUsize, most: usize) {
    let mut own = stream.allocate(256).unwrap();
    let begins = || {
        let more = |count| (count < most).then_some(count + 1);
        ops.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    };
    for _ in 0..12 {
        (0..below(4)).for_each(|_| std::thread::yield_now());
        match below(8) {
            0..3 => {
                let Ok(mut block) = block.try_write() else {
                    continue;
                };
                if let Some(buffer) = &mut block.buffer
                    && begins()
                {
                    let dst = buffer.write(DType::F32, &[64]).unwrap();
                    let value = 1.0.into();
                    stream.encode(Op::Fill { dst, value }).unwrap();
                    block.is_written = true;
                }
            }
            3..6 => {
                let Ok(block) = block.try_read() else {
                    continue;
                };
                if let Some(buffer) = block.buffer.as_ref().filter(|_| block.is_written)
                    && begins()
                {
                    let src = buffer.read(DType::F32, &[64]).unwrap();
                    let dst = own.write(DType::F32, &[64]).unwrap();
                    stream.encode(Op::Copy { src, dst }).unwrap();
                }
            }
            6 => {
                let Ok(mut block) = block.try_write() else {
                    continue;
                };
                if ops.load(Ordering::Relaxed) < most {
                    block.buffer = None;
                    block.is_written = false;
                }
            }
            _ => {
                let Ok(mut block) = block.try_write() else {
                    continue;
                };
                if block.buffer.is_none() {
                    let buffer = pool.stream(1).unwrap().allocate(256).unwrap();
                    match buffer.span() == block.span {
                        true => block.buffer = Some(buffer),
                        false => block.others.push(buffer),
                    }
                }
            }
        }
    }
}

/// One execution of so many ops: all that was seen.
pub fn execution(seed: u64, most: usize) -> Vec<String> {
    sow(seed);
    let (pool, shared) = fake::pool(STREAMS, seed % 3, op, show);
    let streams: Vec<&Stream> = (1..=STREAMS)
        .map(|index| pool.stream(index).unwrap())
        .collect();
    let buffer = streams[0].allocate(256).unwrap();
    let span = buffer.span();
    let block = RwLock::new(Block {
        buffer: Some(buffer),
        is_written: false,
        span,
        others: Vec::new(),
    });
    let ops = AtomicUsize::new(0);
    shared.begin(vec![span], 0);
    let together = Barrier::new(STREAMS);
    std::thread::scope(|scope| {
        for &stream in &streams {
            let (pool, block, ops, together) = (&pool, &block, &ops, &together);
            scope.spawn(move || {
                sow(seed * 4 + u64::from(stream.index()));
                together.wait();
                pool.with_stream(stream, || uses(pool, stream, block, ops, most))
                    .unwrap();
            });
        }
    });
    shared.end()
}
