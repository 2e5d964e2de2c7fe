//! What runs round each wrapped method: the guard, and the look at what was created.

use std::cell::Cell;
use std::io::Write;
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::foreign::Object;
use super::handlers;
use super::runtime::Class;
use super::wrapping::{self, Watch};
use crate::logic::figures::Figure;
use crate::logic::guard::{Guard, Pass, Verdict, World};
use crate::logic::guarded::{Call, Destructor, Purpose, Thread, What};
use crate::logic::kind::{Kind, Role};
use crate::logic::settings::Settings;
use crate::trampoline::{Way, Wrapper, is_under_way};

/// This process, for the guard.
pub struct Process;

static GUARD: OnceLock<Guard<Process>> = OnceLock::new();

/// The process's guard, if there is one.
pub fn guard() -> Option<&'static Guard<Process>> {
    GUARD.get()
}

/// The process's guard. The first settings hold.
pub fn guard_with(settings: Settings) -> &'static Guard<Process> {
    GUARD.get_or_init(|| Guard::new(settings, Process))
}

/// Tells the user. Nothing can be done where nobody listens.
pub fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "agx-fix: {message}");
}

impl World for Process {
    fn destroy(&self, object: usize, destructor: Destructor) {
        type Method = extern "C" fn(usize, usize);
        // SAFETY: the address is of the `dealloc` that was to be called on the object, which takes no argument.
        let method: Method = unsafe { transmute(destructor.method as *const ()) };
        method(object, destructor.selector);
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn say(&self, message: &str) {
        say(message);
    }

    fn abort(&self) {
        std::process::abort();
    }
}

/// This thread.
pub fn this_thread() -> Thread {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        // Without a destructor, so that it is there until the very end of the thread.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        Thread(number.get())
    })
}

/// Wraps a class, if that was not done before.
pub fn learn(guard: &Guard<Process>, class: Class, role: Role) {
    let Some(outcome) = wrapping::wrap(class, role) else {
        return;
    };
    let thread = this_thread();
    guard.figures.add(thread, Figure::Classes, 1);
    guard.figures.add(thread, Figure::Methods, outcome.methods);
    guard
        .figures
        .add(thread, Figure::MethodsLeftOut, outcome.left_out);
    if outcome.left_out > 0 {
        say(&format!(
            "there are no stubs left for {} methods of class {}: calls of those are not guarded",
            outcome.left_out,
            class.name()
        ));
    }
    if guard.settings.verbose {
        say(&format!(
            "{} methods of class {} are wrapped ({role:?})",
            outcome.methods,
            class.name()
        ));
    }
}

/// Wraps the class of an object, if that was not done before. Nil has none.
///
/// # Safety
/// The object is nil or alive.
pub unsafe fn learn_of(guard: &Guard<Process>, object: Object, role: Role) {
    // SAFETY: the caller vouches for the object.
    if let Some(class) = unsafe { Class::of(object) } {
        learn(guard, class, role);
    }
}

impl From<Verdict> for Way {
    fn from(verdict: Verdict) -> Way {
        match verdict {
            Verdict::Guarded(pass) => Way::Watched(Some(pass)),
            Verdict::Plain => Way::Straight,
            Verdict::Refused => Way::Refused,
        }
    }
}

impl Wrapper for Watch {
    fn before(&'static self, object: usize, argument: usize) -> Way {
        let Some(guard) = guard() else {
            return Way::Straight;
        };
        let thread = this_thread();
        let Some(what) = self.guards else {
            if self.kind == Kind::Create(Role::CommandBuffer) {
                guard.before_command_buffer(thread, object);
            }
            return Way::Watched(None);
        };
        // What the driver asks of a command buffer in a call on an encoder belongs to that call, and must not wait.
        let is_drivers = what == What::CommandBuffer && is_under_way(Pass::is_in_encoder);
        let purpose = match self.kind {
            Kind::Create(_) if is_drivers => return Way::Watched(None),
            Kind::Use(_) if is_drivers => return Way::Straight,
            Kind::Show if what == What::CommandBuffer => return Way::Watched(None),
            Kind::Create(_) if what == What::CommandBuffer => Purpose::Apart,
            Kind::Create(_) => Purpose::Encode,
            Kind::Show => Purpose::Other,
            Kind::Use(purpose) => purpose,
            Kind::Begin => {
                guard.created(thread, what, object);
                Purpose::Other
            }
            Kind::Destroy => {
                let destructor = Destructor {
                    method: self.original,
                    selector: self.selector,
                };
                return guard.destroy(thread, what, object, destructor).into();
            }
        };
        let name = &self.name;
        let call = Call { name, purpose };
        let verdict = guard.enter(thread, what, object, call);
        if let (Verdict::Refused, Some(wait)) = (&verdict, self.wait)
            && guard.is_committed(object)
        {
            // SAFETY: the command buffer was not given up, and is called with a handler.
            let called = unsafe { handlers::call_late(object as Object, argument as Object, wait) };
            if let Err(error) = called {
                say(&format!("there is no thread to call a handler on: {error}"));
            }
        }
        verdict.into()
    }

    fn after(&self, object: usize, pass: Option<Pass>, result: usize) {
        let Some(guard) = guard() else {
            return;
        };
        let thread = this_thread();
        if let Some(role) = self.kind.returns() {
            // SAFETY: the object was just returned to its user.
            unsafe { learn_of(guard, result as Object, role) };
        }
        match (self.kind, &pass) {
            _ if result == 0 => {}
            (Kind::Create(Role::CommandBuffer), _) => guard.made(thread, result, object),
            (Kind::Create(Role::Encoder), Some(pass)) if !pass.is_in_encoder() => {
                guard.opened(thread, result, pass);
            }
            (Kind::Create(Role::Encoder), _) => {
                guard.created(thread, What::Encoder, result);
            }
            (Kind::Show, _) => guard.shown(thread, result),
            _ => {}
        }
        if let Some(pass) = pass {
            guard.leave(thread, pass);
        }
    }

    fn abandoned(&self, pass: Option<Pass>) {
        if let (Some(guard), Some(pass)) = (guard(), pass) {
            guard.abandon(this_thread(), pass);
        }
    }

    fn too_deep(&self) {
        if let Some(guard) = guard() {
            guard.figures.add(this_thread(), Figure::TooDeep, 1);
        }
    }
}
