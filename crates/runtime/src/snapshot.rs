//! What a pool holds and did, to be looked at or printed as JSON.

use serde::Serialize;

use crate::core::Core;
use crate::memory::ArenaUse;
use crate::quirks::{Workaround, workaround};

/// A pool at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// The device's name.
    pub device: String,
    /// How many streams there can be.
    pub streams: usize,
    /// Worker streams that nobody has.
    pub free_streams: usize,
    /// Threads that wait for one.
    pub waiting_threads: usize,
    /// The memory of all streams.
    pub memory: MemorySnapshot,
    /// Events made, used again, and idle.
    pub events: EventSnapshot,
    /// The device's caches.
    pub caches: Vec<CacheSnapshot>,
    /// The device's quirks.
    pub quirks: Vec<QuirkSnapshot>,
    /// The streams made so far.
    pub made: Vec<StreamSnapshot>,
}

/// The memory of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemorySnapshot {
    /// Bytes in buffers.
    pub in_use: usize,
    /// Bytes in freed blocks that other streams still use.
    pub pending: usize,
    /// Bytes taken from the device.
    pub reserved: usize,
    /// Bytes that the device takes for itself, about, which count within the limit, too: what ops work in, and what programs
    /// are made into. Pools of one device share them.
    pub overhead: usize,
    /// Bytes of the host's memory through which copies to and from the device pass.
    pub staging: usize,
    /// The most ever taken at once.
    pub peak_reserved: usize,
    /// The most that may be taken.
    pub limit: usize,
    /// Allocations of the device so far.
    pub device_allocations: u64,
}

/// The event pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EventSnapshot {
    /// Made by the device.
    pub made: u64,
    /// Times one was used again.
    pub reused: u64,
    /// Ready for use.
    pub idle: usize,
}

/// One cache of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheSnapshot {
    /// What it caches.
    pub name: String,
    /// Entries held.
    pub entries: usize,
    /// Look-ups answered from it.
    pub hits: u64,
    /// Entries made by compiling.
    pub compiled: u64,
    /// Entries read back from disk.
    pub loaded: u64,
    /// Why it does not work as it was set up to, though it does work: a directory that cannot be used.
    pub problem: Option<String>,
}

/// One quirk of the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuirkSnapshot {
    /// Its name.
    pub name: &'static str,
    /// How it is worked around.
    pub workaround: Workaround,
    /// Whether it is.
    pub mitigated: bool,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamSnapshot {
    /// Its number.
    pub index: u8,
    /// The tick of its last command.
    pub encoded: u64,
    /// The tick up to which it is complete.
    pub completed: u64,
    /// Ops encoded, transfers and replays included.
    pub ops: u64,
    /// Waits for other streams that sharing made necessary.
    pub waits: u64,
    /// Times work was handed over to the device, to start or to be waited for.
    pub flushes: u64,
    /// The fault that poisons it.
    pub fault: Option<String>,
    /// Faults that hit it before, its own and those of streams it depended on.
    pub past_faults: usize,
    /// Its memory.
    pub memory: ArenaUse,
}

impl Snapshot {
    pub(crate) fn of(core: &Core) -> Snapshot {
        let made: Vec<StreamSnapshot> = core
            .lanes()
            .map(|lane| {
                let counts = lane.lock().counts;
                StreamSnapshot {
                    index: lane.index,
                    encoded: lane.last_tick(),
                    completed: lane.progress.completed(),
                    ops: counts.ops,
                    waits: counts.waits,
                    flushes: counts.flushes,
                    fault: lane.progress.fault().map(|fault| fault.to_string()),
                    past_faults: lane.history.count(),
                    memory: lane.arena.measure(),
                }
            })
            .collect();
        let overhead = core.device.overhead();
        let (events_made, events_reused, events_idle) = core.events.counts();
        Snapshot {
            device: core.device.properties().name.clone(),
            streams: core.settings.streams,
            free_streams: core.slots.free() as usize,
            waiting_threads: core.slots.waiting(),
            memory: MemorySnapshot {
                in_use: made.iter().map(|stream| stream.memory.in_use).sum(),
                pending: made.iter().map(|stream| stream.memory.pending).sum(),
                reserved: core.source.reserved(),
                overhead: overhead.memory,
                staging: overhead.staging,
                peak_reserved: core.source.peak(),
                limit: core.source.limit(),
                device_allocations: core.source.chunks_made(),
            },
            events: EventSnapshot {
                made: events_made,
                reused: events_reused,
                idle: events_idle,
            },
            caches: core
                .device
                .caches()
                .into_iter()
                .map(|cache| CacheSnapshot {
                    name: cache.name,
                    entries: cache.entries,
                    hits: cache.hits,
                    compiled: cache.compiled,
                    loaded: cache.loaded,
                    problem: cache.problem,
                })
                .collect(),
            quirks: core
                .device
                .quirks()
                .into_iter()
                .map(|quirk| QuirkSnapshot {
                    name: quirk.name(),
                    workaround: workaround(quirk),
                    mitigated: core.settings.mitigations.covers(quirk),
                })
                .collect(),
            made,
        }
    }
}
