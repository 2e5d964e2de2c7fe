//! Where in one block each piece of memory lies, given from when to when each is in use.

/// Every piece begins at a multiple of this, as allocations do.
pub const ALIGNMENT: usize = 256;

/// A piece of memory, and the steps in which it is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its size.
    pub bytes: usize,
    /// The first step that touches it.
    pub first: usize,
    /// The last step that touches it.
    pub last: usize,
}

/// The offset of each piece, and the size of the block: pieces that are in use in one step do not overlap.
///
/// The largest are placed first, each as low as it fits: then what is small fills the gaps.
pub fn arrange(pieces: &[Piece]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&piece| (std::cmp::Reverse(pieces[piece].bytes), pieces[piece].first));
    let mut offsets = vec![0; pieces.len()];
    // What is placed, by offset.
    let mut placed: Vec<usize> = Vec::new();
    let mut size = 0;
    for piece in order {
        let wanted = &pieces[piece];
        let bytes = padded(wanted.bytes);
        let mut offset = 0;
        for &other in &placed {
            let taken = &pieces[other];
            if taken.last < wanted.first || wanted.last < taken.first {
                continue;
            }
            if offsets[other] >= offset + bytes {
                break;
            }
            offset = offset.max(offsets[other] + padded(taken.bytes));
        }
        offsets[piece] = offset;
        size = size.max(offset + bytes);
        let place = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(place, piece);
    }
    (offsets, size)
}

/// As much as a piece of this size takes.
pub fn padded(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(bytes: usize, first: usize, last: usize) -> Piece {
        Piece { bytes, first, last }
    }

    #[test]
    fn a_chain_takes_turns() {
        let chain: Vec<Piece> = (0..9).map(|step| piece(1000, step, step + 1)).collect();
        assert_eq!(arrange(&chain).1, 2 * 1024);
    }

    #[test]
    fn small_ones_fill_gaps() {
        let pieces = [piece(4096, 0, 1), piece(256, 1, 2), piece(4096, 2, 3)];
        assert_eq!(arrange(&pieces), (vec![0, 4096, 0], 4352));
    }

    proptest! {
        #[test]
        fn nothing_overlaps(spans in prop::collection::vec((0usize..5000, 0usize..40, 0usize..12), 0..60)) {
            let pieces: Vec<Piece> =
                spans.iter().map(|&(bytes, first, steps)| piece(bytes, first, first + steps)).collect();
            let (offsets, size) = arrange(&pieces);
            for (a, one) in pieces.iter().enumerate() {
                prop_assert!(offsets[a] % ALIGNMENT == 0 && offsets[a] + one.bytes <= size);
                for (b, other) in pieces.iter().enumerate().skip(a + 1) {
                    let together = one.first <= other.last && other.first <= one.last;
                    let apart = offsets[a] + padded(one.bytes) <= offsets[b]
                        || offsets[b] + padded(other.bytes) <= offsets[a];
                    prop_assert!(!together || apart);
                }
            }
        }
    }
}
