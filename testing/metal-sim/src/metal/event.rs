//! `MTLSharedEvent`: a value that rises.

use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::resource::{Resource, freed_in_flight};
use crate::foundation::{NSOBJECT, autoreleased_string, text};
use crate::lock::lock;
use crate::method;
use crate::report::{Rule, violation};
use crate::runtime::{Body, Class, Definition, Id};
use crate::settings::{Refusal, is_refused};

pub(super) static SHARED_EVENT: Class =
    Class::fixed(c"_Imitation_SharedEvent", Some(&NSOBJECT), define);

#[derive(Default)]
pub(super) struct Event {
    value: Mutex<u64>,
    risen: Condvar,
    uses: AtomicUsize,
    label: Mutex<String>,
}

impl Event {
    pub fn signal(&self, value: u64, who: &str) {
        let mut now = lock(&self.value);
        if value <= *now {
            violation(
                Rule::EventRises,
                format!(
                    "{who} sets event '{}' from {now} to {value}",
                    lock(&self.label)
                ),
            );
        }
        *now = value;
        self.risen.notify_all();
    }

    /// Waits until it has that value; says whether it came in time.
    pub fn wait(&self, value: u64, most: Duration) -> bool {
        let end = Instant::now().checked_add(most);
        let mut now = lock(&self.value);
        while *now < value {
            let left = end.map_or(Duration::MAX, |end| {
                end.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return false;
            }
            let waited = self
                .risen
                .wait_timeout(now, left.min(Duration::from_secs(3600)));
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Resource for Event {
    fn uses(&self) -> &AtomicUsize {
        &self.uses
    }
}

impl Body for Event {
    fn freed(&self) {
        freed_in_flight(self, || format!("event '{}'", lock(&self.label)));
    }
}

pub(super) fn new() -> Id {
    if is_refused(Refusal::Event) {
        return Id::NULL;
    }
    SHARED_EVENT.instance(Event::default())
}

fn define(class: &Definition) {
    method!(class, "signaledValue", |this: Event| -> u64 {
        *lock(&this.value)
    });
    method!(class, "setSignaledValue:", |this: Event, value: u64| {
        this.signal(value, "the host")
    });
    method!(
        class,
        "waitUntilSignaledValue:timeoutMS:",
        |this: Event, value: u64, milliseconds: u64| -> u8 {
            u8::from(this.wait(value, Duration::from_millis(milliseconds)))
        }
    );
    method!(class, "setLabel:", |this: Event, label: Id| {
        *lock(&this.label) = text(label).unwrap_or_default()
    });
    method!(class, "label", |this: Event| -> Id {
        autoreleased_string(&lock(&this.label))
    });
}
