//! Two threads and a device that fails: the scenario of `Faults.tla`. One thread's stream faults and is recovered, the other's uses what
//! that one made. What is seen is what the device is given and does, and what each thread is told.

use std::sync::{Barrier, RwLock};

use device::Access;
use streampool_runtime::{Buffer, DType, Error, Op, Stream};

use crate::fake::{self, Command, Given, Shared, below, sow};

/// As in the graph: commands of each stream, and faults.
const TICKS: usize = 3;
const FAULTS: usize = 2;

/// Only ops show, and have the numbers that ticks have in the specification.
fn show(given: &Given) -> String {
    let ops = |commands: &[Command]| {
        let is_op = |command: &&Command| matches!(command, Command::Op(_));
        commands.iter().filter(is_op).count()
    };
    let shown = given.commands.iter().filter_map(|command| match command {
        Command::Op(shown) => Some(&shown[..]),
        _ => None,
    });
    let shown: String = shown.collect();
    let poison = given
        .fault
        .as_ref()
        .map_or(0, |fault| ops(&given.commands[..fault.tick() as usize]));
    let done = ops(&given.commands[..given.done as usize]);
    format!("{shown}/{done}!{poison}{}", given.heard)
}

fn op(access: Access, block: usize) -> String {
    match access {
        Access::Write => "e".to_owned(),
        Access::Read => format!("({})", block + 1),
    }
}

/// A thread and its stream.
struct User<'a> {
    stream: &'a Stream,
    shared: &'a Shared,
    /// Ops, and those that it was told of.
    count: usize,
    told: usize,
}

impl User<'_> {
    fn heard(&self, what: &'static str) {
        self.shared.with(|seen| {
            seen.queues[usize::from(self.stream.index())].heard = what;
            seen.note();
        });
    }

    fn synchronizes(&mut self) -> Result<(), Error> {
        if self.told == self.count {
            return Ok(());
        }
        self.told = self.count;
        let told = self.stream.synchronize();
        self.heard(if told.is_ok() { "good" } else { "fault" });
        told
    }

    /// Makes the next block.
    fn makes(&mut self, blocks: &[RwLock<(Buffer, bool)>]) {
        let Some(block) = blocks.get(self.count) else {
            return;
        };
        let mut block = block.write().unwrap();
        let dst = block.0.write(DType::F32, &[64]).unwrap();
        let value = 1.0.into();
        if self.stream.encode(Op::Fill { dst, value }).is_ok() {
            block.1 = true;
            self.count += 1;
        }
    }

    /// Uses a block that was made.
    fn uses(&mut self, blocks: &[RwLock<(Buffer, bool)>], own: &mut Buffer) {
        let block = &blocks[below(TICKS as u64) as usize];
        let block = block.read().unwrap();
        if !block.1 || self.count == TICKS {
            return;
        }
        let src = block.0.read(DType::F32, &[64]).unwrap();
        let dst = own.write(DType::F32, &[64]).unwrap();
        match self.stream.encode(Op::Copy { src, dst }) {
            Ok(_) => self.count += 1,
            Err(_) => self.heard("refused"),
        }
    }
}

/// One execution: all that was seen.
pub fn execution(seed: u64) -> Vec<String> {
    sow(seed);
    let (pool, shared) = fake::pool(2, 1 + seed % 3, op, show);
    let streams = [1, 2].map(|index| pool.stream(index).unwrap());
    let blocks: Vec<_> = (0..TICKS)
        .map(|_| RwLock::new((streams[0].allocate(256).unwrap(), false)))
        .collect();
    let mut own = streams[1].allocate(256).unwrap();
    let spans = blocks.iter().map(|block| block.read().unwrap().0.span());
    shared.begin(spans.collect(), FAULTS);
    let together = Barrier::new(2);
    let user = |stream: usize| User {
        stream: streams[stream],
        shared: &shared,
        count: 0,
        told: 0,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sow(seed * 4 + 1);
            let mut user = user(0);
            together.wait();
            for _ in 0..12 {
                match below(3) {
                    0 if user.synchronizes().is_err() => user.stream.recover().unwrap(),
                    0 => {}
                    _ => user.makes(&blocks),
                }
            }
        });
        scope.spawn(|| {
            sow(seed * 4 + 2);
            let mut user = user(1);
            together.wait();
            for _ in 0..16 {
                match below(4) {
                    0 => drop(user.synchronizes()),
                    _ => user.uses(&blocks, &mut own),
                }
            }
        });
    });
    shared.end()
}
