//! What was seen of an execution: the states of what threads share, one after the other, as the specification's states are shown by
//! `graph.py`. All tasks of an execution are on one thread of the system, and no other runs between a step and its record.

use std::cell::RefCell;
use std::fmt::Write;

use crate::{batch, turns};

const PENDING: u8 = u8::MAX;
const CLOSED: u8 = u8::MAX - 1;
/// Tasks that a lease is about: 1, 2 and 3.
const TASKS: usize = 3;

#[derive(Clone, Copy, PartialEq)]
pub enum Of {
    Nothing,
    Leases,
    Batch,
    Turns,
}

pub struct Record {
    of: Of,
    word: u64,
    owner: Option<usize>,
    outcome: [u8; TASKS + 1],
    hand: [u8; TASKS + 1],
    /// Who has looked at what became of them under the lock: they have it when they give the lock up.
    takes: [u8; TASKS + 1],
    inside: String,
    pub seen: Vec<String>,
}

thread_local! {
    static RECORD: RefCell<Record> = const { RefCell::new(Record {
        of: Of::Nothing, word: 0, owner: None, outcome: [PENDING; 4], hand: [0; 4], takes: [PENDING; 4],
        inside: String::new(), seen: Vec::new(),
    }) };
}

pub fn me() -> usize {
    usize::from(shuttle::current::me())
}

pub fn begin(of: Of) {
    with(|record| {
        *record = Record {
            of,
            word: 0,
            owner: None,
            outcome: [PENDING; 4],
            hand: [0; 4],
            takes: [PENDING; 4],
            // A queue with one lane that has just been made; nobody waits for a turn.
            inside: match of {
                Of::Batch => "open 0 1 0 0 0 0 0 []".to_owned(),
                _ => String::new(),
            },
            seen: Vec::new(),
        };
        if of == Of::Turns {
            record.word = 1;
            record.note();
        }
    });
}

/// The record is over.
pub fn end() -> Vec<String> {
    with(|record| {
        record.of = Of::Nothing;
        std::mem::take(&mut record.seen)
    })
}

fn with<R>(change: impl FnOnce(&mut Record) -> R) -> R {
    RECORD.with(|record| change(&mut record.borrow_mut()))
}

impl Record {
    fn note(&mut self) {
        let mut now = String::new();
        let owner = self.owner.unwrap_or(0);
        match self.of {
            Of::Nothing => return,
            Of::Leases => {
                let _ = write!(now, "{:x} {owner}", self.word);
                if self.owner.is_none() {
                    for task in 1..=TASKS {
                        let outcome = match self.outcome[task] {
                            PENDING => "p".to_owned(),
                            CLOSED => "c".to_owned(),
                            slot => slot.to_string(),
                        };
                        let _ = write!(now, " {outcome}{}", self.hand[task]);
                    }
                }
            }
            Of::Batch => {
                let shut = self.word >> 63;
                let _ = write!(now, "{shut} {:x} {owner}", self.word & !(1 << 63));
                if self.owner.is_none() {
                    now.push(' ');
                    now.push_str(&self.inside);
                }
            }
            Of::Turns => {
                let holders = (1..=TASKS).filter(|&task| self.hand[task] != 0);
                let holders: String = holders.map(|task| task.to_string()).collect();
                let _ = write!(now, "{} {}[{holders}]", self.word, self.inside);
            }
        }
        if self.seen.last() != Some(&now) {
            self.seen.push(now);
        }
    }
}

/// The word of the slots, or of the door.
pub fn word(old: u64, new: u64) {
    with(|record| {
        record.word = new;
        if record.of == Of::Leases && old != new {
            let me = me();
            let (taken, back) = (old & !new & !1, new & !old & !1);
            if taken != 0 {
                record.hand[me] = taken.trailing_zeros() as u8;
            }
            if back != 0 {
                record.hand[me] = 0;
            }
        }
        record.note();
    });
}

pub fn looked(whose: usize, value: u8) {
    with(|record| {
        if record.of != Of::Leases || value == PENDING || whose != me() {
            return;
        }
        record.takes[whose] = value;
        if record.owner != Some(whose) {
            record.take(whose);
            record.note();
        }
    });
}

impl Record {
    fn take(&mut self, whose: usize) {
        let value = std::mem::replace(&mut self.takes[whose], PENDING);
        if value != PENDING {
            self.outcome[whose] = PENDING;
            self.hand[whose] = if value == CLOSED { 0 } else { value };
        }
    }
}

pub fn given(whose: usize, value: u8) {
    with(|record| {
        if record.of == Of::Leases {
            record.outcome[whose] = value;
            let me = me();
            if value != CLOSED && me <= TASKS {
                record.hand[me] = 0;
            }
        }
    });
}

fn is_main(name: &str) -> bool {
    [
        "waiters::Queue",
        "engine::state::State<",
        "turns::shipped::State",
    ]
    .iter()
    .any(|main| name.contains(main))
}

pub fn locked(name: &'static str) {
    if is_main(name) {
        with(|record| {
            record.owner = Some(me());
            record.note();
        });
    }
}

pub fn unlocks(name: &'static str, value: *const ()) {
    if !is_main(name) {
        return;
    }
    with(|record| {
        record.owner = None;
        if record.of == Of::Batch {
            record.inside = batch::inside(value);
        }
        let me = me();
        if record.of == Of::Turns {
            let free;
            (free, record.inside) = turns::inside(value);
            // Who makes them fewer has one now.
            if free != record.word {
                record.hand[me] = u8::from(free < record.word);
            }
            record.word = free;
        }
        if me <= TASKS && record.of == Of::Leases {
            record.take(me);
        }
        record.note();
    });
}
