//! Scratch memory: how much of it is taken.

/// How much scratch memory a queue takes for so many bytes: a little more, so that what grows slowly is not taken anew each
/// time. On CUDA that would hold up all who launch.
pub fn with_room_to_grow(bytes: usize) -> usize {
    const FEW: usize = 64 << 10;
    let step = 1 << (bytes / 8).max(FEW).ilog2();
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::with_room_to_grow;

    #[test]
    fn scratch_is_little_more_than_what_is_asked_for() {
        for bytes in (0..40).map(|power| (1 << power) + 1) {
            let taken = with_room_to_grow(bytes);
            assert!(taken >= bytes && taken <= bytes + bytes / 8 + (64 << 10));
        }
        assert_eq!(with_room_to_grow(129 << 20), 144 << 20);
        assert_eq!(with_room_to_grow(usize::MAX), usize::MAX);
        // What grows slowly is not taken anew each time.
        let mut taken = (0, 0);
        let mut bytes = 1024.0;
        while bytes < (1 << 30) as f64 {
            if bytes as usize > taken.0 {
                taken = (with_room_to_grow(bytes as usize), taken.1 + 1);
            }
            bytes *= 1.01;
        }
        assert!(taken.1 < 120, "taken {} times", taken.1);
    }
}
