//! The device under test, and what a test needs to know beside its trait.

use std::sync::Arc;

use streampool_device::{DType, Device, Op};

/// Makes the next command that executes on the queue of this index fail on the device.
pub type ArmFault = Box<dyn Fn(&Arc<dyn Device>, u32) + Send + Sync>;

/// A device under test.
pub struct Subject {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) other: Option<Arc<dyn Device>>,
    pub(crate) arm_fault: Option<ArmFault>,
    pub(crate) lacks: Vec<DType>,
    pub(crate) refuses: fn(&Op) -> bool,
    pub(crate) each: usize,
}

impl Subject {
    /// A device that nobody else uses while the promise is tested.
    pub fn new(device: Arc<dyn Device>) -> Subject {
        Subject {
            device,
            other: None,
            arm_fault: None,
            lacks: Vec::new(),
            refuses: |_| false,
            each: 1,
        }
    }

    /// Adds a second, different device, whose events and programs the first must refuse.
    pub fn with_other(mut self, other: Arc<dyn Device>) -> Subject {
        self.other = Some(other);
        self
    }

    /// The hardware does not compute in this type: ops that do are refused as
    /// [`Unsupported`](streampool_device::Error::Unsupported), those that only move elements need not be.
    pub fn without(mut self, dtype: DType) -> Subject {
        self.lacks.push(dtype);
        self
    }

    /// The hardware has no way to execute these ops: the device may refuse them as
    /// [`Unsupported`](streampool_device::Error::Unsupported).
    pub fn refusing(mut self, refuses: fn(&Op) -> bool) -> Subject {
        self.refuses = refuses;
        self
    }

    /// Ops are slow here: of what a test draws for them, one in `each` is tried, the first above all.
    pub fn sampled(mut self, each: usize) -> Subject {
        self.each = each;
        self
    }

    /// Adds a way to make the device fail; without one the fault promises are skipped.
    pub fn with_faults(
        mut self,
        arm: impl Fn(&Arc<dyn Device>, u32) + Send + Sync + 'static,
    ) -> Subject {
        self.arm_fault = Some(Box::new(arm));
        self
    }
}

impl From<Arc<dyn Device>> for Subject {
    fn from(device: Arc<dyn Device>) -> Subject {
        Subject::new(device)
    }
}

/// What the closure given to [`suite!`](crate::suite) may return: a device or a [`Subject`], or why there
/// is none here.
pub trait Opened {
    /// The subject, or the reason to skip.
    fn opened(self) -> Result<Subject, String>;
}

impl<T: Into<Subject>> Opened for Result<T, String> {
    fn opened(self) -> Result<Subject, String> {
        self.map(Into::into)
    }
}

impl<T: Into<Subject>> Opened for Option<T> {
    fn opened(self) -> Result<Subject, String> {
        self.map(Into::into)
            .ok_or_else(|| "there is no such device here".to_owned())
    }
}

/// Prints why a promise is not tested on this device.
pub(crate) fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}
