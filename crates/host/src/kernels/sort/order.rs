//! Putting ranks in order.

use super::key::Ranked;
use crate::kernels::scratch::{Count, extend, filled, reserve, with_room};
use crate::kernels::split::Shared;
use crate::team::Team;

/// Of more than this many, a few are chosen without ordering the others.
const FEW: usize = 4;
/// From this many on, a pass for each byte of the keys is faster than comparisons.
const MANY: usize = 1 << 12;
/// Ranks that are worth a thread.
const GRAIN: usize = 1 << 15;

/// Leaves in `into` the first `wanted` of `ranks` in their order. Only the lowest `bytes` bytes of their keys
/// differ, and they come in the order of their places.
pub(super) fn first<R: Ranked>(
    ranks: impl ExactSizeIterator<Item = R>,
    wanted: usize,
    bytes: usize,
    team: &dyn Team,
    into: &mut Vec<R>,
) {
    into.clear();
    if ranks.len() / FEW >= wanted {
        return choose(ranks, wanted, into);
    }
    extend(into, ranks);
    let pieces = team.width().min(into.len() / GRAIN).max(1);
    let length = into.len().div_ceil(pieces);
    let total = into.len();
    let ranks = Shared(into.as_mut_ptr());
    team.run(pieces, &|piece| {
        let start = (piece * length).min(total);
        let count = length.min(total - start);
        // SAFETY: the pieces are disjoint parts of the vector, which this call alone has.
        let piece = unsafe { std::slice::from_raw_parts_mut(ranks.at(start as isize), count) };
        order(piece, bytes);
    });
    // Sorted pieces are what this sort looks for, and merges.
    if pieces > 1 {
        // It works in as much memory again, and would end the process without: it is asked for first.
        drop(with_room::<R>(Count::of(into.len())));
        into.sort();
    }
    into.truncate(wanted);
}

/// The first `wanted` in their order, without ordering the others: what is not below the last of those found so
/// far is passed over.
fn choose<R: Ranked>(ranks: impl Iterator<Item = R>, wanted: usize, into: &mut Vec<R>) {
    let room = (FEW * wanted).max(256);
    reserve(into, Count::of(room));
    let mut limit = R::LAST;
    for rank in ranks {
        if rank < limit {
            into.push(rank);
            if into.len() == room {
                into.select_nth_unstable(wanted - 1);
                into.truncate(wanted);
                limit = into[wanted - 1];
            }
        }
    }
    into.sort_unstable();
    into.truncate(wanted);
}

fn order<R: Ranked>(ranks: &mut [R], bytes: usize) {
    if ranks.len() < MANY {
        ranks.sort_unstable();
    } else {
        by_bytes(ranks, bytes);
    }
}

/// Orders ranks that come in the order of their places, byte by byte of their keys from the lowest on.
fn by_bytes<R: Ranked>(ranks: &mut [R], bytes: usize) {
    let mut counts = [[0usize; 256]; 8];
    for &rank in &*ranks {
        for (byte, counts) in counts[..bytes].iter_mut().enumerate() {
            counts[usize::from(rank.byte(byte))] += 1;
        }
    }
    let mut other = filled(R::LAST, Count::of(ranks.len()));
    let (mut from, mut to) = (&mut *ranks, &mut other[..]);
    let mut moved = false;
    for (byte, counts) in counts[..bytes].iter_mut().enumerate() {
        if counts.contains(&from.len()) {
            continue;
        }
        let mut before = 0;
        for count in counts.iter_mut() {
            before += std::mem::replace(count, before);
        }
        for &rank in &*from {
            let place = &mut counts[usize::from(rank.byte(byte))];
            to[*place] = rank;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
        moved = !moved;
    }
    if moved {
        // `from` is the other memory.
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::Solo;

    fn keys(count: usize) -> Vec<u64> {
        (0..count as u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)
            .collect()
    }

    #[test]
    fn every_way_comes_to_the_same() {
        for count in [1, 2, 255, 256, MANY - 1, MANY, MANY + 1, 3 * GRAIN] {
            let ranks: Vec<u64> = (0..)
                .zip(keys(count))
                .map(|(place, key)| Ranked::new(key, place))
                .collect();
            let mut expected = ranks.clone();
            expected.sort_unstable();
            for wanted in [1, 2, count / 5 + 1, count / 4, count / 2 + 1, count] {
                if wanted == 0 || wanted > count {
                    continue;
                }
                let mut got = Vec::new();
                first(ranks.iter().copied(), wanted, 4, &Solo, &mut got);
                assert_eq!(got, expected[..wanted], "{wanted} of {count}");
            }
        }
    }
}
