//! Uploads and downloads of every size: by the host itself where the stream is idle, else through staging blocks.

use streampool_runtime::{Buffer, Stream};

use crate::common::{Stage, device};
use crate::work::*;
use crate::{PATIENCE, keep_busy, pool};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// On both sides of every border: words, the smallest and the largest staging block, powers of two between them.
const SIZES: [usize; 14] = [
    1,
    2,
    3,
    4,
    255,
    4 * KIB - 1,
    4 * KIB,
    4 * KIB + 1,
    8 * KIB,
    8 * KIB + 1,
    MIB + 7,
    4 * MIB - 1,
    4 * MIB,
    4 * MIB + 1,
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
fn bytes_come_back_as_they_went_by_either_way() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 4);
        let (one, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            for busy in [false, true] {
                let sent = pattern(bytes, seed);
                if busy {
                    keep_busy(one);
                }
                let mut source = sent.clone();
                let buffer = uploaded(one, &source);
                // They were taken when the upload returned.
                source.fill(0);
                for reader in [one, other] {
                    let got = reader.download::<u8>(&buffer).unwrap();
                    assert!(got == sent, "{bytes} bytes came back otherwise");
                }
            }
        }
    });
}

#[test]
fn a_part_is_copied_and_the_rest_stays() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    let pool = pool(&device, 4);
    let stream = pool.stream(1).unwrap();
    for busy in [false, true] {
        let whole = pattern(10 * KIB, 2);
        let mut buffer = uploaded(stream, &whole);
        if busy {
            keep_busy(stream);
        }
        let part = pattern(4 * KIB + 5, 3);
        stream.upload(&mut buffer, &part).unwrap();
        let all = stream.download::<u8>(&buffer).unwrap();
        assert_eq!(all[..part.len()], part);
        assert_eq!(all[part.len()..], whole[part.len()..]);
    }
}

#[test]
fn eight_threads_copy_at_once() {
    let _stage = Stage::new();
    let Some(device) = device() else { return };
    within(PATIENCE, || {
        let pool = pool(&device, 16);
        on_threads(8, |number| {
            let stream = pool.current().unwrap();
            for round in 0..rounds(40) {
                let bytes = match round % 4 {
                    0 => 100 + number,
                    1 => 4 * KIB + round,
                    2 => 300 * KIB + number,
                    _ => MIB + round - 20,
                };
                let sent = pattern(bytes, number * 40 + round);
                let buffer = uploaded(stream, &sent);
                assert!(stream.download::<u8>(&buffer).unwrap() == sent, "{bytes}");
            }
        });
        assert_all_returned(&pool);
    });
}
