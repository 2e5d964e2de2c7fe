//! The defects of Apple's stack that are known to hurt threads, and what this device does about each.

use streampool_device::Quirk;

/// What is done about a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is worked around, unless [`MetalOptions::without`](crate::MetalOptions::without) says not to.
    InForce,
    /// The call that has it is never made, so there is nothing to switch.
    NotCalled,
}

/// A defect of Apple's stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppleQuirk {
    /// The quirk, by the name that all devices share.
    pub quirk: Quirk,
    /// The call that has it.
    pub call: &'static str,
    /// The systems that it was reported on, and where.
    pub systems: &'static str,
    /// Whether anything has to be done.
    pub answer: Answer,
    /// What is done, or why nothing has to be.
    pub how: &'static str,
}

/// All of them. None is left to the runtime: what is in force is in force inside this device.
pub const APPLE_QUIRKS: [AppleQuirk; 5] = [
    AppleQuirk {
        quirk: Quirk::SharedMatMulState,
        call: "MPSNDArrayMatrixMultiplication",
        systems: "not established; multithreaded use of PyTorch's MPS backend",
        answer: Answer::NotCalled,
        how: "products are kernels of ours, by simdgroup matrices where there are, which share nothing",
    },
    AppleQuirk {
        quirk: Quirk::NormBoundToThread,
        call: "layer normalisation of MPSGraph",
        systems: "not established; multithreaded use of PyTorch's MPS backend",
        answer: Answer::NotCalled,
        how: "normalisation is a kernel of ours, bound to no thread",
    },
    AppleQuirk {
        quirk: Quirk::EncoderFreedInUse,
        call: "computeCommandEncoder, blitCommandEncoder, their release, and where the driver ends them at last: commit, or the release of a buffer that is not committed (wgpu#7816)",
        systems: "macOS 26.3.1 with the AGX driver (mlx#3216, omlx#173), and M1 by wgpu#7816; pytorch#197805 on 26.5.1 looks alike, by PyTorch's own doing",
        answer: Answer::InForce,
        how: "encoders are made, ended and released one at a time on the whole device, and so are command buffers committed and given up",
    },
    AppleQuirk {
        quirk: Quirk::StridedCopyRace,
        call: "strided copies of MPSNDArray",
        systems: "not established; multithreaded use of PyTorch's MPS backend",
        answer: Answer::NotCalled,
        how: "strided copies are kernels of ours, without scratch memory",
    },
    AppleQuirk {
        quirk: Quirk::BuffersInFlight(64),
        call: "commandBuffer, which blocks for ever when a queue has too many",
        systems: "all: Metal documents 64 uncompleted buffers for a queue",
        answer: Answer::InForce,
        how: "a queue makes fewer than it has room for and commits one at a time; beyond that, all together commit at most 64",
    },
];

/// Something that was reported from Macs, beside the quirks that all devices share, and what this device does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppleReport {
    /// What is done.
    pub done: &'static str,
    /// What was seen, on which systems and chips, and who told.
    pub seen: &'static str,
}

/// All of them. `doctor` shows them with the device.
pub const APPLE_REPORTS: [AppleReport; 6] = [
    AppleReport {
        done: "keeps nothing resident between buffers, unless told to",
        seen: "the kernel panics on macOS 15 and 26, M1 to M4 (mlx#3186, mlx#3346, omlx#300); slow on macOS 27, M3 Ultra (mlx#4211)",
    },
    AppleReport {
        done: "copies in slices of 2 GiB",
        seen: "longer blits corrupt: copies on macOS 14 (pytorch#124335), fills on macOS 26 (pytorch#161265)",
    },
    AppleReport {
        done: "begins a new command queue after a fault",
        seen: "one that failed stays in error; no system named (WebKit#14567)",
    },
    AppleReport {
        done: "takes error codes 4 and 7 for a lost device",
        seen: "all that the process commits is ignored; macOS and iOS, no version named (flutter#146011)",
    },
    AppleReport {
        done: "says what to do about error codes 2 and 14",
        seen: "macOS 26 stops long work while a display is on, M2 Pro and M5 Max among others (mlx#3267)",
    },
    AppleReport {
        done: "compiles once more where the compiler went away",
        seen: "macOS and iOS, no version named (omlx#1335, flutter#68649)",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MetalOptions;

    #[test]
    fn what_is_in_force_can_be_switched_off_and_nothing_else() {
        for known in APPLE_QUIRKS {
            let without = MetalOptions::default().without(known.quirk);
            let switched = without != MetalOptions::default();
            assert_eq!(switched, known.answer == Answer::InForce, "{}", known.quirk);
        }
    }
}
