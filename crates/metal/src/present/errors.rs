//! What Metal's errors mean for the device, and what can be done about them.

use objc2_foundation::NSError;
use objc2_metal::MTLCommandBufferError as Code;
use streampool_device::Error;

use super::objects::message;

/// A call that Metal refused, before anything of it was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub &'static str);

impl Refused {
    pub fn error(self, device: &str) -> Error {
        Error::Driver {
            device: device.to_owned(),
            call: self.0,
            message: "it returned nil".to_owned(),
        }
    }
}

/// No header has it. In reports from macOS 26 its text is "Impacting Interactivity".
const IMPACTING_INTERACTIVITY: isize = 14;

/// Codes after which nothing of this process works on the GPU any more: it is gone, or the system refuses what the process
/// commits ("Ignored (for causing prior/excessive GPU errors)", flutter#146011).
const LOST: [Code; 3] = [Code::DeviceRemoved, Code::AccessRevoked, Code::NotPermitted];

/// Whether the device is lost with it.
pub(crate) fn is_lost(code: isize) -> bool {
    LOST.iter().any(|lost| lost.0 as isize == code)
}

/// What Metal says of an error, and what to do where that is known.
pub(crate) fn explained(error: &NSError) -> String {
    let said = message(error);
    match advice(error.code(), &said) {
        Some(advice) => format!("{said}. {advice}"),
        None => said,
    }
}

/// Whether an error of the compiler says nothing of the text, but that the process that compiles is gone (omlx#1335,
/// flutter#68649).
pub(crate) fn is_compiler_gone(log: &str) -> bool {
    ["MTLCompilerService", "XPC_ERROR_CONNECTION"]
        .iter()
        .any(|sign| log.contains(sign))
}

/// Metal's code may be another than that in the text, so the text counts, too.
fn advice(code: isize, said: &str) -> Option<&'static str> {
    let is = |known: isize, text: &str| code == known || said.contains(text);
    if is(IMPACTING_INTERACTIVITY, "ImpactingInteractivity") {
        return Some(
            "The system stopped work that kept a display waiting: divide it (smaller batches, shorter sequences), or let the \
             display sleep. AGX_RELAX_CDM_CTXSTORE_TIMEOUT=1 helped some, at the price of a display that stutters",
        );
    }
    is(Code::Timeout.0 as isize, "ErrorTimeout").then_some(
        "The system stopped work that took too long: divide it (smaller batches, shorter sequences)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_kept_the_gpu_for_too_long_is_told_what_to_do() {
        let interactivity = "(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)";
        let timeout = "(00000002:kIOGPUCommandBufferCallbackErrorTimeout)";
        for (code, said) in [(14, ""), (1, interactivity)] {
            assert!(advice(code, said).is_some_and(|told| told.contains("display")));
        }
        for (code, said) in [(2, ""), (1, timeout)] {
            assert!(advice(code, said).is_some_and(|told| told.contains("divide")));
        }
        assert_eq!(advice(3, "Caused GPU Address Fault Error"), None);
    }
}
