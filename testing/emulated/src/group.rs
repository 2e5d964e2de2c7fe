//! The threads of a group, one after the other on one thread of the CPU.
//!
//! A thread runs until it has to wait for others. Which goes first is drawn: warps and the threads of each come in
//! another order each time, and a warp runs as far as it comes, so that results show where a barrier is missing.

#[cfg_attr(sanitize_address, sanitize(address = "off"))]
mod calls;
mod state;

use crate::fiber::{Stacks, Suspended, switch};
use crate::guarded::Guarded;
use crate::machine::{Machine, Range, Run};
use crate::random::Random;
use state::{GAP, Group, State, WARP};

/// Bytes of what atomic functions exchange.
const WORD: usize = 4;

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
    let mut ready = Vec::with_capacity(WARP);
    loop {
        random.shuffle(&mut warps);
        for &warp in &warps {
            loop {
                // SAFETY: as above.
                unsafe { &mut *group }.ready(warp, &mut ready);
                if ready.is_empty() {
                    break;
                }
                random.shuffle(&mut ready);
                for &number in &ready {
                    // SAFETY: as above; the thread is suspended.
                    let state = unsafe { resume(group, number) }?;
                    // Exchanges are many, and the end of a stack is far from all that is at hand.
                    if !matches!(state, State::Exchange { .. }) && !stacks.holds(number) {
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

/// Lets a thread run until it waits or ends, and says which.
///
/// # Safety
/// `group` is alive, and the thread is suspended.
unsafe fn resume(group: *mut Group, number: usize) -> Result<State, String> {
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
    let group = unsafe { &mut *group };
    match group.failure.take() {
        Some(why) => Err(format!("thread {number}: {why}")),
        None => Ok(group.threads[number].state),
    }
}
