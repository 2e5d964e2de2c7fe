//! Which classes there are, and what each is called.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::Ordering;
use std::sync::{Once, RwLock};

use crate::lock::{read, write};
use crate::runtime::Class;
use crate::{foundation, metal, registry, runtime};

static CLASSES: RwLock<BTreeMap<&'static CStr, &'static Class>> = RwLock::new(BTreeMap::new());

/// All classes that stand in statics.
fn fixed() -> impl Iterator<Item = &'static Class> {
    runtime::classes()
        .chain(foundation::classes())
        .chain(metal::classes())
        .chain([&registry::NUMBER])
}

impl Class {
    /// A new class that nobody finds by name until it is registered.
    pub(crate) fn allocate(
        name: &CStr,
        superclass: Option<&'static Class>,
    ) -> Option<&'static Class> {
        if Class::named(name).is_some() {
            return None;
        }
        let name = Box::leak(name.to_owned().into_boxed_c_str());
        let class: &'static Class = Box::leak(Box::new(Class::new(name, superclass, false, None)));
        class.make();
        Some(class)
    }

    pub(crate) fn register(&'static self) {
        write(&CLASSES).insert(self.name, self);
    }

    /// The class of that name.
    pub fn named(name: &CStr) -> Option<&'static Class> {
        static KNOWN: Once = Once::new();
        KNOWN.call_once(|| fixed().for_each(Class::register));
        read(&CLASSES).get(name).copied()
    }

    /// All classes that have a name.
    pub(crate) fn all() -> Vec<&'static Class> {
        Class::named(c"NSObject");
        read(&CLASSES).values().copied().collect()
    }
}

/// How many objects of each class live, blocks on the heap among them.
pub fn live_objects() -> BTreeMap<String, usize> {
    let classes = Class::all();
    let objects = classes
        .iter()
        .map(|class| (class.to_string(), class.live.load(Ordering::Relaxed)));
    objects
        .chain([("block".to_owned(), runtime::live_blocks())])
        .filter(|(_, live)| *live > 0)
        .collect()
}
