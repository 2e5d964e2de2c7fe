//! All replicas, and what happens to them, one event after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use serde::Serialize;
use streampool_batch::schedule::Limits;

use crate::arrivals::{ArrivalTimes, Arrivals};
use crate::balance::{Balance, Balancer};
use crate::cost::Cost;
use crate::random::Random;
use crate::replica::{Replica, Sent};
use crate::times::Times;

/// What is to be simulated. Times are seconds.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many replicas there are, each with a queue of its own.
    pub replicas: usize,
    /// Batches that a replica runs at the same time.
    pub lanes: usize,
    /// The most rows of a batch.
    pub max_batch_size: usize,
    /// How long a request waits for others.
    pub max_wait: f64,
    /// Requests that may wait at a replica.
    pub capacity: usize,
    /// How long a batch takes.
    pub cost: Cost,
    /// What a request takes beside its wait and its batch: network, parsing.
    pub overhead: f64,
    /// When requests come.
    pub arrivals: Arrivals,
    /// Who sends them: a name, a weight, and which part of all. Without any, nobody is told apart.
    pub tenants: Vec<Tenant>,
    /// To which replica they go.
    pub balance: Balance,
    /// How replicas fail, if they do.
    pub failures: Option<Failures>,
    /// How many replicas there are depending on the load, if it depends.
    pub autoscale: Option<Autoscale>,
    /// How long requests come.
    pub seconds: f64,
    /// How long, from the begin, what happens is left out of the figures.
    pub warm_up: f64,
    /// The random numbers.
    pub seed: u64,
}

/// One replica with the queue's own settings, one request a second and batches of 10 ms, for a minute.
impl Default for Plan {
    fn default() -> Plan {
        Plan {
            replicas: 1,
            lanes: 2,
            max_batch_size: 32,
            max_wait: 0.0,
            capacity: 1024,
            cost: Cost::one(0.01),
            overhead: 0.0,
            arrivals: Arrivals::Poisson { rate: 1.0 },
            tenants: Vec::new(),
            balance: Balance::LeastOutstanding,
            failures: None,
            autoscale: None,
            seconds: 60.0,
            warm_up: 6.0,
            seed: 0,
        }
    }
}

/// Somebody who sends requests.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// What it is called.
    pub name: String,
    /// Its share where there is not enough for all.
    pub weight: f64,
    /// How much it sends, beside the others.
    pub sends: f64,
}

/// How replicas fail. What one holds then fails with it.
#[derive(Debug, Clone, Copy)]
pub struct Failures {
    /// From one failure of a replica to its next, on average.
    pub every: f64,
    /// How long it then does not take requests.
    pub repair: f64,
}

/// How many replicas there are, depending on the load.
#[derive(Debug, Clone, Copy)]
pub struct Autoscale {
    /// At least, and at first.
    pub least: usize,
    /// Requests at each replica, waiting and running, that are aimed at.
    pub target: f64,
    /// How often the load is looked at.
    pub every: f64,
    /// From when a replica is asked for until it takes requests.
    pub delay: f64,
}

/// What came of it. Times are seconds; what was asked before the warm-up's end is left out.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Requests that came.
    pub requests: u64,
    /// Those that were answered.
    pub answered: u64,
    /// There was no room, or no replica.
    pub rejected: u64,
    /// Their replica failed.
    pub failed: u64,
    /// Answers a second.
    pub answered_per_second: f64,
    /// Half of the answers took no longer.
    pub p50: Option<f64>,
    /// 99 in 100.
    pub p99: Option<f64>,
    /// 999 in 1,000.
    pub p99_9: Option<f64>,
    /// Rows of a batch, on average.
    pub rows_per_batch: f64,
    /// The part of the time that lanes of replicas that were there ran batches.
    pub utilisation: f64,
    /// Replicas that took requests, on average.
    pub mean_replicas: f64,
    /// For each tenant its answers and p99, in the plan's order.
    pub tenants: Vec<(String, u64, Option<f64>)>,
    /// The whole time in slices.
    pub slices: Vec<Slice>,
}

/// A part of the time.
#[derive(Debug, Clone, Serialize)]
pub struct Slice {
    /// When it begins.
    pub from: f64,
    /// Requests that came, a second.
    pub requests_per_second: f64,
    /// Half of the answers took no longer.
    pub p50: Option<f64>,
    /// 99 in 100.
    pub p99: Option<f64>,
    /// Replicas that take requests at its end.
    pub replicas: usize,
}

/// Slices of a run.
const SLICES: usize = 60;

const NANOS: f64 = 1e9;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    Ends { replica: u32, lane: u32, life: u32 },
    Wakes { replica: u32 },
    Fails { replica: u32 },
    Starts { replica: u32 },
    Scales,
    Slices,
}

struct World<'a> {
    plan: &'a Plan,
    limits: Limits,
    weights: Vec<(String, f64)>,
    /// What all tenants send together.
    sends: f64,
    begin: Instant,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    replicas: Vec<Replica>,
    balancer: Balancer,
    /// Those that were asked for and do not take requests yet.
    starting: Vec<usize>,
    random: Random,
    times: Times,
    of_tenants: Vec<Times>,
    slice: (Times, u64),
    slices: Vec<Slice>,
    requests: u64,
    rejected: u64,
    failed: u64,
    batches: (u64, u64),
    /// Nanoseconds, after the warm-up, of batches that are over.
    busy: u64,
    /// Replica-nanoseconds, and since when the number is as it is.
    there: (f64, u64),
}

/// Simulates a plan.
pub fn simulate(plan: &Plan) -> Result<Outcome, String> {
    check(plan)?;
    let mut world = World::new(plan);
    world.run();
    Ok(world.outcome())
}

fn check(plan: &Plan) -> Result<(), String> {
    let positive = [
        ("the number of replicas", plan.replicas),
        ("the number of lanes", plan.lanes),
        ("the most rows of a batch", plan.max_batch_size),
        ("the capacity", plan.capacity),
    ];
    if let Some((what, _)) = positive.iter().find(|(_, number)| *number == 0) {
        return Err(format!("{what} is 0, expected at least 1"));
    }
    for (number, tenant) in plan.tenants.iter().enumerate() {
        let is_known = |other: &Tenant| other.name == tenant.name;
        if tenant.name.is_empty() || plan.tenants[..number].iter().any(is_known) {
            return Err(format!(
                "two tenants are called {:?}, or one has no name",
                tenant.name
            ));
        }
    }
    match plan.warm_up < plan.seconds && plan.seconds < 1e9 {
        true => Ok(()),
        false => Err(format!(
            "{} s are simulated, of which the first {} s do not count",
            plan.seconds, plan.warm_up
        )),
    }
}

/// As nanoseconds.
fn nanos(seconds: f64) -> u64 {
    (seconds * NANOS) as u64
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> World<'a> {
        let limits = Limits {
            rows: plan.max_batch_size,
            wait: Duration::try_from_secs_f64(plan.max_wait).unwrap_or_default(),
            passes: 8,
            adaptive: true,
            objective: None,
        };
        let weights = plan.tenants.iter();
        let weights: Vec<(String, f64)> = weights.map(|of| (of.name.clone(), of.weight)).collect();
        let replica = |_| Replica::new(&limits, &weights, plan.lanes, plan.capacity);
        World {
            replicas: (0..plan.replicas).map(replica).collect(),
            balancer: Balancer::new(plan.balance, plan.replicas, plan.seed ^ 1),
            random: Random::new(plan.seed),
            plan,
            limits,
            weights,
            sends: plan.tenants.iter().map(|tenant| tenant.sends).sum(),
            begin: Instant::now(),
            now: 0,
            events: BinaryHeap::new(),
            starting: Vec::new(),
            times: Times::default(),
            of_tenants: vec![Times::default(); plan.tenants.len()],
            slice: (Times::default(), 0),
            slices: Vec::new(),
            requests: 0,
            rejected: 0,
            failed: 0,
            batches: (0, 0),
            busy: 0,
            there: (0.0, 0),
        }
    }

    fn at(&mut self, when: u64, what: Event) {
        self.events.push(Reverse((when, what)));
    }

    fn after(&mut self, seconds: f64, what: Event) {
        self.at(self.now.saturating_add(nanos(seconds)), what);
    }

    fn run(&mut self) {
        let plan = self.plan;
        let first = plan
            .autoscale
            .map_or(plan.replicas, |scale| scale.least.min(plan.replicas));
        (0..first).for_each(|replica| self.start(replica));
        if let Some(scale) = plan.autoscale {
            self.after(scale.every, Event::Scales);
        }
        self.after(plan.seconds / SLICES as f64, Event::Slices);
        let mut arrivals = ArrivalTimes::new(plan.arrivals.clone(), plan.seed ^ 2);
        let end = nanos(plan.seconds);
        if let Some(at) = arrivals.next().map(nanos) {
            self.at(at, Event::Arrives);
        }
        while let Some(Reverse((now, event))) = self.events.pop() {
            if now >= end {
                break;
            }
            self.now = now;
            match event {
                Event::Arrives => {
                    self.arrive();
                    if let Some(at) = arrivals.next().map(nanos) {
                        self.at(at.max(now), Event::Arrives);
                    }
                }
                Event::Ends {
                    replica,
                    lane,
                    life,
                } => self.end(replica as usize, lane as usize, life),
                Event::Wakes { replica } => {
                    let of = &mut self.replicas[replica as usize];
                    if of.wakes == Some(now) {
                        of.wakes = None;
                        self.begin(replica as usize);
                    }
                }
                Event::Fails { replica } => self.fail(replica as usize),
                Event::Starts { replica } => {
                    self.starting.retain(|&other| other != replica as usize);
                    self.start(replica as usize);
                }
                Event::Scales => self.scale(),
                Event::Slices => self.end_slice(),
            }
        }
        self.now = end;
        self.count_replicas();
        self.end_slice();
    }

    fn counts(&self, sent: u64) -> bool {
        sent >= nanos(self.plan.warm_up)
    }

    fn arrive(&mut self) {
        let plan = self.plan;
        let counts = self.counts(self.now);
        self.requests += u64::from(counts);
        self.slice.1 += 1;
        let tenant = match plan.tenants.is_empty() {
            true => 0,
            false => {
                let mut part = self.random.part() * self.sends;
                let sender = plan.tenants.iter().position(|tenant| {
                    part -= tenant.sends;
                    part < 0.0
                });
                1 + sender.unwrap_or(plan.tenants.len() - 1)
            }
        };
        let sent = Sent {
            at: self.now,
            tenant,
        };
        let chosen = self.balancer.choose();
        let taken = chosen.filter(|&chosen| self.replicas[chosen].add(self.begin, self.now, sent));
        match taken {
            Some(replica) => {
                self.balancer
                    .has(replica, self.replicas[replica].outstanding);
                self.begin(replica);
            }
            None => self.rejected += u64::from(counts),
        }
    }

    /// Begins what can go at a replica.
    fn begin(&mut self, replica: usize) {
        let of = &mut self.replicas[replica];
        let life = of.life;
        let (events, batches) = (&mut self.events, &mut self.batches);
        of.begin(
            self.begin,
            self.now,
            &self.plan.cost,
            &mut self.random,
            |lane, at, rows| {
                batches.0 += 1;
                batches.1 += rows as u64;
                let ends = Event::Ends {
                    replica: replica as u32,
                    lane: lane as u32,
                    life,
                };
                events.push(Reverse((at, ends)));
            },
        );
        let next = of.next_time(self.begin, self.now);
        if let Some(at) = next
            && of.wakes.is_none_or(|known| at < known)
        {
            of.wakes = Some(at);
            let replica = replica as u32;
            self.events.push(Reverse((at, Event::Wakes { replica })));
        }
    }

    fn end(&mut self, replica: usize, lane: usize, life: u32) {
        if self.replicas[replica].life != life {
            return;
        }
        let overhead = nanos(self.plan.overhead);
        let warm = nanos(self.plan.warm_up);
        let (over, ran) = self.replicas[replica].end(lane, warm, self.now);
        self.busy += ran;
        for sent in over {
            let took = self.now - sent.at + overhead;
            self.slice.0.add(took);
            if sent.at >= warm {
                self.times.add(took);
                if let Some(of) = sent.tenant.checked_sub(1) {
                    self.of_tenants[of].add(took);
                }
            }
        }
        self.balancer
            .has(replica, self.replicas[replica].outstanding);
        self.begin(replica);
    }

    fn start(&mut self, replica: usize) {
        self.count_replicas();
        self.balancer.set(replica, true);
        if let Some(failures) = self.plan.failures {
            let until = self.random.exponential(failures.every);
            let replica = replica as u32;
            self.after(until, Event::Fails { replica });
        }
    }

    fn fail(&mut self, replica: usize) {
        if !self.balancer.takes(replica) {
            return;
        }
        self.count_replicas();
        self.balancer.set(replica, false);
        let warm = nanos(self.plan.warm_up);
        self.busy += self.replicas[replica].ran(warm, self.now);
        let lost = self.replicas[replica].fail(&self.limits, &self.weights);
        if self.counts(self.now) {
            self.failed += lost as u64;
        }
        self.balancer.has(replica, 0);
        if let Some(failures) = self.plan.failures {
            self.starting.push(replica);
            let replica = replica as u32;
            self.after(failures.repair, Event::Starts { replica });
        }
    }

    fn scale(&mut self) {
        let Some(scale) = self.plan.autoscale else {
            return;
        };
        let wanted = (self.balancer.total() as f64 / scale.target).ceil() as usize;
        let wanted = wanted.clamp(scale.least, self.plan.replicas);
        let mut there = self.balancer.taking() + self.starting.len();
        if wanted > there {
            let idle = (0..self.replicas.len()).filter(|replica| {
                !self.balancer.takes(*replica) && !self.starting.contains(replica)
            });
            let idle: Vec<usize> = idle.take(wanted - there).collect();
            for replica in idle {
                self.starting.push(replica);
                let replica = replica as u32;
                self.after(scale.delay, Event::Starts { replica });
            }
        }
        while wanted < there && self.balancer.taking() > scale.least {
            // It takes no more requests, and answers those that it has.
            let Some(replica) = self.balancer.any() else {
                break;
            };
            self.count_replicas();
            self.balancer.set(replica, false);
            there -= 1;
        }
        self.after(scale.every, Event::Scales);
    }

    /// Counts the replicas up to now, whose number is about to change.
    fn count_replicas(&mut self) {
        let (all, since) = self.there;
        let from = since.max(nanos(self.plan.warm_up));
        let more = self.balancer.taking() as f64 * self.now.saturating_sub(from) as f64;
        self.there = (all + more, self.now);
    }

    fn end_slice(&mut self) {
        let long = self.plan.seconds / SLICES as f64;
        if self.slices.len() == SLICES {
            return;
        }
        let (times, requests) = std::mem::take(&mut self.slice);
        let seconds = |time: Duration| time.as_secs_f64();
        self.slices.push(Slice {
            from: self.slices.len() as f64 * long,
            requests_per_second: requests as f64 / long,
            p50: times.at(0.5).map(seconds),
            p99: times.at(0.99).map(seconds),
            replicas: self.balancer.taking(),
        });
        self.after(long, Event::Slices);
    }

    fn outcome(self) -> Outcome {
        let counted = self.plan.seconds - self.plan.warm_up;
        let at = |times: &Times, part| times.at(part).map(|time: Duration| time.as_secs_f64());
        let warm = nanos(self.plan.warm_up);
        let running = self.replicas.iter();
        let running: u64 = running.map(|replica| replica.ran(warm, self.now)).sum();
        let busy = (self.busy + running) as f64 / NANOS;
        let lanes = self.plan.lanes as f64;
        let (batches, rows) = self.batches;
        let tenants = self.plan.tenants.iter().zip(&self.of_tenants);
        let replicas = self.there.0 / NANOS / counted;
        Outcome {
            requests: self.requests,
            answered: self.times.count(),
            rejected: self.rejected,
            failed: self.failed,
            answered_per_second: self.times.count() as f64 / counted,
            p50: at(&self.times, 0.5),
            p99: at(&self.times, 0.99),
            p99_9: at(&self.times, 0.999),
            rows_per_batch: rows as f64 / batches.max(1) as f64,
            utilisation: busy / counted / lanes / replicas.max(1e-9),
            mean_replicas: replicas,
            tenants: tenants
                .map(|(of, times)| (of.name.clone(), times.count(), at(times, 0.99)))
                .collect(),
            slices: self.slices,
        }
    }
}

/// The fewest replicas, up to `most`, with which the 99th percentile is at most `p99` and no more than one request in a thousand is
/// refused or lost with its replica. Nothing, if `most` are too few.
pub fn fewest(plan: &Plan, p99: f64, most: usize) -> Result<Option<(usize, Outcome)>, String> {
    let with = |replicas| {
        let plan = Plan {
            replicas,
            ..plan.clone()
        };
        let outcome = simulate(&plan)?;
        let good = outcome.p99.is_some_and(|late| late <= p99)
            && (outcome.rejected + outcome.failed) as f64 <= 1e-3 * outcome.requests as f64;
        Ok::<_, String>(good.then_some(outcome))
    };
    let mut too_few = 0;
    let mut tried = plan.replicas.clamp(1, most);
    let mut good = loop {
        if let Some(outcome) = with(tried)? {
            break (tried, outcome);
        }
        too_few = tried;
        if tried == most {
            return Ok(None);
        }
        tried = tried.saturating_mul(2).min(most);
    };
    while good.0 - too_few > 1 {
        let middle = too_few + (good.0 - too_few) / 2;
        match with(middle)? {
            Some(outcome) => good = (middle, outcome),
            None => too_few = middle,
        }
    }
    Ok(Some(good))
}
