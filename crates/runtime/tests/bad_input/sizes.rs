//! Sizes beyond what there is.

use streampool_runtime::DType;

use crate::{Case, done};

pub const CASES: &[Case] = &[
    (
        "an absurd allocation",
        |w| done(w.stream.allocate(usize::MAX)?),
        &["18446744073709551615 bytes", "at most"],
    ),
    (
        "more than the device has",
        |w| done(w.stream.allocate(1 << 30)?),
        &[
            "out of memory",
            "1073741824 bytes",
            "268435456",
            "STREAMPOOL_HOST_MEMORY",
        ],
    ),
    (
        "a shape that overflows",
        |w| done(w.buffer().read(DType::F32, &[usize::MAX, 3])?),
        &["number of elements", "[18446744073709551615, 3]"],
    ),
    (
        "a shape larger than the buffer",
        |w| done(w.buffer().read(DType::F32, &[65])?),
        &["[65]", "elements 0 to 63"],
    ),
    (
        "a rank that is too high",
        |w| done(w.buffer().read(DType::F32, &[1; 9])?),
        &["rank", "9", "at most 8"],
    ),
    (
        "data longer than the buffer",
        |w| done(w.stream.upload(&mut w.buffer(), &[0u8; 257])?),
        &["257", "at most 256"],
    ),
    (
        "a place longer than the buffer",
        |w| Ok(w.stream.download_into(&w.buffer(), &mut [0f32; 65])?),
        &["260", "at most 256"],
    ),
];
