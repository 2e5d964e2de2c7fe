//! Whose turn it is: each tenant gets a share by its weight, however much the others send.
//!
//! Each request is given a turn when it comes: where its tenant's last one ended, or where the queue stands by now if that
//! is later. Turns are then served in order. A tenant that sends much has turns far ahead; one that sends little is next.
//! Turns are wide enough that they never end: years of requests of the smallest weight do not use them up.
//! Each priority has turns of its own: it is served before the next, and says nothing about who had how much of that.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::{Entry, Priority, TenantId};

/// What one row of a tenant of weight 1 takes.
const ROW: f64 = (1 << 20) as f64;
/// More than these share one account.
const MOST_TENANTS: usize = 1024;

/// The part of a tenant of weight 1.
const WHOLE: u128 = 1000;
/// Who came within so many batches may come again: as many as a tenant fills that sends a hundred times as much, one by one.
const LATELY: u64 = 128;

/// A turn: 96 bits, the highest first. In words, so that tickets, which remember it, are no larger than they have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn([u32; 3]);

impl Turn {
    pub(super) fn new(turn: u128) -> Turn {
        let turn = turn.min(u128::MAX >> 32);
        Turn([64, 32, 0].map(|shift| (turn >> shift) as u32))
    }

    fn get(self) -> u128 {
        let words = self.0.into_iter().map(u128::from);
        words.fold(0, |turn, word| turn << 32 | word)
    }

    /// That of so many rows of weight 1 later.
    pub fn later(self, rows: usize) -> Turn {
        Turn::new(self.get() + price(rows, 1.0))
    }
}

struct Tenant {
    name: Arc<str>,
    weight: f64,
    /// Where its last request of each priority ends.
    end: [u128; Priority::COUNT],
    /// What of it waits.
    waiting: Load,
    /// How many batches had gone when it sent its last request; none, if it has not.
    came: Option<u64>,
}

/// What waits.
#[derive(Default)]
struct Load {
    requests: usize,
    rows: usize,
    bytes: usize,
}

impl Tenant {
    /// Its weight in whole numbers, which add up exactly.
    fn part(&self) -> u128 {
        (self.weight * WHOLE as f64).round() as u128
    }

    fn price(&self, rows: usize) -> u128 {
        price(rows, self.weight)
    }
}

/// How far turns go on with so many rows of a tenant of this weight.
fn price(rows: usize, weight: f64) -> u128 {
    (rows as f64 * ROW / weight) as u128
}

/// Who sends requests.
pub struct Tenants {
    all: Vec<Tenant>,
    by_name: HashMap<Arc<str>, TenantId>,
    /// Where the queue stands in each priority.
    reached: [u128; Priority::COUNT],
    /// The parts of those who have something waiting.
    parts: u128,
}

impl Tenants {
    /// The nameless one, and these by name and weight.
    pub fn new<'a>(weights: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let mut tenants = Tenants {
            all: Vec::new(),
            by_name: HashMap::new(),
            reached: [0; Priority::COUNT],
            parts: 0,
        };
        tenants.add("", 1.0);
        for (name, weight) in weights {
            match tenants.by_name.get(name) {
                Some(&known) => tenants.all[known].weight = weight,
                None => {
                    tenants.add(name, weight);
                }
            }
        }
        tenants
    }

    fn add(&mut self, name: &str, weight: f64) -> TenantId {
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), self.all.len());
        self.all.push(Tenant {
            name,
            weight,
            end: [0; Priority::COUNT],
            waiting: Load::default(),
            came: None,
        });
        self.all.len() - 1
    }

    /// The tenant of this name. Whoever is not known has weight 1; where there are too many, they share the nameless account.
    pub fn named(&mut self, name: &str) -> TenantId {
        match self.by_name.get(name) {
            Some(&known) => known,
            None if self.all.len() >= MOST_TENANTS => 0,
            None => self.add(name, 1.0),
        }
    }

    /// Its name.
    pub fn name(&self, tenant: TenantId) -> &Arc<str> {
        &self.all[tenant].name
    }

    /// A request comes to wait, after so many batches.
    pub fn came<J>(&mut self, entry: &Entry<J>, batches: u64) {
        let tenant = &mut self.all[entry.tenant];
        if tenant.waiting.requests == 0 {
            self.parts += tenant.part();
        }
        tenant.waiting.requests += 1;
        tenant.waiting.rows += entry.rows;
        tenant.waiting.bytes += entry.bytes;
        tenant.came = Some(batches);
    }

    /// A request waits no more.
    pub fn left<J>(&mut self, entry: &Entry<J>) {
        let tenant = &mut self.all[entry.tenant];
        tenant.waiting.requests -= 1;
        tenant.waiting.rows -= entry.rows;
        tenant.waiting.bytes -= entry.bytes;
        if tenant.waiting.requests == 0 {
            self.parts -= tenant.part();
        }
    }

    /// How many rows of a tenant wait.
    pub fn rows(&self, tenant: TenantId) -> usize {
        self.all[tenant].waiting.rows
    }

    /// Whether others than one are known, who may come.
    pub fn are_many(&self) -> bool {
        self.all.len() > 1
    }

    /// Whether a tenant has less waiting than its share, by weight, of a room for so many requests and bytes. Those share who have
    /// something waiting, and where there are many one more of weight 1, who may come.
    pub fn is_within_share(&self, tenant: TenantId, requests: usize, bytes: usize) -> bool {
        let tenant = &self.all[tenant];
        let comes = if self.are_many() { WHOLE } else { 0 };
        let own = match tenant.waiting.requests {
            0 => tenant.part(),
            _ => 0,
        };
        let all = self.parts + own + comes;
        let is_less = |has: usize, of: usize| has as u128 * all < of as u128 * tenant.part();
        is_less(tenant.waiting.requests, requests) && is_less(tenant.waiting.bytes, bytes)
    }

    /// Whether somebody may come, after so many batches: a tenant that came lately and has nothing waiting.
    pub fn may_come(&self, batches: u64) -> bool {
        let lately = |came| batches < came + LATELY;
        let mut all = self.all.iter();
        all.any(|tenant| tenant.waiting.requests == 0 && tenant.came.is_some_and(lately))
    }

    /// The turn of a request of so many rows.
    pub fn turn(&mut self, tenant: TenantId, priority: Priority, rows: usize) -> Turn {
        let reached = self.reached[priority as usize];
        let tenant = &mut self.all[tenant];
        let price = tenant.price(rows);
        let end = &mut tenant.end[priority as usize];
        let begin = reached.max(*end);
        *end = begin + price;
        Turn::new(begin)
    }

    /// A request of so many rows never ran: its tenant has not had them.
    pub fn give_back(&mut self, tenant: TenantId, priority: Priority, rows: usize) {
        let tenant = &mut self.all[tenant];
        let price = tenant.price(rows);
        let end = &mut tenant.end[priority as usize];
        *end = end.saturating_sub(price);
    }

    /// A request of this turn goes.
    pub fn reached(&mut self, priority: Priority, turn: Turn) {
        let reached = &mut self.reached[priority as usize];
        *reached = turn.get().max(*reached);
    }
}
