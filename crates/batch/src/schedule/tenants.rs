//! Whose turn it is: each tenant gets a share by its weight, however much the others send.
//!
//! Each request is given a turn when it comes: where its tenant's last one ended, or where the queue stands by now if that
//! is later. Turns are then served in order. A tenant that sends much has turns far ahead; one that sends little is next.
//! Each priority has turns of its own: it is served before the next, and says nothing about who had how much of that.

use std::collections::HashMap;
use std::sync::Arc;

use super::Priority;

/// Tells tenants apart.
pub type TenantId = usize;

/// What one row of a tenant of weight 1 takes.
const ROW: f64 = (1 << 20) as f64;
const PRIORITIES: usize = Priority::Low as usize + 1;
/// More than these share one account.
const MOST_TENANTS: usize = 1024;

struct Tenant {
    name: Arc<str>,
    weight: f64,
    /// Where its last request of each priority ends.
    end: [u64; PRIORITIES],
}

impl Tenant {
    fn price(&self, rows: usize) -> u64 {
        price(rows, self.weight)
    }
}

/// How far turns go on with so many rows of a tenant of this weight.
fn price(rows: usize, weight: f64) -> u64 {
    (rows as f64 * ROW / weight) as u64
}

/// How far turns go on with so many rows of a tenant of weight 1.
pub fn usual_price(rows: usize) -> u64 {
    price(rows, 1.0)
}

/// Who sends requests.
pub struct Tenants {
    all: Vec<Tenant>,
    by_name: HashMap<Arc<str>, TenantId>,
    /// Where the queue stands in each priority.
    reached: [u64; PRIORITIES],
}

impl Tenants {
    /// The nameless one, and these by name and weight.
    pub fn new<'a>(weights: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        let mut tenants = Tenants {
            all: Vec::new(),
            by_name: HashMap::new(),
            reached: [0; PRIORITIES],
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
            end: [0; PRIORITIES],
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

    /// The turn of a request of so many rows.
    pub fn turn(&mut self, tenant: TenantId, priority: Priority, rows: usize) -> u64 {
        let reached = self.reached[priority as usize];
        let tenant = &mut self.all[tenant];
        let price = tenant.price(rows);
        let end = &mut tenant.end[priority as usize];
        let begin = reached.max(*end);
        *end = begin.saturating_add(price);
        begin
    }

    /// A request of so many rows never ran: its tenant has not had them.
    pub fn give_back(&mut self, tenant: TenantId, priority: Priority, rows: usize) {
        let tenant = &mut self.all[tenant];
        let price = tenant.price(rows);
        let end = &mut tenant.end[priority as usize];
        *end = end.saturating_sub(price);
    }

    /// A request of this turn goes.
    pub fn reached(&mut self, priority: Priority, turn: u64) {
        let reached = &mut self.reached[priority as usize];
        *reached = turn.max(*reached);
    }
}
