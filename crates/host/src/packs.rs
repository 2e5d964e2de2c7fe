//! Constants in the forms that kernels read, each made once and shared by all programs of a device.
//!
//! A form is found by where its constant lies. That is right because a constant does not change as long as a
//! program with it lives, and its form does not outlive the last of those.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use streampool_device::lock::Mutex;
use streampool_device::{Aligned, DType, Layout, View};

use crate::kernels::scratch::LINE;
use crate::kernels::strided::address;
use crate::ranks;

/// What is made of a constant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Matrices as the left operand of a product; of their transposes if `turned`, for the matrix unit if `on_amx`.
    Left { turned: bool, on_amx: bool },
    /// Matrices as the right operand of a product, likewise.
    Right { turned: bool, on_amx: bool },
    /// The weights of a convolution for these taps along each dimension, for the matrix unit if `on_amx`.
    Taps {
        groups: usize,
        transposed: bool,
        on_amx: bool,
        taps: [Vec<usize>; 3],
    },
    /// The weights of a convolution as they meet pictures with the channels last.
    ChannelsLast { groups: usize },
    /// Those of 3 x 3 taps for Winograd's method, with tiles that see so many places along a dimension.
    Winograd { seen: usize },
    /// Recurrent weights whose first so many rows are multiplied with another state than the rest.
    Gates { first: usize },
}

/// A constant in one form.
pub(crate) struct Pack {
    /// Nothing where there was no memory.
    memory: OnceLock<Option<Aligned>>,
}

impl Pack {
    /// Where it lies.
    pub(crate) fn at<T>(&self) -> *const T {
        self.memory()
            .map_or(std::ptr::null(), |memory| memory.first().as_ptr().cast())
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> usize {
        self.memory().map_or(0, Aligned::bytes)
    }

    fn memory(&self) -> Option<&Aligned> {
        self.memory.get()?.as_ref()
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    at: usize,
    dtype: DType,
    layout: Layout,
    form: Form,
}

/// The forms that programs of a device hold.
pub(crate) struct Packs {
    known: Mutex<Known>,
}

struct Known {
    packs: HashMap<Key, Weak<Pack>>,
    /// At so many, those that are gone are forgotten.
    crowded: usize,
}

/// As many are always kept track of.
const FEW: usize = 64;

impl Packs {
    pub(crate) fn new() -> Self {
        let known = Known {
            packs: HashMap::new(),
            crowded: FEW,
        };
        Packs {
            known: Mutex::new(ranks::PACKS, known),
        }
    }

    /// Bytes of all forms that somebody holds.
    pub(crate) fn bytes(&self) -> usize {
        let known = self.known.lock();
        let held = known.packs.values().filter_map(Weak::upgrade);
        held.map(|pack| pack.bytes()).sum()
    }

    /// The form of a constant, which `pack` writes if nobody holds it. Who asks for it meanwhile waits. Nothing if
    /// there is no memory.
    pub(crate) fn get(
        &self,
        constant: &View,
        form: Form,
        bytes: usize,
        pack: impl FnOnce(*mut u8),
    ) -> Option<Arc<Pack>> {
        let key = Key {
            at: address::<u8>(constant).addr(),
            dtype: constant.dtype(),
            layout: *constant.layout(),
            form,
        };
        let found = self.known.lock().find(key);
        found.memory.get_or_init(|| {
            let memory = Aligned::zeroed(bytes.checked_next_multiple_of(LINE)?)?;
            pack(memory.first().as_ptr());
            Some(memory)
        });
        (found.bytes() >= bytes).then_some(found)
    }
}

impl Known {
    fn find(&mut self, key: Key) -> Arc<Pack> {
        if self.packs.len() >= self.crowded {
            self.packs.retain(|_, pack| pack.strong_count() > 0);
            self.crowded = FEW.max(2 * self.packs.len());
        }
        let known = self.packs.entry(key).or_default();
        known.upgrade().unwrap_or_else(|| {
            let pack = Arc::new(Pack {
                memory: OnceLock::new(),
            });
            *known = Arc::downgrade(&pack);
            pack
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::testing::{Buffer, device};

    const RIGHT: Form = Form::Right {
        turned: false,
        on_amx: false,
    };

    #[test]
    fn a_form_is_made_once_while_somebody_holds_it() {
        let device = device(1);
        let buffer = Buffer::new(&device, 8);
        let packs = Packs::new();
        let made = AtomicUsize::new(0);
        let get = |form: Form| {
            let pack = packs.get(&buffer.view(), form, 100, |to| {
                let number = made.fetch_add(1, Ordering::Relaxed);
                // SAFETY: there is room for a hundred bytes.
                unsafe { to.write_bytes(number as u8, 100) };
            });
            pack.unwrap()
        };
        let held: Vec<Arc<Pack>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| get(RIGHT))).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(held.iter().all(|pack| Arc::ptr_eq(pack, &held[0])));
        assert_eq!((made.load(Ordering::Relaxed), held[0].bytes()), (1, 128));
        let other = get(Form::Right {
            turned: true,
            on_amx: false,
        });
        assert!(!Arc::ptr_eq(&other, &held[0]));
        drop(held);
        let again = get(RIGHT);
        assert_eq!(made.load(Ordering::Relaxed), 3);
        // SAFETY: it was written when it was made.
        assert_eq!(unsafe { *again.at::<u8>() }, 2);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let device = device(1);
        let packs = Packs::new();
        for elements in 1..4 * FEW {
            let buffer = Buffer::new(&device, elements);
            assert!(packs.get(&buffer.view(), RIGHT, 4, |_| ()).is_some());
        }
        assert!(packs.known.lock().packs.len() <= FEW);
    }

    #[test]
    fn without_memory_there_is_no_form() {
        let device = device(1);
        let buffer = Buffer::new(&device, 1);
        let packs = Packs::new();
        let refused = packs.get(
            &buffer.view(),
            RIGHT,
            isize::MAX as usize,
            |_| unreachable!(),
        );
        assert!(refused.is_none());
    }
}
