//! What the streams of one pool share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use streampool_device::lock::Mutex;
use streampool_device::{Device, Flush, Priority, QueueOptions};

use crate::clock::MAX_STREAMS;
use crate::clocks::Clocks;
use crate::event_pool::EventPool;
use crate::lane::{Flushed, Lane, label};
use crate::memory::{Callbacks, GRAIN, Lasting, Source};
use crate::quirks::{Driver, Throttle, Workarounds};
use crate::settings::Settings;
use crate::waiters::Slots;
use crate::{Error, Result, os, ranks};

/// So many streams are for urgent work, beyond those of the settings, if there can be as many.
const MOST_URGENT: usize = 2;

/// The main thread's stream, which is never leased.
pub(crate) const DEFAULT_STREAM: u8 = 0;

pub(crate) struct Core {
    /// Tells this pool's objects from others'.
    pub id: u64,
    pub device: Arc<dyn Device>,
    pub settings: Settings,
    pub slots: Slots,
    pub clocks: Arc<Clocks>,
    pub source: Arc<Source>,
    pub lasting: Lasting,
    /// What wraps the queues of a device with quirks.
    driver: Option<Arc<Driver>>,
    /// On a device that bears few buffers in flight.
    throttle: Option<Throttle>,
    pub events: Arc<EventPool>,
    pub pressure: Callbacks,
    /// Its one slot is that of the first for whom memory is short.
    pub short_of_memory: Slots,
    /// The streams that threads have run on: who has none of these yet is better off elsewhere.
    pub preferred: AtomicU64,
    /// Until then runs share a stream at once, in microseconds since the pool was made.
    impatient_until: AtomicU64,
    made_at: Instant,
    lanes: [LaneCell; MAX_STREAMS],
    turn: AtomicUsize,
    shut: AtomicBool,
}

/// A stream, once it is made.
struct LaneCell {
    lane: OnceLock<Arc<Lane>>,
    /// Held while it is made: who needs another stream does not wait for it.
    making: Mutex<()>,
}

impl LaneCell {
    const fn empty() -> LaneCell {
        LaneCell {
            lane: OnceLock::new(),
            making: Mutex::new(ranks::CREATION, ()),
        }
    }
}

impl Core {
    pub fn new(device: Arc<dyn Device>, settings: Settings) -> Result<Core> {
        let properties = device.properties();
        if properties.alignment < GRAIN {
            return Err(Error::Alignment {
                device: properties.name.clone(),
                got: properties.alignment,
                expected: GRAIN,
            });
        }
        let workers = (1..settings.streams).fold(0, |mask, index| mask | 1 << index);
        let id = os::number_pool();
        let workarounds = Workarounds::new(&device.quirks(), &settings.mitigations);
        Ok(Core {
            id,
            slots: Slots::new(workers),
            clocks: Arc::new(Clocks::new()),
            source: Arc::new(Source::new(id, device.clone(), settings.memory_limit)),
            lasting: Lasting::new(),
            throttle: workarounds.throttle(),
            driver: workarounds.driver(),
            events: Arc::new(EventPool::new(id, device.clone())),
            pressure: Callbacks::new(),
            short_of_memory: Slots::new(0b10),
            preferred: AtomicU64::new(0),
            impatient_until: AtomicU64::new(0),
            made_at: Instant::now(),
            lanes: [const { LaneCell::empty() }; MAX_STREAMS],
            turn: AtomicUsize::new(0),
            shut: AtomicBool::new(false),
            device,
            settings,
        })
    }

    /// A stream, made if it is asked for the first time.
    pub fn lane(&self, index: u8) -> Result<&Arc<Lane>> {
        let place = &self.lanes[usize::from(index)];
        if let Some(lane) = place.lane.get() {
            return Ok(lane);
        }
        let _making = place.making.lock();
        if let Some(lane) = place.lane.get() {
            return Ok(lane);
        }
        self.check()?;
        let queue = self.device.create_queue(QueueOptions {
            label: label(index),
            index: u32::from(index),
            priority: match usize::from(index) < self.settings.streams {
                true => Priority::Normal,
                false => Priority::High,
            },
        })?;
        let queue = match &self.driver {
            Some(driver) => driver.wrap(queue),
            None => queue,
        };
        let lane = Lane::new(
            self.id,
            index,
            queue,
            self.clocks.clone(),
            self.settings.reuse_memory,
        );
        self.clocks.set(index, lane.progress.clone());
        Ok(place.lane.get_or_init(|| Arc::new(lane)))
    }

    /// A stream, if it was made.
    pub fn made(&self, index: u8) -> Option<&Arc<Lane>> {
        self.lanes[usize::from(index)].lane.get()
    }

    /// The streams made so far.
    pub fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.iter().filter_map(|place| place.lane.get())
    }

    /// Hands over what `lane` has encoded.
    #[inline]
    pub fn flush(&self, lane: &Lane, when: Flush) -> Result<Flushed> {
        self.flush_by(lane, when, None)
    }

    /// As [`flush`](Self::flush), waiting until the deadline at most for those who have the stream's lock.
    #[inline]
    pub fn flush_by(&self, lane: &Lane, when: Flush, deadline: Option<Instant>) -> Result<Flushed> {
        match &self.throttle {
            None => lane.flush(when, deadline),
            Some(throttle) => throttle.flush(lane, &self.clocks, when, deadline),
        }
    }

    /// How many streams are for urgent work.
    pub fn urgent(&self) -> usize {
        MOST_URGENT.min(MAX_STREAMS - self.settings.streams)
    }

    /// The next of those, round robin; `None` if there is none.
    pub fn next_urgent(&self) -> Option<u8> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let place = turn.checked_rem(self.urgent())?;
        Some((self.settings.streams + place) as u8)
    }

    /// Whether a run waited in vain a short time ago.
    pub fn is_impatient(&self, now: Instant) -> bool {
        self.micros(now) < self.impatient_until.load(Ordering::Relaxed)
    }

    /// Has runs that find no stream share one at once, until then.
    pub fn lose_patience(&self, until: Instant) {
        self.impatient_until
            .store(self.micros(until), Ordering::Relaxed);
    }

    fn micros(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.made_at);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    /// The next stream to be shared, round robin.
    pub fn next_shared(&self) -> u8 {
        match self.settings.streams - 1 {
            0 => DEFAULT_STREAM,
            workers => 1 + (self.turn.fetch_add(1, Ordering::Relaxed) % workers) as u8,
        }
    }

    /// Refuses work where none can be done.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if os::is_stale(self.id) {
            return Err(Error::Forked);
        }
        if self.is_shut() {
            return Err(Error::ShutDown);
        }
        Ok(())
    }

    pub fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Acquire)
    }

    /// Ends everything: refuses new work, wakes who waits for a stream, waits for the work in flight, and
    /// lets go of queues and memory. Buffers that are still out keep their memory until they are dropped.
    pub fn shut_down(&self) {
        self.shut.store(true, Ordering::Release);
        self.slots.close();
        // Whoever is making a stream has finished, or will see that it is too late.
        for place in &self.lanes {
            drop(place.making.lock());
        }
        for lane in self.lanes() {
            lane.close();
        }
        for lane in self.lanes() {
            lane.arena.close();
        }
        self.pressure.clear();
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pool {} on {}", self.id, self.device.properties().name)
    }
}
