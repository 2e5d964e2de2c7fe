//! Ordering: what a stream has to wait for before it touches memory, found by comparing stamps.
//!
//! What is needed from other streams is taken before this stream's lock, so that no thread ever holds two. The rare thing that
//! has to be waited for here is waited for with no lock held at all ([`unobstructed`]).

use std::sync::Arc;

use streampool_device::lock::Guard;
use streampool_device::{Access, Flush, Tick};

use crate::clock::{Hazards, Marks, Stamp};
use crate::core::Core;
use crate::faults::{self, Verdict};
use crate::lane::{Encoder, Lane, Marker};
use crate::{Error, Result};

/// A block that an op touches. The borrow it stands for lasts until the op is marked on it.
#[derive(Clone, Copy)]
pub(crate) struct Touch<'a> {
    pub marks: &'a Marks,
    pub access: Access,
    /// A write that leaves a part of the block as it was: whoever reads the block later gets that part, too.
    pub is_partial: bool,
}

impl<'a> Touch<'a> {
    /// A use of all of the block.
    pub fn whole(marks: &'a Marks, access: Access) -> Touch<'a> {
        Touch {
            marks,
            access,
            is_partial: false,
        }
    }

    /// The write whose result it uses.
    #[inline]
    fn used_write(&self) -> Option<Stamp> {
        match self.access == Access::Read || self.is_partial {
            true => self.marks.last_write(),
            false => None,
        }
    }

    /// Remembers the op on the block.
    pub fn mark(&self, stamp: Stamp) {
        match self.access {
            Access::Read => self.marks.read_at(stamp),
            Access::Write => self.marks.written_at(stamp),
        }
    }
}

/// A stream's lock, with whatever is encoded next ordered after all that it conflicts with.
pub(crate) struct Ordered<'l> {
    pub encoder: Guard<'l, Encoder>,
    /// Results of other streams that it uses and that may still turn out failed.
    pub unsettled: Vec<Stamp>,
}

/// Why a stream's lock was not taken in order.
pub(crate) enum Obstructed {
    /// It cannot be.
    Failed(Error),
    /// A poisoned stream takes no event, but what it had may still wait for others: so does who needs this point of it.
    By(Stamp),
}

impl From<Error> for Obstructed {
    fn from(error: Error) -> Self {
        Obstructed::Failed(error)
    }
}

/// Makes attempts until nothing obstructs one. What does is waited for in between, when the attempt has given up its locks.
#[inline]
pub(crate) fn unobstructed<T>(
    core: &Core,
    attempt: impl Fn() -> Result<T, Obstructed>,
) -> Result<T> {
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Obstructed::Failed(error)) => return Err(error),
            Err(Obstructed::By(stamp)) => {
                core.flush(core.lane(stamp.stream)?, Flush::ForWaiter)?;
                core.clocks.wait(stamp, None)?;
            }
        }
    }
}

/// What stands between a stream and its next command.
#[derive(Default)]
struct Obstacles {
    /// Not there yet.
    waits: Hazards,
    /// Read, and not there yet. Each is judged by itself: a later one that is good says nothing about an earlier one.
    unsettled: Vec<Stamp>,
    /// Read and complete; whether they are any good is not known.
    unjudged: Vec<Stamp>,
}

/// Takes the lock of `lane`, with whatever is encoded next ordered after all that `touches` conflict with.
#[inline]
pub(crate) fn lock_after<'l, 'a>(
    core: &Core,
    lane: &'l Lane,
    touches: impl Iterator<Item = Touch<'a>> + Clone,
) -> Result<Ordered<'l>, Obstructed> {
    let mut encoder = lane.lock();
    check_own(lane, touches.clone())?;
    let mut obstacles = Obstacles::default();
    for touch in touches.clone() {
        // Only a write can be read too early; it counts whether what it wrote is any good.
        if let Some(stamp) = touch
            .used_write()
            .filter(|stamp| stamp.stream != lane.index)
        {
            encoder.order_read(core, stamp, &mut obstacles);
        }
        if touch.access == Access::Write {
            for stamp in touch.marks.uses() {
                if stamp.stream != lane.index {
                    encoder.order_write(core, stamp, &mut obstacles);
                }
            }
        }
    }
    if obstacles.waits.is_empty() && obstacles.unjudged.is_empty() {
        return Ok(Ordered {
            encoder,
            unsettled: obstacles.unsettled,
        });
    }
    drop(encoder);
    obstacles.overcome(core, lane, touches)
}

/// Refuses what uses results of the stream itself that a fault hit.
#[inline]
fn check_own<'a>(lane: &Lane, touches: impl Iterator<Item = Touch<'a>>) -> Result<()> {
    let own = touches.filter_map(|touch| touch.used_write());
    let mut own = own.filter(|stamp| stamp.stream == lane.index);
    own.try_for_each(|stamp| faults::check_own(lane, stamp))
}

impl Obstacles {
    #[cold]
    fn overcome<'l, 'a>(
        self,
        core: &Core,
        lane: &'l Lane,
        touches: impl Iterator<Item = Touch<'a>>,
    ) -> Result<Ordered<'l>, Obstructed> {
        let mut clean = Vec::new();
        for stamp in self.unjudged {
            match faults::verdict(core, stamp, None)? {
                Verdict::Hit(fault) => return Err(Error::Dependency(fault).into()),
                Verdict::Clean { after } => clean.push((after, stamp)),
            }
        }
        let mut encoder = wait_for(core, lane, self.waits.stamps())?;
        for (after, stamp) in clean {
            encoder.clean.cover(after, stamp);
        }
        // Others may have settled what this stream used while its lock was free.
        check_own(lane, touches)?;
        Ok(Ordered {
            encoder,
            unsettled: self.unsettled,
        })
    }
}

/// Takes the lock of `lane` with waits for `stamps` of other streams encoded.
#[cold]
pub(crate) fn wait_for<'l>(
    core: &Core,
    lane: &'l Lane,
    stamps: &[Stamp],
) -> Result<Guard<'l, Encoder>, Obstructed> {
    let mut markers = Vec::with_capacity(stamps.len());
    for stamp in stamps {
        let source = core.lane(stamp.stream)?;
        match source.marker(core, stamp.tick) {
            Ok(marker) => markers.push(marker),
            Err(_) if core.clocks.is_complete(*stamp) => {}
            Err(Error::Device(streampool_device::Error::Poisoned(_))) => {
                return Err(Obstructed::By(*stamp));
            }
            Err(other) => return Err(other.into()),
        }
    }
    let mut encoder = lane.lock();
    for marker in markers {
        let waited = encoder.queue()?.wait(marker.event.device_event());
        let tick = waited.map_err(Error::from)?;
        lane.appended(&mut encoder, tick);
        encoder.after.cover_all(&marker.after);
        encoder.after.cover(marker.stamp);
        encoder.counts.waits += 1;
    }
    Ok(encoder)
}

impl Lane {
    /// An event on this stream that covers `tick`: the latest one if it does, else a new one.
    pub fn marker(&self, core: &Core, tick: Tick) -> Result<Arc<Marker>> {
        let mut encoder = self.lock();
        if let Some(marker) = &encoder.marker
            && marker.stamp.tick >= tick
        {
            return Ok(marker.clone());
        }
        let event = core.events.take(false)?;
        let recorded = encoder.queue()?.record(event.device_event())?;
        let marker = Arc::new(Marker {
            stamp: self.appended(&mut encoder, recorded),
            event,
            after: encoder.after.clone(),
        });
        encoder.marker = Some(marker.clone());
        Ok(marker)
    }
}

/// Remembers that the command of `lane` at `tick`, which nobody else knows of yet, uses the result at `stamp` of another stream.
pub(crate) fn consume(core: &Core, lane: &Lane, encoder: &mut Encoder, stamp: Stamp, tick: Tick) {
    // A stream that has a stamp was made.
    if let Some(source) = core.made(stamp.stream) {
        lane.consume(encoder, stamp, tick, &source.history);
    }
}

impl Encoder {
    /// Orders after `stamp`, whose result is used.
    #[inline]
    fn order_read(&mut self, core: &Core, stamp: Stamp, obstacles: &mut Obstacles) {
        if self.clean.covers(stamp) {
            return;
        }
        if core.clocks.is_complete(stamp) {
            self.after.cover(stamp);
            obstacles.unjudged.push(stamp);
            return;
        }
        // Whether it is any good is asked when this stream is synchronised.
        obstacles.unsettled.push(stamp);
        if !self.after.covers(stamp) {
            obstacles.waits.add(stamp);
        }
    }

    /// Orders after `stamp`, whose result is not used.
    #[inline]
    fn order_write(&mut self, core: &Core, stamp: Stamp, obstacles: &mut Obstacles) {
        if self.after.covers(stamp) || cfg!(planted) {
            return;
        }
        if core.clocks.is_complete(stamp) {
            self.after.cover(stamp);
        } else {
            obstacles.waits.add(stamp);
        }
    }
}
