//! A message in pieces, as the parser takes it: what is large lies in a piece of its own, and is taken out uncopied.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Pieces that follow each other. None is empty.
#[derive(Default)]
pub struct Pieces {
    pieces: VecDeque<Bytes>,
    length: usize,
}

impl Pieces {
    /// Adds a piece at the end.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.length += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Takes `count` bytes, or fewer if the first piece ends before.
    fn front(&mut self, count: usize) -> Bytes {
        let Some(piece) = self.pieces.front_mut() else {
            return Bytes::new();
        };
        let taken = piece.split_to(count.min(piece.len()));
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        self.length -= taken.len();
        taken
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| piece)
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.length, "{count} bytes of {}", self.length);
        while count > 0 {
            count -= self.front(count).len();
        }
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        assert!(count <= self.length, "{count} bytes of {}", self.length);
        let first = self.front(count);
        if first.len() == count {
            return first;
        }
        let mut all = BytesMut::from(&first[..]);
        all.put(self.take(count - first.len()));
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Pieces {
        let mut pieces = Pieces::default();
        for piece in [&[1, 2, 3][..], &[], &[4, 5], &[6]] {
            pieces.push(Bytes::from(piece.to_vec()));
        }
        pieces
    }

    #[test]
    fn what_is_whole_is_taken_uncopied_and_what_is_apart_joined() {
        let mut pieces = pieces();
        let address = pieces.chunk().as_ptr();
        assert_eq!(pieces.remaining(), 6);
        let first = pieces.copy_to_bytes(2);
        assert_eq!((&first[..], first.as_ptr()), (&[1, 2][..], address));
        assert_eq!(pieces.copy_to_bytes(3)[..], [3, 4, 5]);
        assert_eq!((pieces.remaining(), pieces.chunk()), (1, &[6][..]));
        assert!(pieces.copy_to_bytes(0).is_empty());
        assert_eq!((pieces.get_u8(), pieces.has_remaining()), (6, false));
        assert!(pieces.copy_to_bytes(0).is_empty() && pieces.chunk().is_empty());
    }

    #[test]
    fn numbers_go_over_from_piece_to_piece() {
        let mut pieces = pieces();
        pieces.advance(2);
        assert_eq!(pieces.get_u32_le(), u32::from_le_bytes([3, 4, 5, 6]));
    }
}
