//! Uploads and downloads of every size: through pinned blocks and around them.

use streampool_runtime::{Buffer, Stream};

use crate::common::device;
use crate::work::*;
use crate::{PATIENCE, keep_busy, pool};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// On both sides of every border: the smallest and the largest pinned block, powers of two between them.
const SIZES: [usize; 16] = [
    1,
    2,
    3,
    255,
    4 * KIB - 1,
    4 * KIB,
    4 * KIB + 1,
    8 * KIB,
    8 * KIB + 1,
    MIB + 7,
    2 * MIB,
    4 * MIB - 1,
    4 * MIB,
    4 * MIB + 1,
    16 * MIB + 3,
    64 * MIB,
];

/// Bytes that tell their places, and one seed from another.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes)
        .map(|place| (place.wrapping_mul(0x9e37_79b1) >> 13) as u8 ^ seed as u8)
        .collect()
}

fn uploaded(stream: &Stream, bytes: &[u8]) -> Buffer {
    let mut buffer = stream.allocate(bytes.len()).unwrap();
    stream.upload(&mut buffer, bytes).unwrap();
    buffer
}

#[test]
fn bytes_come_back_as_they_went() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let (one, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            let sent = pattern(bytes, seed);
            let buffer = uploaded(one, &sent);
            for reader in [one, other] {
                let got = reader.download::<u8>(&buffer).unwrap();
                assert!(got == sent, "{bytes} bytes came back otherwise");
            }
        }
    });
}

#[test]
fn the_bytes_of_an_upload_are_taken_at_once() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let stream = pool.stream(1).unwrap();
        for bytes in [5, 4 * KIB, 4 * MIB, 4 * MIB + 1] {
            let sent = pattern(bytes, 1);
            let mut source = sent.clone();
            keep_busy(stream);
            let buffer = uploaded(stream, &source);
            source.fill(0);
            assert!(stream.download::<u8>(&buffer).unwrap() == sent, "{bytes}");
        }
    });
}

#[test]
fn a_part_is_copied_and_the_rest_stays() {
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    let whole = pattern(10 * KIB, 2);
    let mut buffer = uploaded(stream, &whole);
    let part = pattern(4 * KIB + 5, 3);
    stream.upload(&mut buffer, &part).unwrap();
    let mut start = vec![0u8; part.len() + 1];
    stream.download_into(&buffer, &mut start).unwrap();
    assert_eq!(start[..part.len()], part);
    assert_eq!(start[part.len()], whole[part.len()]);
    let all = stream.download::<u8>(&buffer).unwrap();
    assert_eq!(all[part.len()..], whole[part.len()..]);
}

#[test]
fn eight_threads_copy_at_once() {
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 16);
        on_threads(8, |number| {
            let stream = pool.current().unwrap();
            for round in 0..40 {
                let bytes = match round % 4 {
                    0 => 100 + number,
                    1 => 4 * KIB + round,
                    2 => 300 * KIB + number,
                    _ => 4 * MIB + round - 20,
                };
                let sent = pattern(bytes, number * 40 + round);
                let buffer = uploaded(stream, &sent);
                assert!(stream.download::<u8>(&buffer).unwrap() == sent, "{bytes}");
            }
        });
        assert_all_returned(&pool);
    });
}
