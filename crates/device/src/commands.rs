//! What every device checks of a command that is no op, beside [`Op::validate`](crate::Op::validate).

use crate::{Error, Fault, HostSlice, OpKind, Result, Span, Tick};

/// Whether so many bytes fit into `dst`, as [`Queue::upload`](crate::Queue::upload) demands.
pub fn check_upload(dst: Span, bytes: usize) -> Result<()> {
    if bytes <= dst.bytes {
        return Ok(());
    }
    let expected = format!("at most {}, the size of the span", dst.bytes);
    Err(wrong_size(OpKind::Upload, "bytes", bytes, expected))
}

/// Whether `into` is as long as `src`, as [`Queue::download`](crate::Queue::download) demands.
pub fn check_download(src: Span, into: &HostSlice) -> Result<()> {
    if into.bytes == src.bytes {
        return Ok(());
    }
    let expected = format!("{}, the size of the span", src.bytes);
    Err(wrong_size(OpKind::Download, "into", into.bytes, expected))
}

/// Whether there is a command of `tick` to wait for on a queue whose last is `appended`.
#[inline]
pub fn check_wait(tick: Tick, appended: Tick) -> Result<()> {
    match tick <= appended {
        true => Ok(()),
        false => Err(never_appended(tick, appended)),
    }
}

#[cold]
fn never_appended(tick: Tick, appended: Tick) -> Error {
    Error::Invalid {
        what: "the tick to wait for",
        got: tick.to_string(),
        expected: format!("at most {appended}, the last one of its queue"),
    }
}

/// How the work of `tick` ended, on a queue that `fault` poisons: what was before the fault succeeded.
#[inline]
pub fn outcome(tick: Tick, fault: Option<Fault>) -> Result<()> {
    match fault {
        Some(fault) if tick >= fault.tick() => Err(Error::Fault(fault)),
        _ => Ok(()),
    }
}

fn wrong_size(op: OpKind, argument: &'static str, got: usize, expected: String) -> Error {
    Error::InvalidOp {
        op,
        argument,
        got: format!("{got} bytes"),
        expected,
    }
}
