//! Faults: whose work one hit, also across streams.
//!
//! A fault poisons its stream. Whoever used, on another stream, what the failed work should have written
//! is told when that stream is synchronised, by its events and handlers, or at once if it is known by then.
//! Nobody else is, as long as streams use few results of each other before they are synchronised (`lane::Consumed`).

use std::time::Instant;

use streampool_device::{Fault, Flush, Tick};

use crate::clock::{Marks, Stamp};
use crate::core::Core;
use crate::history::Hit;
use crate::lane::{Flushed, Lane};
use crate::{Error, Result};

/// What is known of a completed command.
pub(crate) enum Verdict {
    /// A fault hit it.
    Hit(Fault),
    /// Its result is good, and so is that of every command of its stream behind `after`, up to it.
    Clean { after: Tick },
}

impl Core {
    /// Waits for what was flushed, and asks whether what it used was any good.
    #[inline]
    pub fn wait(&self, lane: &Lane, flushed: Flushed, deadline: Option<Instant>) -> Result<()> {
        lane.progress.wait(flushed.tick, deadline)?;
        match flushed.unsettled {
            true => settle(self, lane, flushed.tick, deadline),
            false => Ok(()),
        }
    }

    /// As [`wait`](Self::wait), for the command at `tick` alone. Who recovers the stream meanwhile clears its poison, and has
    /// noted before what the fault hit.
    pub fn wait_for(
        &self,
        lane: &Lane,
        tick: Tick,
        flushed: Flushed,
        deadline: Option<Instant>,
    ) -> Result<()> {
        self.wait(lane, Flushed { tick, ..flushed }, deadline)?;
        let stream = lane.index;
        check_own(lane, Stamp { stream, tick })
    }
}

/// Whether a completed command's result is any good.
pub(crate) fn verdict(core: &Core, stamp: Stamp, deadline: Option<Instant>) -> Result<Verdict> {
    Ok(match find(core, stamp, deadline, &mut Vec::new())? {
        Some(fault) => Verdict::Hit(fault),
        None => Verdict::Clean {
            after: core.lane(stamp.stream)?.history.last_before(stamp.tick),
        },
    })
}

/// Waits until what wrote a block last is over; fails if a fault hit that.
pub(crate) fn written(core: &Core, marks: &Marks) -> Result<()> {
    let Some(stamp) = marks.last_write() else {
        return Ok(());
    };
    if !core.clocks.is_complete(stamp) {
        core.flush(core.lane(stamp.stream)?, Flush::ForWaiter)?;
        core.clocks.wait(stamp, None)?;
    }
    outcome(core, stamp).map_err(Error::Dependency)
}

/// The fault that hit a completed command or what it used.
pub(crate) fn outcome(core: &Core, stamp: Stamp) -> std::result::Result<(), Fault> {
    match verdict(core, stamp, None) {
        Ok(Verdict::Hit(fault)) => Err(fault),
        Ok(Verdict::Clean { .. }) | Err(_) => Ok(()),
    }
}

/// `seen` holds what was asked already.
///
/// Others settle and recover meanwhile: they note a fault in the history first, and only then forget the use or clear the
/// poison. So what they forget is read before what they note.
fn find(
    core: &Core,
    stamp: Stamp,
    deadline: Option<Instant>,
    seen: &mut Vec<Stamp>,
) -> Result<Option<Fault>> {
    if seen.contains(&stamp) {
        return Ok(None);
    }
    seen.push(stamp);
    let lane = core.lane(stamp.stream)?;
    let uses = lane.uses_until(stamp.tick, deadline)?;
    if let Some(fault) = lane.progress.fault()
        && fault.tick() <= stamp.tick
    {
        return Ok(Some(fault));
    }
    if lane.history.any()
        && !cfg!(planted)
        && let Some(fault) = lane.history.find(stamp.tick)
    {
        return Ok(Some(fault));
    }
    // What it used itself may not be settled yet.
    for used in uses {
        if let Some(fault) = find(core, used.stamp, deadline, seen)? {
            return Ok(Some(fault));
        }
    }
    Ok(None)
}

/// Asks, when `lane` is complete up to `tick`, whether what it used of other streams was any good.
///
/// A use is forgotten only when its outcome is known and noted: others may look meanwhile.
#[cold]
pub(crate) fn settle(
    core: &Core,
    lane: &Lane,
    tick: Tick,
    deadline: Option<Instant>,
) -> Result<()> {
    let uses = lane.uses_until(tick, deadline)?;
    let (mut outcome, mut noted) = (Ok(()), None);
    for used in uses {
        // Later commands may have used more of the same stream: that is settled when they are complete.
        let over = core.clocks.is_complete(used.stamp);
        let verdict = verdict(core, used.stamp, deadline)?;
        let mut encoder = lane.lock_by(deadline)?;
        match verdict {
            Verdict::Hit(fault) => {
                // With the lock held: nobody encodes between the last command that is hit and the first that is not. The first
                // use that was bad stands for those after it, unless others have encoded since.
                let last = lane.last_tick();
                if noted != Some(last) {
                    lane.history.add(Hit {
                        from: used.since,
                        to: last,
                        fault: fault.clone(),
                    });
                    noted = Some(last);
                }
                outcome = outcome.and(Err(Error::Dependency(fault)));
            }
            Verdict::Clean { .. } if !over => continue,
            Verdict::Clean { after } => encoder.clean.cover(after, used.stamp),
        }
        lane.settled(&mut encoder, used);
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

/// Whether all results of the stream itself from one command to another are any good.
pub(crate) fn check_between(lane: &Lane, from: Tick, to: Tick) -> Result<()> {
    if !lane.history.any() {
        return Ok(());
    }
    let fault = lane.history.find_between(from, to);
    fault.map_or(Ok(()), |fault| Err(Error::Dependency(fault)))
}

/// Remembers what a fault hit on its own stream, up to `last`, before the stream is recovered.
pub(crate) fn remember(lane: &Lane, fault: &Fault, last: Tick) {
    lane.history.add(Hit {
        from: fault.tick(),
        to: last,
        fault: fault.clone(),
    });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use streampool_device::{Device, Op};
    use streampool_host::{HostDevice, HostOptions, OpMatcher};

    use super::*;
    use crate::{Pool, Settings, Stream};

    /// Encodes something on `stream`: its place.
    fn place(stream: &Stream) -> Stamp {
        stream.encode(Op::Nop).unwrap();
        Stamp {
            stream: stream.index(),
            tick: stream.lane().last_tick(),
        }
    }

    #[test]
    fn who_has_a_lock_and_used_nothing_is_not_waited_for() {
        let device = HostDevice::new(HostOptions::default().threads(2)).unwrap();
        let settings = Settings::builder().streams(3).build().unwrap();
        let pool = Pool::with_settings(device as Arc<dyn Device>, settings).unwrap();
        let [source, other] = [1, 2].map(|index| pool.stream(index).unwrap());
        let good = place(source);
        source.synchronize().unwrap();
        let asked = || {
            let _held = source.lane().lock();
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| verdict(source.core(), good, Some(Instant::now())));
                asked.join().unwrap()
            })
        };
        assert!(matches!(asked(), Ok(Verdict::Clean { .. })));
        let stamp = place(other);
        other.synchronize().unwrap();
        let mut encoder = source.lane().lock();
        source
            .lane()
            .consume(&mut encoder, stamp, good.tick, &other.lane().history);
        drop(encoder);
        assert!(asked().is_err(), "what it used is behind the lock");
        settle(source.core(), source.lane(), good.tick, None).unwrap();
        assert!(asked().is_ok());
    }

    #[test]
    fn what_others_encode_between_two_bad_uses_is_hit_by_the_second() {
        let device = HostDevice::new(HostOptions::default().threads(2)).unwrap();
        let settings = Settings::builder().streams(4).build().unwrap();
        let pool = Pool::with_settings(device.clone() as Arc<dyn Device>, settings).unwrap();
        let [one, other, user] = [1, 2, 3].map(|index| pool.stream(index).unwrap());
        let bad = [one, other].map(|stream| {
            let broken = OpMatcher::any().on_queue(stream.index().into());
            device.injector().fail_op(broken, 1, "broken on purpose");
            let bad = place(stream);
            assert!(stream.synchronize().is_err());
            bad
        });
        let uses = |tick, bad: &[Stamp]| {
            let mut encoder = user.lane().lock();
            bad.iter().for_each(|&bad| {
                let history = &user.core().lane(bad.stream).unwrap().history;
                user.lane().consume(&mut encoder, bad, tick, history);
            });
        };
        let first = place(user).tick;
        user.synchronize().unwrap();
        uses(first, &bad);
        // Who used something itself is asked with its lock.
        other.lane().consume(
            &mut other.lane().lock(),
            bad[0],
            bad[1].tick,
            &one.lane().history,
        );
        std::thread::scope(|scope| {
            let ((locked, is_locked), (let_go, go)) = (channel(), channel::<()>());
            // The second use is not judged before this lets go.
            scope.spawn(move || {
                let _held = other.lane().lock();
                locked.send(()).unwrap();
                let _ = go.recv();
            });
            is_locked.recv().unwrap();
            let settled = scope.spawn(|| settle(user.core(), user.lane(), first, None));
            while !user.lane().history.any() && !settled.is_finished() {
                std::thread::yield_now();
            }
            let second = place(user);
            // The use of before stands for this one, too.
            uses(second.tick, &bad[1..]);
            drop(let_go);
            assert!(settled.join().unwrap().is_err());
            assert!(user.lane().lock().consumed.is_empty());
            assert!(check_own(user.lane(), second).is_err());
        });
    }
}
