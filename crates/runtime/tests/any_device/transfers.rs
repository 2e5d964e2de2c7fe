//! Uploads and downloads of every size: at once where the stream is idle and behind its work where it is not, through
//! blocks the host shares with the GPU and around them.

use streampool_runtime::{Buffer, Stream};

use super::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// On both sides of every border: words, the smallest and the largest block, powers of two between them.
const SIZES: [usize; 18] = [
    1,
    2,
    3,
    4,
    5,
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
fn bytes_come_back_as_they_went_by_either_way() {
    with_device(|device| {
        let pool = pool(&device, 4);
        let (one, other) = (pool.stream(1).unwrap(), pool.stream(2).unwrap());
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            let sent = pattern(bytes, seed);
            for busy in [false, true] {
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
    with_device(|device| {
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
            let mut start = vec![0u8; part.len() + 1];
            stream.download_into(&buffer, &mut start).unwrap();
            let all = stream.download::<u8>(&buffer).unwrap();
            assert_eq!(all[..part.len()], part);
            assert_eq!(all[part.len()..], whole[part.len()..]);
            assert_eq!(start, all[..start.len()]);
        }
    });
}

#[test]
fn eight_threads_copy_at_once() {
    with_device(|device| {
        let pool = pool(&device, 16);
        on_threads(8, |number| {
            let stream = pool.current().unwrap();
            for round in 0..rounds(40) {
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
