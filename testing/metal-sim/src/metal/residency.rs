//! `MTLResidencySet`: what is to be reachable without being bound. It retains what it holds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::buffer::Buffer;
use super::device::Device;
use crate::foundation::NSOBJECT;
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id, Strong};

pub(super) static SET: Class = Class::fixed(c"_Imitation_ResidencySet", Some(&NSOBJECT), define);

#[unsafe(export_name = "_OBJC_CLASS_MTLResidencySetDescriptor")]
pub(super) static DESCRIPTOR: Class =
    Class::fixed(c"MTLResidencySetDescriptor", Some(&NSOBJECT), describe);

/// How many a queue may have.
pub(super) const MOST_SETS: usize = 32;

/// The sum over all sets of what each holds, as committed.
static RESIDENT: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn resident() -> usize {
    RESIDENT.load(Ordering::Acquire)
}

pub(super) struct ResidencySet {
    device: Arc<Device>,
    /// Whether it is to be resident also while no command buffer needs it.
    is_requested: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<Id, Held>,
    is_dirty: bool,
}

struct Held {
    allocation: Strong,
    /// Whether it is so once the changes are committed.
    wanted: bool,
    committed: bool,
}

impl Held {
    fn new(allocation: Id) -> Held {
        Held {
            allocation: Strong::new(allocation),
            wanted: true,
            committed: false,
        }
    }

    /// Takes effect; says whether it stays.
    fn commit(&mut self) -> bool {
        if let Some(buffer) = self.allocation.id().body_if::<Buffer>()
            && self.wanted != self.committed
        {
            if self.wanted {
                buffer.sets.fetch_add(1, Ordering::AcqRel);
                RESIDENT.fetch_add(1, Ordering::AcqRel);
            } else {
                buffer.sets.fetch_sub(1, Ordering::AcqRel);
                RESIDENT.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.committed = self.wanted;
        self.wanted
    }
}

impl ResidencySet {
    fn commit(&self) {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.is_dirty) {
            self.check_that_it_may_change();
        }
        let gone: Vec<Held> = state
            .held
            .extract_if(.., |_, held| !held.commit())
            .map(|(_, held)| held)
            .collect();
        // Their end may take its time, and may come back here.
        drop(state);
        drop(gone);
    }

    /// Breaks like kernels that others saw panic: "prepare count underflow".
    fn check_that_it_may_change(&self) {
        let in_flight = self.device.in_flight.load(Ordering::Acquire);
        if self.is_requested.load(Ordering::Acquire) && in_flight > 0 {
            violation(
                Rule::ResidencyChanged,
                format!(
                    "a set that is kept resident changes while {in_flight} command buffers are in flight"
                ),
            );
        }
    }
}

impl Body for ResidencySet {
    fn freed(&self) {
        lock(&self.state)
            .held
            .values_mut()
            .for_each(|held| held.wanted = false);
        self.commit();
    }
}

pub(super) fn new(device: &Arc<Device>, descriptor: Id) -> Id {
    if descriptor.is_null() {
        violation(
            Rule::Argument,
            "a residency set without a descriptor".to_owned(),
        );
    }
    SET.instance(ResidencySet {
        device: Arc::clone(device),
        is_requested: AtomicBool::new(false),
        state: Mutex::default(),
    })
}

fn describe(class: &Definition) {
    method!(class, "setLabel:", |_this, _label: Id| {});
    method!(class, "setInitialCapacity:", |_this, _capacity: usize| {});
}

fn define(class: &Definition) {
    method!(
        class,
        "addAllocation:",
        |this: ResidencySet, allocation: Id| {
            if allocation.body_if::<Buffer>().is_none() {
                return violation(
                    Rule::Argument,
                    "addAllocation of what is no buffer that lives".to_owned(),
                );
            }
            let mut state = lock(&this.state);
            state.is_dirty = true;
            state
                .held
                .entry(allocation)
                .or_insert_with(|| Held::new(allocation))
                .wanted = true;
        }
    );
    method!(
        class,
        "removeAllocation:",
        |this: ResidencySet, allocation: Id| {
            let mut state = lock(&this.state);
            state.is_dirty = true;
            match state.held.get_mut(&allocation) {
                Some(held) => held.wanted = false,
                None => {
                    drop(state);
                    violation(
                        Rule::Residency,
                        "removeAllocation of what is not in the set".to_owned(),
                    );
                }
            }
        }
    );
    method!(class, "containsAllocation:", |this: ResidencySet,
                                           allocation: Id|
     -> u8 {
        u8::from(
            lock(&this.state)
                .held
                .get(&allocation)
                .is_some_and(|held| held.wanted),
        )
    });
    method!(class, "allocationCount", |this: ResidencySet| -> usize {
        lock(&this.state)
            .held
            .values()
            .filter(|held| held.wanted)
            .count()
    });
    method!(class, "commit", |this: ResidencySet| this.commit());
    method!(class, "requestResidency", |this: ResidencySet| {
        if lock(&this.state).is_dirty {
            violation(
                Rule::Residency,
                "requestResidency of a set with changes that are not committed".to_owned(),
            );
        }
        this.is_requested.store(true, Ordering::Release);
    });
    method!(class, "endResidency", |this: ResidencySet| {
        this.is_requested.store(false, Ordering::Release);
    });
    method!(class, "setLabel:", |_this: ResidencySet, _label: Id| {});
}
