//! The schedule beside a plain list that does the same slowly, for whatever is done to them.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::schedule::bucket::Running;

/// So many cases, the same ones each time.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x5EED),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add {
        kind: u32,
        rows: usize,
        tenant: TenantId,
        priority: Priority,
        deadline: Option<u32>,
        behind: Option<u32>,
    },
    Take {
        closing: bool,
    },
    /// The one that came so long ago, if it is still there.
    Remove(usize),
    Expire,
    Clear,
    Pass(u32),
    /// So many batches of a kind run from now on, of so many rows each.
    Run(u32, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop::sample::select(vec![Priority::High, Priority::Normal, Priority::Low]);
    let deadline = prop::option::weighted(0.3, 0u32..40);
    let behind = prop::option::weighted(0.3, 0u32..40);
    let add = (0u32..4, 1usize..7, 0usize..4, priority, deadline, behind);
    let add = add.prop_map(
        |(kind, rows, tenant, priority, deadline, behind)| Step::Add {
            kind,
            rows,
            tenant,
            priority,
            deadline,
            behind,
        },
    );
    prop_oneof![
        20 => add,
        10 => prop::bool::weighted(0.1).prop_map(|closing| Step::Take { closing }),
        3 => (0usize..30).prop_map(Step::Remove),
        2 => Just(Step::Expire),
        1 => prop::bool::weighted(0.1).prop_map(|all| if all { Step::Clear } else { Step::Expire }),
        5 => (0u32..12).prop_map(Step::Pass),
        3 => (0u32..4, 0usize..3, 1usize..10).prop_map(|(kind, batches, rows)| Step::Run(kind, batches, rows)),
    ]
}

#[derive(Debug, Clone)]
struct Known {
    job: u32,
    kind: u32,
    rows: usize,
    bytes: usize,
    tenant: TenantId,
    priority: Priority,
    deadline: Option<Instant>,
    behind: Option<Instant>,
    is_behind: bool,
    arrived: Instant,
    id: Id,
}

impl Known {
    fn rank(&self) -> (Priority, bool) {
        (self.priority, self.is_behind)
    }
}

/// The schedule, and what it should hold in the order of coming.
struct Pair {
    schedule: Schedule<u32, u32>,
    limits: Limits,
    now: Instant,
    known: Vec<Known>,
    ids: Vec<Id>,
    /// The oldest, and how often it was passed over.
    passed: (u32, u32),
    running: [Running; 4],
    /// Whether a request of the tenant was given up, whose turn may be another's by now.
    gave_up: [bool; 4],
}

type Checked = Result<(), TestCaseError>;

impl Pair {
    fn new(limits: Limits) -> Pair {
        Pair {
            schedule: schedule(limits.clone(), &[1.0, 3.0, 0.5]),
            limits,
            now: Instant::now(),
            known: Vec::new(),
            ids: Vec::new(),
            passed: (0, 0),
            running: [Running::default(); 4],
            gave_up: [false; 4],
        }
    }

    fn add(
        &mut self,
        kind: u32,
        rows: usize,
        tenant: TenantId,
        priority: Priority,
        [deadline, behind]: [Option<Instant>; 2],
    ) {
        let job = self.ids.len() as u32;
        let bytes = 10 * rows + job as usize;
        let arrived = self.now;
        let entry = Entry {
            job,
            rows,
            bytes,
            tenant,
            priority,
            deadline,
            behind,
            arrived,
        };
        let id = self.schedule.add(&kind, entry);
        self.ids.push(id);
        self.known.push(Known {
            job,
            kind,
            rows,
            bytes,
            tenant,
            priority,
            deadline,
            behind,
            is_behind: false,
            arrived,
            id,
        });
    }

    /// It came out of the schedule: it was there, and is as it was given.
    fn out(&mut self, entry: &Entry<u32>) -> Result<Known, TestCaseError> {
        let at = self.known.iter().position(|known| known.job == entry.job);
        let Some(at) = at else {
            return Err(TestCaseError::fail(format!("{} came out twice", entry.job)));
        };
        let known = self.known.remove(at);
        let given = (
            known.rows,
            known.bytes,
            known.tenant,
            known.priority,
            known.deadline,
        );
        prop_assert_eq!(
            (
                entry.rows,
                entry.bytes,
                entry.tenant,
                entry.priority,
                entry.deadline
            ),
            given
        );
        Ok(known)
    }

    /// As [`out`](Self::out), for one that did not run.
    fn given_up(&mut self, entry: &Entry<u32>) -> Result<Known, TestCaseError> {
        self.gave_up[entry.tenant] = true;
        self.out(entry)
    }

    fn of_kind(&self, kind: u32) -> impl Iterator<Item = &Known> {
        self.known.iter().filter(move |known| known.kind == kind)
    }

    /// Whether a batch of this kind may go.
    fn may_go(&self, kind: u32, closing: bool) -> bool {
        let rows: usize = self.of_kind(kind).map(|known| known.rows).sum();
        let Some(due) = self.due(kind) else {
            return false;
        };
        let mut of_kind = self.of_kind(kind);
        let urgent = of_kind.any(|known| known.priority == Priority::High);
        let running = self.running[kind as usize];
        let it_is_time = match self.limits.wait.is_zero() {
            true => rows.min(self.limits.rows) * running.batches >= running.rows,
            false => due <= self.now,
        };
        closing || urgent || it_is_time || rows >= self.limits.rows
    }

    /// When a batch of this kind has to go, whoever may come. What it would take is not known.
    fn due(&self, kind: u32) -> Option<Instant> {
        let oldest = self.of_kind(kind).next()?;
        let with_deadline = self.of_kind(kind).filter(|known| known.deadline.is_some());
        let hasty = with_deadline.min_by_key(|known| (known.deadline, known.id));
        let hasty = hasty.and_then(|known| {
            let time = known.deadline?.saturating_duration_since(known.arrived);
            Some(known.arrived + (time - time / 4))
        });
        hasty
            .into_iter()
            .chain([oldest.arrived + self.limits.wait])
            .min()
    }

    /// The oldest of those that did not go behind the others, and how often it was passed over.
    fn oldest(&self) -> Option<(u32, u32)> {
        let mut known = self.known.iter();
        let oldest = known.find(|known| !known.is_behind)?.job;
        let passes = if self.passed.0 == oldest {
            self.passed.1
        } else {
            0
        };
        Some((oldest, passes))
    }

    fn take(&mut self, closing: bool) -> Checked {
        let kinds: Vec<u32> = (0..4).filter(|&kind| self.may_go(kind, closing)).collect();
        let expected = !kinds.is_empty();
        prop_assert_eq!(self.schedule.is_ready(self.now, closing), expected);
        for known in &mut self.known {
            known.is_behind |= known.behind.is_some_and(|at| at <= self.now);
        }
        let oldest = self.oldest();
        let leader = oldest.filter(|(_, passes)| *passes >= self.limits.passes);
        let group = take(&mut self.schedule, self.now, closing);
        prop_assert_eq!(group.is_some(), expected);
        let Some(group) = group else { return Ok(()) };

        let before = self.known.clone();
        let taken = group.entries.iter().map(|entry| self.out(entry));
        let taken: Vec<Known> = taken.collect::<Result<_, _>>()?;
        prop_assert!(
            taken.iter().all(|known| known.kind == taken[0].kind),
            "kinds are mixed"
        );
        prop_assert_eq!(
            group.rows,
            taken.iter().map(|known| known.rows).sum::<usize>()
        );
        prop_assert!(group.rows <= self.limits.rows || taken.len() == 1);
        if let Some((oldest, passes)) = oldest
            && taken.iter().all(|known| known.job != oldest)
        {
            self.passed = (oldest, passes + 1);
            prop_assert!(
                passes < self.limits.passes,
                "{} is passed over again",
                oldest
            );
        }

        // The leader is the very oldest; the others, and those that stay, are in order.
        let kind = taken[0].kind;
        let led = group.reason == Reason::PassedOver;
        prop_assert_eq!(led, leader.is_some());
        if let Some((leader, _)) = leader {
            prop_assert_eq!(taken[0].job, leader);
        } else {
            prop_assert!(kinds.contains(&kind));
            let of_those = before.iter().filter(|known| kinds.contains(&known.kind));
            prop_assert_eq!(taken[0].rank(), of_those.map(Known::rank).min().unwrap());
        }
        let in_order: Vec<&Known> = taken.iter().skip(usize::from(led)).collect();
        prop_assert!(in_order.is_sorted_by_key(|known| known.rank()));
        let last = in_order.last().map(|known| known.rank());
        let left = self.of_kind(kind).map(Known::rank).min();
        prop_assert!(
            last.is_none() || left.is_none() || last <= left,
            "a priority was passed by"
        );
        for gone in &taken {
            let overtaken = self.of_kind(kind).any(|left| {
                (left.tenant, left.rank()) == (gone.tenant, gone.rank()) && left.job < gone.job
            });
            let in_order = !overtaken || self.gave_up[gone.tenant];
            prop_assert!(in_order, "{} overtook one of its own tenant", gone.job);
        }
        // No more would have fitted.
        let next_fits = self
            .of_kind(kind)
            .all(|left| group.rows + left.rows <= self.limits.rows);
        prop_assert!(
            self.of_kind(kind).next().is_none() || !next_fits,
            "the batch is cut"
        );
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Checked {
        match *step {
            Step::Add {
                kind,
                rows,
                tenant,
                priority,
                deadline,
                behind,
            } => {
                let times = [deadline, behind].map(|ms| Some(self.now + ms? * MS));
                self.add(kind, rows, tenant, priority, times);
            }
            Step::Take { closing } => self.take(closing)?,
            Step::Remove(ago) => {
                let Some(at) = self.ids.len().checked_sub(ago + 1) else {
                    return Ok(());
                };
                let expected = self.known.iter().find(|known| known.id == self.ids[at]);
                let expected = expected.map(|known| known.job);
                let removed = self.schedule.remove(self.ids[at]);
                prop_assert_eq!(removed.as_ref().map(|entry| entry.job), expected);
                removed.map_or(Ok(()), |entry| self.given_up(&entry).map(drop))?;
            }
            Step::Expire => {
                let now = self.now;
                for entry in self.schedule.expired(now) {
                    let known = self.given_up(&entry)?;
                    prop_assert!(known.deadline.is_some_and(|at| at <= now));
                }
                prop_assert!(
                    self.known
                        .iter()
                        .all(|known| known.deadline.is_none_or(|at| at > now))
                );
            }
            Step::Clear => {
                for entry in self.schedule.clear() {
                    self.given_up(&entry)?;
                }
                prop_assert!(self.known.is_empty());
            }
            Step::Pass(ms) => self.now += ms * MS,
            Step::Run(kind, batches, rows) => {
                let rows = batches * rows;
                self.running[kind as usize] = Running { batches, rows };
                let bucket = self.schedule.bucket_of(&kind);
                self.schedule.buckets[bucket].running = Running { batches, rows };
            }
        }
        self.agree()
    }

    /// Both hold the same.
    fn agree(&mut self) -> Checked {
        let sum = |of: fn(&Known) -> usize| self.known.iter().map(of).sum::<usize>();
        let expected = (
            self.known.len(),
            sum(|known| known.rows),
            sum(|known| known.bytes),
        );
        let schedule = (
            self.schedule.requests(),
            self.schedule.rows(),
            self.schedule.bytes(),
        );
        prop_assert_eq!(schedule, expected);
        let deadlines = self.known.iter().filter_map(|known| known.deadline);
        let due = (0..4).filter_map(|kind| self.due(kind));
        let due = due.filter(|&due| due > self.now && !self.limits.wait.is_zero());
        let next = deadlines.chain(due).min();
        prop_assert_eq!(self.schedule.next_time(self.now), next);
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn nobody_is_lost_passed_over_too_often_or_served_out_of_order(
        steps in prop::collection::vec(step(), 1..150),
        rows in 1usize..10,
        wait in prop::sample::select(vec![0u32, 0, 5, 20]),
        passes in 0u32..5,
    ) {
        let limits = Limits {
            wait: wait * MS,
            passes,
            ..limits(rows)
        };
        let mut pair = Pair::new(limits);
        for step in &steps {
            pair.step(step)?;
        }
        // In the end everything comes out.
        while !pair.known.is_empty() {
            pair.take(true)?;
            pair.agree()?;
        }
        prop_assert!(take(&mut pair.schedule, pair.now, true).is_none());
    }
}
