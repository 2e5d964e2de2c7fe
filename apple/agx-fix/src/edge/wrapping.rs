//! Puts stubs in the place of the methods of a class, and looks whether they are still there.

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::runtime::{self, Class, Protocol};
use crate::logic::guarded::{Purpose, What};
use crate::logic::kind::{Kind, Role, kind, wait_for_handler};
use crate::trampoline::{FreeStub, Target, is_stub};

/// Metal's public protocols of encoders, and of what makes them. What else a driver's encoder can do, its driver does with it.
const PUBLIC: [&CStr; 8] = [
    c"MTLCommandBuffer",
    c"MTLCommandEncoder",
    c"MTLComputeCommandEncoder",
    c"MTLBlitCommandEncoder",
    c"MTLRenderCommandEncoder",
    c"MTLParallelRenderCommandEncoder",
    c"MTLResourceStateCommandEncoder",
    c"MTLAccelerationStructureCommandEncoder",
];

/// Methods of the root class that the class of a guarded object has to have, so that its objects are seen to begin and end.
const FROM_THE_ROOT: [&CStr; 2] = [c"init", c"dealloc"];

/// What stands in for a method.
pub struct Watch {
    /// The method, for people.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// Whose it is, if that is guarded.
    pub guards: Option<What>,
    /// If it adds a handler: the message that waits until that is to be called.
    pub wait: Option<&'static CStr>,
    /// Its selector.
    pub selector: usize,
    /// The address of what it was.
    pub original: usize,
}

/// What was wrapped.
#[derive(Default)]
struct Wrapped {
    classes: HashSet<(Class, u8)>,
    stubs: Vec<Stub>,
}

/// A stub that stands before a method.
struct Stub {
    class: Class,
    watch: &'static Watch,
    address: usize,
}

static WRAPPED: LazyLock<RwLock<Wrapped>> = LazyLock::new(RwLock::default);

/// What came of wrapping a class.
pub struct Outcome {
    /// How many methods were wrapped.
    pub methods: u64,
    /// How many would have been, had there been more stubs.
    pub left_out: u64,
}

/// Wraps the methods of a class, its own and what it inherits from all but the root. None, if that was done before.
pub fn wrap(class: Class, role: Role) -> Option<Outcome> {
    let known = (class, role as u8);
    let wrapped = WRAPPED.read().unwrap_or_else(PoisonError::into_inner);
    if wrapped.classes.contains(&known) {
        return None;
    }
    drop(wrapped);
    let mut wrapped = WRAPPED.write().unwrap_or_else(PoisonError::into_inner);
    if !wrapped.classes.insert(known) {
        return None;
    }
    let mut outcome = Outcome {
        methods: 0,
        left_out: 0,
    };
    for (method, kind) in methods(class, role) {
        let Some(stub) = FreeStub::take() else {
            outcome.left_out += 1;
            continue;
        };
        let watch: &'static Watch = Box::leak(Box::new(Watch {
            name: format!("-[{} {}]", class.name(), method.name()),
            kind,
            guards: role.guarded(),
            wait: wait_for_handler(method.name()),
            selector: method.selector as usize,
            original: class.implementation(method.selector),
        }));
        let target = Box::leak(Box::new(Target {
            original: watch.original,
            selector: watch.selector,
            wrapper: watch,
        }));
        let address = stub.stand_before(target);
        // SAFETY: the stub goes on to the method that it replaces.
        unsafe { class.replace(method, address) };
        outcome.methods += 1;
        wrapped.stubs.push(Stub {
            class,
            watch,
            address,
        });
    }
    Some(outcome)
}

/// The methods of a class that are to be wrapped: not those that it inherits from a class that is.
fn methods(class: Class, role: Role) -> Vec<(runtime::Method, Kind)> {
    let public: Vec<Protocol> = PUBLIC.into_iter().filter_map(Protocol::named).collect();
    let mut seen = HashSet::new();
    let mut methods = Vec::new();
    let mut consider = |method: runtime::Method| {
        if !seen.insert(method.selector) || is_stub(class.implementation(method.selector)) {
            return;
        }
        let public = public.iter().any(|protocol| protocol.has(method.selector));
        if let Some(kind) = kind(role, method.name(), method.types(), public) {
            methods.push((method, kind));
        }
    };
    let mut next = Some(class);
    while let Some(definer) = next {
        next = definer.above();
        if next.is_some() {
            definer.own_methods().into_iter().for_each(&mut consider);
        }
    }
    for name in FROM_THE_ROOT {
        if let Some(method) = class.method(runtime::selector(name)) {
            consider(method);
        }
    }
    // Should there not be stubs for all, those that begin and end a life have theirs.
    methods.sort_by_key(|(_, kind)| match kind {
        Kind::Create(_) | Kind::Begin | Kind::Destroy | Kind::Use(Purpose::End) => 0,
        Kind::Show => 0,
        Kind::Use(Purpose::Encode | Purpose::Apart) => 1,
        Kind::Use(Purpose::Other) => 2,
    });
    methods
}

/// How many methods are wrapped, and the names of those that run something else by now.
pub fn check() -> (usize, Vec<&'static str>) {
    let wrapped = WRAPPED.read().unwrap_or_else(PoisonError::into_inner);
    let is_ours = |stub: &&Stub| {
        stub.class
            .implementation(stub.watch.selector as runtime::Selector)
            == stub.address
    };
    let displaced = wrapped.stubs.iter().filter(|stub| !is_ours(stub));
    let displaced = displaced.map(|stub| stub.watch.name.as_str()).collect();
    (wrapped.stubs.len(), displaced)
}
