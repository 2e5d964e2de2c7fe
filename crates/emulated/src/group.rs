//! The threads of a group, one after the other on one thread of the CPU.
//!
//! A thread runs until it has to wait for others. Which goes first is drawn: warps and the threads of each come in
//! another order each time, and a warp runs as far as it comes, so that results show where a barrier is missing.

use std::ffi::{CStr, c_char, c_void};

use crate::fiber::{Stacks, Suspended, switch};
use crate::guarded::{Guarded, POISON, is_poisoned};
use crate::machine::{Machine, Run};
use crate::random::Random;

const WARP: usize = 32;
/// What lies beside each shared array, for nobody to write.
const GAP: usize = 256;

/// A launch, as each of its groups sees it.
pub struct Launch<'a> {
    pub run: Run,
    pub groups: [u32; 3],
    pub threads: u32,
    pub buffers: &'a [*mut u8],
    pub params: &'a [u8],
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
    buffers: *const *mut u8,
    params: *const u8,
    shared_bytes: usize,
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
    let count = launch.threads as usize;
    let machine = Machine {
        thread: [0; 3].into(),
        block: [0; 3].into(),
        threads: [launch.threads, 1, 1].into(),
        blocks: launch.groups.into(),
        barrier,
        exchange,
        shared,
        fail,
    };
    let group = Box::into_raw(Box::new(Group {
        machine,
        run: launch.run,
        buffers: launch.buffers.as_ptr(),
        params: launch.params.as_ptr(),
        shared_bytes: launch.shared_bytes,
        scheduler: Suspended::NOWHERE,
        current: 0,
        threads: Vec::with_capacity(count),
        given: vec![0; count],
        exchanged: vec![0; count],
        shared: Guarded::new(launch.shared_bytes + 16 * GAP, 0),
        arrays: Vec::new(),
        failure: None,
    }));
    let mut stacks = Stacks::take(count);
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
        stacks.fiber(number, main, group.cast())
    });
    let mut warps: Vec<usize> = (0..count / WARP).collect();
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
        group.machine.thread.x = number as u32;
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
        let ready: Vec<usize> = (first..first + WARP)
            .filter(|&number| self.threads[number].state == State::Ready)
            .collect();
        if !ready.is_empty() {
            return ready;
        }
        let mut released = Vec::new();
        for number in first..first + WARP {
            let state = self.threads[number].state;
            let State::Exchange { mask, .. } = state else {
                continue;
            };
            let there = |lane: &usize| self.threads[first + lane].state == state;
            if (0..WARP)
                .filter(|lane| mask >> lane & 1 != 0)
                .all(|lane| there(&lane))
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

/// The whole life of a thread.
extern "C" fn main(argument: *mut c_void) -> ! {
    let group = argument.cast::<Group>();
    // SAFETY: the group is alive while its fibers run, and nothing of it is borrowed while the kernel runs.
    unsafe {
        let (run, buffers, params) = ((*group).run, (*group).buffers, (*group).params);
        run(group.cast(), buffers, params);
    }
    leave(group)
}

/// Ends the thread that runs.
fn leave(group: *mut Group) -> ! {
    // SAFETY: as in `main`.
    unsafe { suspend(group, State::Ended) };
    unreachable!("an ended thread is not resumed")
}

/// Suspends the thread that runs.
///
/// # Safety
/// `group` is that of the thread.
unsafe fn suspend(group: *mut Group, state: State) {
    // SAFETY: the borrow ends before the switch, and the scheduler is suspended while a thread runs.
    unsafe {
        let (from, to) = {
            let group = &mut *group;
            let thread = &mut group.threads[group.current];
            thread.state = state;
            (&raw mut thread.suspended, group.scheduler)
        };
        switch(from, to);
    }
}

/// Ends the thread that runs, and with it the group.
fn fail_with(group: *mut Group, why: String) -> ! {
    // SAFETY: as in `main`.
    unsafe { (*group).failure = Some(why) };
    leave(group)
}

extern "C" fn barrier(machine: *mut Machine, line: u32) {
    // SAFETY: a kernel passes on the machine it was given, which is the first of a group.
    unsafe { suspend(machine.cast(), State::Barrier(line)) };
}

extern "C" fn exchange(machine: *mut Machine, kind: u32, mask: u32, value: u64) -> *const u64 {
    let group = machine.cast::<Group>();
    // SAFETY: as in `barrier`; the borrow ends before the switch.
    let lane = unsafe {
        let group = &mut *group;
        group.given[group.current] = value;
        group.current % WARP
    };
    if mask >> lane & 1 == 0 {
        fail_with(
            group,
            format!("it is not in the mask of its own exchange, {mask:#x}"),
        );
    }
    // SAFETY: as in `barrier`.
    unsafe {
        suspend(group, State::Exchange { kind, mask });
        let group = &mut *group;
        group.exchanged.as_ptr().add(group.current / WARP * WARP)
    }
}

extern "C" fn shared(machine: *mut Machine, bytes: u64) -> *mut c_void {
    let group = machine.cast::<Group>();
    // SAFETY: as in `barrier`.
    match unsafe { &mut *group }.array(bytes as usize) {
        Ok(array) => array,
        Err(why) => fail_with(group, why),
    }
}

extern "C" fn fail(machine: *mut Machine, why: *const c_char, line: u32) {
    // SAFETY: kernels pass a string that ends with a zero.
    let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
    let place = match line {
        0 => String::new(),
        line => format!(" in line {line}"),
    };
    fail_with(machine.cast(), format!("{why}{place}"))
}
