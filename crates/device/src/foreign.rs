//! Calls of code that others gave us. They end here, whatever that code does: panic, or panic with something that
//! panics again when it is dropped.

use std::any::Any;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `call`, whose panic is no panic of the caller's. The panic hook has reported it; what the call was given is
/// dropped inside.
pub fn call<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| Panic(Some(payload)))
}

/// So many times what is left of a panic is dropped, where each time panics anew.
const MOST_PANICS: usize = 8;

/// What a call panicked with.
pub struct Panic(
    /// It is there until it is dropped or resumed.
    Option<Box<dyn Any + Send>>,
);

impl Panic {
    /// What it was, if it is a `T`.
    pub fn payload<T: 'static>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }

    /// What it said.
    pub fn message(&self) -> &str {
        let text = self.payload::<&str>().copied();
        text.or_else(|| self.payload::<String>().map(String::as_str))
            .unwrap_or("without a message")
    }

    /// Goes on with it in this thread.
    pub fn resume(mut self) -> ! {
        resume_unwind(self.0.take().unwrap_or_else(|| Box::new(())))
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        let mut payload = self.0.take();
        for _ in 0..MOST_PANICS {
            match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                Ok(()) => return,
                Err(another) => payload = Some(another),
            }
        }
        // One that panics without end is not tried for as long.
        forget(payload);
    }
}

impl std::fmt::Debug for Panic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    /// Panics when it is dropped, with another like it.
    struct Again;

    impl Drop for Again {
        fn drop(&mut self) {
            panic_any(Again);
        }
    }

    #[test]
    fn a_panic_ends_at_the_call() {
        assert_eq!(call(|| 7).unwrap(), 7);
        assert_eq!(
            call(|| panic!("one")).map(|()| 0).unwrap_err().message(),
            "one"
        );
        let told = call(|| panic!("{} more", 1)).map(|()| 0).unwrap_err();
        assert_eq!(told.message(), "1 more");
        assert_eq!(
            call(|| panic_any(9)).map(|()| 0).unwrap_err().payload(),
            Some(&9)
        );
    }

    #[test]
    fn what_panics_when_it_is_dropped_ends_there_too() {
        let panic = call(|| panic_any(Again)).map(|()| 0).unwrap_err();
        assert_eq!(panic.message(), "without a message");
        drop(panic);
        let resumed = call(|| call(|| panic_any(Again)).unwrap_or_else(|panic| panic.resume()));
        assert!(
            resumed
                .map(|()| 0)
                .unwrap_err()
                .payload::<Again>()
                .is_some()
        );
    }
}
