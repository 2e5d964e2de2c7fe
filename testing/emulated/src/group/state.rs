//! A group and its threads: what each waits for, what may be touched, and the shared arrays.

use std::ffi::c_void;

use crate::fiber::Suspended;
use crate::guarded::{Guarded, POISON, is_poisoned};
use crate::machine::{Machine, Range, Run};

pub const WARP: usize = 32;
/// What lies beside each shared array, for nobody to write.
pub const GAP: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    Ready,
    /// At the barrier of this line.
    Barrier(u32),
    /// In an exchange with the threads of a mask.
    Exchange {
        kind: u32,
        mask: u32,
    },
    Ended,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            State::Ready => f.write_str("can run"),
            State::Barrier(line) => write!(f, "waits at the barrier of line {line}"),
            State::Exchange { kind, mask } => {
                let name = [
                    "",
                    "shuffle_xor",
                    "shuffle_up",
                    "shuffle_down",
                    "shuffle",
                    "vote",
                    "syncwarp",
                    "making of a matrix",
                    "matrix load",
                    "matrix store",
                    "matrix product",
                ];
                let name = name.get(*kind as usize).copied().unwrap_or("exchange");
                write!(f, "waits in a {name} of mask {mask:#x}")
            }
            State::Ended => f.write_str("has ended"),
        }
    }
}

pub struct Thread {
    pub state: State,
    pub suspended: Suspended,
    /// Shared arrays that it has asked for.
    pub arrays: usize,
}

/// The group that runs, and its machine first: the calls of a kernel get the address of that.
#[repr(C)]
pub struct Group {
    pub machine: Machine,
    pub run: Run,
    pub addresses: Vec<*mut u8>,
    pub lengths: *const u64,
    pub shared_bytes: usize,
    /// What may be touched: the buffers, and then what is the machine's own.
    pub ranges: Vec<Range>,
    pub scheduler: Suspended,
    pub current: usize,
    pub threads: Vec<Thread>,
    /// What each thread gives to an exchange, and what its warp's last exchange gave to all.
    pub given: Vec<u64>,
    pub exchanged: Vec<u64>,
    pub shared: Guarded,
    /// Where each shared array lies in that, and how long it is.
    pub arrays: Vec<(usize, usize)>,
    pub failure: Option<String>,
}

impl Group {
    /// Now that the group lies where it stays.
    pub fn may_touch_its_own(&mut self, stacks: Range) {
        let machine = Range::of((&raw const self.machine).cast(), size_of::<Machine>());
        let shared = self.shared.bytes();
        let shared = Range::of(shared.as_ptr(), shared.len());
        self.ranges.extend([machine, shared, stacks]);
        self.machine.ranges = self.ranges.as_ptr();
        self.machine.range_count = self.ranges.len() as u64;
    }

    /// Where an access lies that is beside all memory that may be touched.
    pub fn place(&self, at: *const u8, bytes: u64) -> String {
        let buffers = self.ranges.iter().take(self.addresses.len());
        let distance = |range: &Range| match at < range.begin {
            true => (range.begin.addr() - at.addr(), "before it begins"),
            false => (at.addr().saturating_sub(range.end.addr()), "after its end"),
        };
        let nearest = buffers
            .enumerate()
            .map(|(number, range)| (distance(range), number))
            .min();
        match nearest {
            Some(((distance, side), number)) => format!(
                "{bytes} bytes are touched that it was not given, {distance} bytes from buffer {number}, {side}"
            ),
            None => format!("{bytes} bytes are touched, and it has no buffers"),
        }
    }

    pub fn prepare(
        &mut self,
        place: [u32; 3],
        count: usize,
        mut fiber: impl FnMut(usize) -> Suspended,
    ) {
        self.machine.block = place.into();
        self.arrays.clear();
        self.shared.bytes_mut().fill(POISON);
        self.threads.clear();
        self.threads.extend((0..count).map(|number| Thread {
            state: State::Ready,
            suspended: fiber(number),
            arrays: 0,
        }));
    }

    /// Puts into `ready` the threads of a warp that can run, those included whose exchange all have come to.
    pub fn ready(&mut self, warp: usize, ready: &mut Vec<usize>) {
        let first = warp * WARP;
        let members = first..self.threads.len().min(first + WARP);
        ready.clear();
        ready.extend(
            members
                .clone()
                .filter(|&number| self.threads[number].state == State::Ready),
        );
        if !ready.is_empty() {
            return;
        }
        // Those that were looked at, as a mask.
        let mut seen = 0u32;
        for number in members.clone() {
            let state = self.threads[number].state;
            let State::Exchange { mask, .. } = state else {
                continue;
            };
            if seen >> (number - first) & 1 != 0 {
                continue;
            }
            let there = members
                .clone()
                .filter(|&other| self.threads[other].state == state)
                .fold(0u32, |there, other| there | 1 << (other - first));
            seen |= there;
            // What is beyond a short warp is waited for by nobody.
            let warp = u32::MAX >> (WARP - members.len());
            if mask & warp & !there == 0 {
                ready.extend(
                    members
                        .clone()
                        .filter(|number| there >> (number - first) & 1 != 0),
                );
            }
        }
        for &number in &*ready {
            self.threads[number].state = State::Ready;
            self.exchanged[number] = self.given[number];
        }
    }

    /// Lets all pass the barrier that all are at. Whether the group has ended instead.
    pub fn pass_barrier(&mut self) -> Result<bool, String> {
        let first = self.threads[0].state;
        if let Some(other) = self.threads.iter().position(|thread| thread.state != first) {
            return Err(format!(
                "threads went apart: thread 0 {first}, and thread {other} {}",
                self.threads[other].state
            ));
        }
        match first {
            State::Ended => return Ok(true),
            State::Barrier(_) => {}
            State::Ready | State::Exchange { .. } => {
                return Err(format!("no thread can go on: each {first}"));
            }
        }
        self.threads
            .iter_mut()
            .for_each(|thread| thread.state = State::Ready);
        Ok(false)
    }

    /// Fails if somebody wrote beside a shared array.
    pub fn check_shared(&self) -> Result<(), String> {
        self.shared.check("shared memory")?;
        let bytes = self.shared.bytes();
        let mut end = 0;
        for (number, &(start, length)) in self.arrays.iter().enumerate() {
            if !is_poisoned(&bytes[end..start]) {
                return Err(format!(
                    "shared memory is written just before array {number}"
                ));
            }
            end = start + length;
        }
        match is_poisoned(&bytes[end..]) {
            true => Ok(()),
            false => Err("shared memory is written after the last array".to_owned()),
        }
    }

    pub fn array(&mut self, bytes: usize) -> Result<*mut c_void, String> {
        let thread = &mut self.threads[self.current];
        let number = thread.arrays;
        thread.arrays += 1;
        if number == self.arrays.len() {
            let end = self
                .arrays
                .last()
                .map_or(0, |(start, length)| start + length);
            let start = (end + GAP).next_multiple_of(GAP);
            let taken = self.arrays.iter().map(|(_, length)| length).sum::<usize>() + bytes;
            if taken > self.shared_bytes || start + bytes > self.shared.bytes().len() {
                let most = self.shared_bytes;
                return Err(format!(
                    "shared arrays take {taken} bytes, and there are {most}"
                ));
            }
            self.arrays.push((start, bytes));
        }
        let (start, length) = self.arrays[number];
        if length != bytes {
            return Err(format!(
                "threads ask for {length} and for {bytes} shared bytes"
            ));
        }
        // SAFETY: the array lies in that memory.
        Ok(unsafe { self.shared.address().add(start) }.cast())
    }
}
