//! What the functions of this library return.

/// Why nothing was wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This is not an Apple system.
    #[error("there is no Metal here: agx-fix is for Apple's systems")]
    NoMetal,
    /// Metal has no device.
    #[error("Metal has no device: it needs a GPU that this process may use")]
    NoDevice,
    /// The device does not do what every device does.
    #[error("the device returned nothing for `{0}`, so its classes cannot be found out")]
    Refused(&'static str),
}

/// Whether the wrapping is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// How many methods were wrapped.
    pub methods: usize,
    /// Those that run something else by now, because somebody else replaced them.
    pub displaced: Vec<String>,
}
