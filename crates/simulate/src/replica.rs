//! One replica: the queue that ships, in virtual time.

use std::time::{Duration, Instant};

use streampool_batch::schedule::{Entry, Group, Limits, Priority, Schedule, Tenants};

use crate::cost::Cost;
use crate::random::Random;

/// A request: when it came, in nanoseconds, and how often it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub at: u64,
    pub tenant: usize,
}

/// A batch that runs.
pub struct Running {
    group: Group<Sent>,
    began: u64,
    took: Duration,
}

impl Running {
    fn ran(&self, from: u64, now: u64) -> u64 {
        now.saturating_sub(self.began.max(from))
    }
}

/// A queue with lanes.
pub struct Replica {
    schedule: Schedule<u8, Sent>,
    lanes: Vec<Option<Running>>,
    free: Vec<usize>,
    capacity: usize,
    /// Requests that wait or run.
    pub outstanding: usize,
    /// When it is to be looked at again.
    pub wakes: Option<u64>,
    /// Counts how often it failed: what was under way before is over.
    pub life: u32,
}

/// The time so many nanoseconds after the begin.
fn time(begin: Instant, nanos: u64) -> Instant {
    begin + Duration::from_nanos(nanos)
}

impl Replica {
    /// An idle one.
    pub fn new(
        limits: &Limits,
        tenants: &[(String, f64)],
        lanes: usize,
        capacity: usize,
    ) -> Replica {
        let weights = tenants.iter().map(|(name, weight)| (&name[..], *weight));
        let mut schedule = Schedule::new(limits.clone(), Tenants::new(weights));
        schedule.on_lanes(lanes);
        Replica {
            schedule,
            lanes: (0..lanes).map(|_| None).collect(),
            free: (0..lanes).rev().collect(),
            capacity,
            outstanding: 0,
            wakes: None,
            life: 0,
        }
    }

    /// Takes a request, if there is room.
    pub fn add(&mut self, begin: Instant, now: u64, sent: Sent) -> bool {
        if self.schedule.requests() >= self.capacity {
            return false;
        }
        let entry = Entry {
            job: sent,
            rows: 1,
            bytes: 0,
            // The nameless tenant is the first.
            tenant: sent.tenant,
            priority: Priority::Normal,
            deadline: None,
            behind: None,
            arrived: time(begin, now),
        };
        self.schedule.add(&0, entry);
        self.outstanding += 1;
        true
    }

    /// Begins what batches can go: gives the lane and the time of each, and its rows, to `begun`.
    pub fn begin(
        &mut self,
        begin: Instant,
        now: u64,
        cost: &Cost,
        random: &mut Random,
        mut begun: impl FnMut(usize, u64, usize),
    ) {
        let at = time(begin, now);
        while let Some(&lane) = self.free.last() {
            let Some(group) = self.schedule.take(at, false) else {
                break;
            };
            self.free.pop();
            let took = Duration::from_secs_f64(cost.draw(group.rows, random));
            let nanos = took.as_nanos() as u64;
            begun(lane, now + nanos, group.rows);
            self.lanes[lane] = Some(Running {
                group,
                began: now,
                took,
            });
        }
    }

    /// When something happens without a request or a batch's end.
    pub fn next_time(&self, begin: Instant, now: u64) -> Option<u64> {
        if self.free.is_empty() || self.schedule.requests() == 0 {
            return None;
        }
        let at = time(begin, now);
        let times = self.schedule.next_time(at).into_iter();
        let next = times.chain(self.schedule.paced_until(at)).min()?;
        Some(now + (next.saturating_duration_since(at).as_nanos() as u64).max(1))
    }

    /// For how many nanoseconds since `from` the batches that run now have run.
    pub fn ran(&self, from: u64, now: u64) -> u64 {
        let running = self.lanes.iter().flatten();
        running.map(|running| running.ran(from, now)).sum()
    }

    /// The batch of a lane is over: its requests, and for how many nanoseconds since `from` it ran.
    pub fn end(
        &mut self,
        lane: usize,
        from: u64,
        now: u64,
    ) -> (impl Iterator<Item = Sent> + use<>, u64) {
        let running = self.lanes[lane].take();
        self.free.push(lane);
        let ran = running.as_ref().map_or(0, |running| running.ran(from, now));
        if let Some(Running { group, took, .. }) = &running {
            self.schedule.over(group.bucket, group.rows, Some(*took));
            self.outstanding -= group.entries.len();
        }
        let entries = running
            .into_iter()
            .flat_map(|running| running.group.entries);
        (entries.map(|entry| entry.job), ran)
    }

    /// It fails: nothing waits or runs any more. How many requests are lost.
    pub fn fail(&mut self, limits: &Limits, tenants: &[(String, f64)]) -> usize {
        let lost = self.outstanding;
        let (lanes, life) = (self.lanes.len(), self.life + 1);
        *self = Replica {
            life,
            ..Replica::new(limits, tenants, lanes, self.capacity)
        };
        lost
    }
}
