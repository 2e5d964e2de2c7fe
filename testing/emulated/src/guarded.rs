//! Memory that begins poisoned, and tells whether somebody wrote beside it.

/// What poisoned bytes are: a NaN of every float type.
pub const POISON: u8 = 0xff;
/// Bytes on either side that nobody may write: as many as a tile of a kernel reaches over.
const ZONE: usize = 64 << 10;
/// What device memory is aligned to.
const ALIGNMENT: usize = 256;

#[derive(Clone, Copy)]
#[repr(align(256))]
struct Block(#[allow(dead_code, reason = "all blocks are read as one")] [u8; ALIGNMENT]);

/// So many bytes between two zones.
pub struct Guarded {
    blocks: Vec<Block>,
    start: usize,
    length: usize,
}

impl Guarded {
    /// `length` bytes that lie at `offset` in memory that is aligned as a device's is.
    pub fn new(length: usize, offset: usize) -> Guarded {
        let start = ZONE + offset % ALIGNMENT;
        let count = (start + length + ZONE).div_ceil(ALIGNMENT);
        Guarded {
            blocks: vec![Block([POISON; ALIGNMENT]); count],
            start,
            length,
        }
    }

    fn all(&self) -> &[u8] {
        // SAFETY: blocks are bytes without padding.
        unsafe {
            std::slice::from_raw_parts(self.blocks.as_ptr().cast(), self.blocks.len() * ALIGNMENT)
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.all()[self.start..self.start + self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the blocks are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.length) }
    }

    /// The first byte.
    pub fn address(&mut self) -> *mut u8 {
        // SAFETY: the start lies inside the blocks.
        unsafe { self.blocks.as_mut_ptr().cast::<u8>().add(self.start) }
    }

    /// Fails if somebody wrote beside it.
    pub fn check(&self, what: &str) -> Result<(), String> {
        let all = self.all();
        let (before, after) = (&all[..self.start], &all[self.start + self.length..]);
        if is_poisoned(before) && is_poisoned(after) {
            return Ok(());
        }
        if let Some(place) = before.iter().rposition(|&byte| byte != POISON) {
            let distance = self.start - place;
            return Err(format!(
                "{what} is written to {distance} bytes before it begins"
            ));
        }
        match after.iter().position(|&byte| byte != POISON) {
            Some(place) => Err(format!("{what} is written to {place} bytes after its end")),
            None => Ok(()),
        }
    }
}

/// Whether all of it still is.
pub fn is_poisoned(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [POISON; 16]) && rest.iter().all(|&byte| byte == POISON)
}
