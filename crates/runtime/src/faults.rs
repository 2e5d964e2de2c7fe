//! Faults: whose work one hit, also across streams.
//!
//! A fault poisons its stream. Whoever used, on another stream, what the failed work should have written
//! is told when that stream is synchronised, by its events and handlers, or at once if it is known by then.
//! Nobody else is.

use std::sync::atomic::{AtomicBool, Ordering};

use streampool_device::lock::Mutex;
use streampool_device::{Fault, Flush, Tick};

use crate::clock::{MAX_STREAMS, Marks, Stamp};
use crate::core::Core;
use crate::lane::Lane;
use crate::{Error, Result, ranks};

/// Commands of one stream whose results are not to be used.
#[derive(Debug, Clone)]
struct Hit {
    from: Tick,
    to: Tick,
    fault: Fault,
}

/// What faults hit on one stream, directly or through what it used, as far as that is settled.
pub(crate) struct History {
    hits: Mutex<Vec<Hit>>,
    any: AtomicBool,
}

/// More than anyone looks back; a stream that faults that often is not to be trusted anyway.
const REMEMBERED: usize = 1024;

impl History {
    pub fn new() -> Self {
        History {
            hits: Mutex::new(ranks::HISTORY, Vec::new()),
            any: AtomicBool::new(false),
        }
    }

    fn add(&self, hit: Hit) {
        let mut hits = self.hits.lock();
        if hits.len() == REMEMBERED {
            hits.remove(0);
        }
        hits.push(hit);
        self.any.store(true, Ordering::Release);
    }

    fn find(&self, tick: Tick) -> Option<Fault> {
        let hits = self.hits.lock();
        let hit = hits
            .iter()
            .find(|hit| (hit.from..=hit.to).contains(&tick))?;
        Some(hit.fault.clone())
    }

    /// Whether anything was ever hit.
    fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// How many were settled here.
    pub fn count(&self) -> usize {
        self.hits.lock().len()
    }
}

/// What is known of a completed command.
pub(crate) enum Verdict {
    /// A fault hit it.
    Hit(Fault),
    /// Its result is good.
    Clean {
        /// And so is everything before it on its stream.
        all_before: bool,
    },
}

/// Whether a completed command's result is any good.
pub(crate) fn verdict(core: &Core, stamp: Stamp) -> Result<Verdict> {
    let mut seen = [0; MAX_STREAMS];
    match find(core, stamp, &mut seen)? {
        Some(fault) => Ok(Verdict::Hit(fault)),
        None => {
            let lane = core.lane(stamp.stream)?;
            Ok(Verdict::Clean {
                all_before: !lane.history.any() && lane.progress.fault().is_none(),
            })
        }
    }
}

/// Waits until what wrote a block last is over; fails if a fault hit that.
pub(crate) fn written(core: &Core, marks: &Marks) -> Result<()> {
    let Some(stamp) = marks.last_write() else {
        return Ok(());
    };
    if !core.clocks.is_complete(stamp) {
        core.flush(core.lane(stamp.stream)?, Flush::ForWaiter)?;
        core.clocks.wait(stamp);
    }
    outcome(core, stamp).map_err(Error::Dependency)
}

/// The fault that hit a completed command or what it used.
pub(crate) fn outcome(core: &Core, stamp: Stamp) -> std::result::Result<(), Fault> {
    match verdict(core, stamp) {
        Ok(Verdict::Hit(fault)) => Err(fault),
        Ok(Verdict::Clean { .. }) | Err(_) => Ok(()),
    }
}

/// `seen` holds, for each stream, the tick up to which it was asked already.
fn find(core: &Core, stamp: Stamp, seen: &mut [Tick; MAX_STREAMS]) -> Result<Option<Fault>> {
    let asked = &mut seen[usize::from(stamp.stream)];
    if *asked >= stamp.tick {
        return Ok(None);
    }
    *asked = stamp.tick;
    let lane = core.lane(stamp.stream)?;
    if let Some(fault) = lane.progress.fault()
        && fault.tick() <= stamp.tick
    {
        return Ok(Some(fault));
    }
    if lane.history.any()
        && let Some(fault) = lane.history.find(stamp.tick)
    {
        return Ok(Some(fault));
    }
    // What it used itself may not be settled yet.
    let uses = lane.lock().consumed.until(stamp.tick);
    for used in uses {
        if let Some(fault) = find(core, used.stamp, seen)? {
            return Ok(Some(fault));
        }
    }
    Ok(None)
}

/// Asks, when `lane` is complete up to `tick`, whether what it used of other streams was any good.
///
/// A use is forgotten only when its outcome is known and noted: others may look meanwhile.
#[cold]
pub(crate) fn settle(core: &Core, lane: &Lane, tick: Tick) -> Result<()> {
    let uses = lane.lock().consumed.until(tick);
    let mut outcome = Ok(());
    for used in uses {
        // Later commands may have used more of the same stream: that is settled when they are complete.
        let over = core.clocks.is_complete(used.stamp);
        let verdict = verdict(core, used.stamp)?;
        if let Verdict::Hit(fault) = &verdict {
            lane.history.add(Hit {
                from: used.since,
                to: lane.last_tick(),
                fault: fault.clone(),
            });
            outcome = outcome.and(Err(Error::Dependency(fault.clone())));
        } else if !over {
            continue;
        }
        let mut encoder = lane.lock();
        encoder.consumed.settled(used);
        if matches!(verdict, Verdict::Clean { all_before: true }) {
            encoder.clean.cover(used.stamp);
        }
    }
    outcome
}

/// Whether an earlier result of the stream itself, at `stamp`, is any good.
#[inline]
pub(crate) fn check_own(lane: &Lane, stamp: Stamp) -> Result<()> {
    match lane.history.any() {
        true => lane
            .history
            .find(stamp.tick)
            .map_or(Ok(()), |fault| Err(Error::Dependency(fault))),
        false => Ok(()),
    }
}

/// Remembers what a fault hit on its own stream, up to `last`, before the stream is recovered.
pub(crate) fn remember(lane: &Lane, fault: &Fault, last: Tick) {
    lane.history.add(Hit {
        from: fault.tick(),
        to: last,
        fault: fault.clone(),
    });
}
