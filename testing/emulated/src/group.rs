//! The threads of a group, one after the other on one thread of the CPU.
//!
//! A thread runs until it has to wait for others. Which goes first is drawn: warps and the threads of each come in
//! another order each time, and a warp runs as far as it comes, so that results show where a barrier is missing.

#[cfg_attr(sanitize_address, sanitize(address = "off"))]
mod calls;

use std::ffi::c_void;

use crate::fiber::{Stacks, Suspended, switch};
use crate::guarded::{Guarded, POISON, is_poisoned};
use crate::machine::{Machine, Range, Run};
use crate::random::Random;

const WARP: usize = 32;
/// Bytes of what atomic functions exchange.
const WORD: usize = 4;
/// What lies beside each shared array, for nobody to write.
const GAP: usize = 256;

/// Memory that a kernel is given, by an address in it.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    pub address: *mut u8,
    /// Bytes before the address.
    pub before: usize,
    /// Bytes from the address on.
    pub bytes: usize,
}

/// The words that a buffer has a part of: memory is allocated in no less, and a kernel may exchange a whole one for the
/// sake of its part.
fn words(buffer: &Bound) -> Range {
    let first = buffer.address.wrapping_sub(buffer.before);
    let more = first.addr() % WORD;
    let bytes = (more + buffer.before + buffer.bytes).next_multiple_of(WORD);
    Range::of(first.wrapping_sub(more), bytes)
}

/// A launch, as each of its groups sees it.
pub struct Launch<'a> {
    pub run: Run,
    pub groups: [u32; 3],
    pub threads: [u32; 3],
    pub buffers: &'a [Bound],
    /// Bytes of the shared arrays that the launch brings, beside those that the kernel names.
    pub lengths: &'a [u64],
    /// The most bytes that its shared arrays may take.
    pub shared_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
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

struct Thread {
    state: State,
    suspended: Suspended,
    /// Shared arrays that it has asked for.
    arrays: usize,
}

/// The group that runs, and its machine first: the calls of a kernel get the address of that.
#[repr(C)]
struct Group {
    machine: Machine,
    run: Run,
    addresses: Vec<*mut u8>,
    lengths: *const u64,
    shared_bytes: usize,
    /// What may be touched: the buffers, and then what is the machine's own.
    ranges: Vec<Range>,
    scheduler: Suspended,
    current: usize,
    threads: Vec<Thread>,
    /// What each thread gives to an exchange, and what its warp's last exchange gave to all.
    given: Vec<u64>,
    exchanged: Vec<u64>,
    shared: Guarded,
    /// Where each shared array lies in that, and how long it is.
    arrays: Vec<(usize, usize)>,
    failure: Option<String>,
}

/// Runs all groups of a launch, in an order that `random` draws.
pub fn run(launch: &Launch, random: &mut Random) -> Result<(), String> {
    let count = launch.threads.iter().product::<u32>() as usize;
    let machine = Machine {
        thread: [0; 3].into(),
        block: [0; 3].into(),
        threads: launch.threads.into(),
        blocks: launch.groups.into(),
        number: 0,
        barrier: calls::barrier,
        exchange: calls::exchange,
        shared: calls::shared,
        fail: calls::fail,
        astray: calls::astray,
        ranges: std::ptr::null(),
        range_count: 0,
    };
    let mut stacks = Stacks::take(count);
    let buffers = launch.buffers.iter();
    let group = Box::into_raw(Box::new(Group {
        machine,
        run: launch.run,
        addresses: buffers.clone().map(|buffer| buffer.address).collect(),
        lengths: launch.lengths.as_ptr(),
        shared_bytes: launch.shared_bytes,
        ranges: buffers.map(words).collect(),
        scheduler: Suspended::NOWHERE,
        current: 0,
        threads: Vec::with_capacity(count),
        given: vec![0; count],
        exchanged: vec![0; count.next_multiple_of(WARP)],
        shared: Guarded::new(launch.shared_bytes + 16 * GAP, 0),
        arrays: Vec::new(),
        failure: None,
    }));
    // SAFETY: the group is ours, and no fiber of it runs.
    unsafe { &mut *group }.may_touch_its_own(stacks.range());
    let [x, y, z] = launch.groups;
    let mut places: Vec<[u32; 3]> = (0..z)
        .flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z])))
        .collect();
    random.shuffle(&mut places);
    let outcome = places.into_iter().try_for_each(|place| {
        // SAFETY: the group is ours, and no fiber of it runs.
        unsafe { run_group(group, place, count, &mut stacks, random) }
            .map_err(|why| format!("group {place:?}: {why}"))
    });
    // SAFETY: it came from a box, and no fiber goes on.
    drop(unsafe { Box::from_raw(group) });
    if outcome.is_ok() {
        stacks.put_back();
    }
    outcome
}

/// # Safety
/// `group` is alive and nobody else uses it.
unsafe fn run_group(
    group: *mut Group,
    place: [u32; 3],
    count: usize,
    stacks: &mut Stacks,
    random: &mut Random,
) -> Result<(), String> {
    // SAFETY: as the caller says; fibers use it only while this waits in `switch`, where no borrow is held.
    unsafe { &mut *group }.prepare(place, count, |number| {
        stacks.fiber(number, calls::main, group.cast())
    });
    let mut warps: Vec<usize> = (0..count.div_ceil(WARP)).collect();
    loop {
        random.shuffle(&mut warps);
        for &warp in &warps {
            loop {
                // SAFETY: as above.
                let mut ready = unsafe { &mut *group }.ready(warp);
                if ready.is_empty() {
                    break;
                }
                random.shuffle(&mut ready);
                for number in ready {
                    // SAFETY: as above; the thread is suspended.
                    unsafe { resume(group, number) }?;
                    if !stacks.holds(number) {
                        return Err(format!("thread {number} needs a longer stack"));
                    }
                }
            }
        }
        // SAFETY: as above.
        if unsafe { &mut *group }.pass_barrier()? {
            break;
        }
    }
    // SAFETY: as above.
    unsafe { &*group }.check_shared()
}

/// Lets a thread run until it waits or ends.
///
/// # Safety
/// `group` is alive, and the thread is suspended.
unsafe fn resume(group: *mut Group, number: usize) -> Result<(), String> {
    // SAFETY: the borrow ends before the switch.
    let (from, to) = unsafe {
        let group = &mut *group;
        group.current = number;
        group.machine.at(number as u32);
        (&raw mut group.scheduler, group.threads[number].suspended)
    };
    // SAFETY: the thread is suspended and its stack is alive.
    unsafe { switch(from, to) };
    // SAFETY: the thread is suspended again.
    match unsafe { &mut *group }.failure.take() {
        Some(why) => Err(format!("thread {number}: {why}")),
        None => Ok(()),
    }
}

impl Group {
    /// Now that the group lies where it stays.
    fn may_touch_its_own(&mut self, stacks: Range) {
        let machine = Range::of((&raw const self.machine).cast(), size_of::<Machine>());
        let shared = self.shared.bytes();
        let shared = Range::of(shared.as_ptr(), shared.len());
        self.ranges.extend([machine, shared, stacks]);
        self.machine.ranges = self.ranges.as_ptr();
        self.machine.range_count = self.ranges.len() as u64;
    }

    /// Where an access lies that is beside all memory that may be touched.
    fn place(&self, at: *const u8, bytes: u64) -> String {
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

    fn prepare(
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

    /// The threads of a warp that can run, those included whose exchange all have come to.
    fn ready(&mut self, warp: usize) -> Vec<usize> {
        let first = warp * WARP;
        let members = first..self.threads.len().min(first + WARP);
        let ready: Vec<usize> = members
            .clone()
            .filter(|&number| self.threads[number].state == State::Ready)
            .collect();
        if !ready.is_empty() {
            return ready;
        }
        let mut released = Vec::new();
        for number in members.clone() {
            let state = self.threads[number].state;
            let State::Exchange { mask, .. } = state else {
                continue;
            };
            let there = |number: usize| self.threads[number].state == state;
            if members
                .clone()
                .filter(|number| mask >> (number - first) & 1 != 0)
                .all(there)
            {
                released.push(number);
            }
        }
        for &number in &released {
            self.threads[number].state = State::Ready;
            self.exchanged[number] = self.given[number];
        }
        released
    }

    /// Lets all pass the barrier that all are at. Whether the group has ended instead.
    fn pass_barrier(&mut self) -> Result<bool, String> {
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
    fn check_shared(&self) -> Result<(), String> {
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

    fn array(&mut self, bytes: usize) -> Result<*mut c_void, String> {
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
