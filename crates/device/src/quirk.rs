//! Calls of real drivers that are not safe under threads.

/// A defect of a device's driver. Each has a mitigation in the runtime; a device that has it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quirk {
    /// Encoding a matrix product goes through state shared by all queues: two threads encoding one at the
    /// same time corrupt each other.
    SharedMatMulState,
    /// A normalisation kernel, encoded eagerly, works only on the thread that encoded one first. Captured
    /// into a program it belongs to that program and works anywhere.
    NormBoundToThread,
    /// A flush frees its encoder while another queue's encoding may still be using it.
    EncoderFreedInUse,
    /// Two strided copies executing at the same time share a scratch area. Elementwise kernels do not.
    StridedCopyRace,
    /// At most this many flushed, incomplete buffers may exist on the device at a time.
    BuffersInFlight(usize),
}

impl Quirk {
    /// The name of each.
    pub const NAMES: [&str; 5] = [
        Quirk::SharedMatMulState.name(),
        Quirk::NormBoundToThread.name(),
        Quirk::EncoderFreedInUse.name(),
        Quirk::StridedCopyRace.name(),
        Quirk::BuffersInFlight(0).name(),
    ];

    /// The name in settings, statistics and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Quirk::SharedMatMulState => "shared-matmul-state",
            Quirk::NormBoundToThread => "norm-bound-to-thread",
            Quirk::EncoderFreedInUse => "encoder-freed-in-use",
            Quirk::StridedCopyRace => "strided-copy-race",
            Quirk::BuffersInFlight(_) => "buffers-in-flight",
        }
    }
}

impl std::fmt::Display for Quirk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
