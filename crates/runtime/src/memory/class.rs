//! Size classes: eight to each doubling, so that a block wastes an eighth at most.

use crate::{Error, Result};

/// Every block begins at a multiple of this and is a multiple of it long.
pub(crate) const GRAIN: usize = 256;

const GRAIN_BITS: u32 = GRAIN.trailing_zeros();
const STEP_BITS: u32 = 3;
const LINEAR: usize = GRAIN << STEP_BITS;

/// One size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    /// Its place among the classes.
    pub index: usize,
    /// How long its blocks are.
    pub bytes: usize,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = Self::index_of(Self::LARGEST) + 1;

    /// The largest block.
    pub const LARGEST: usize = 1 << 40;

    /// The smallest class that holds `bytes`; a block of nothing still has an address.
    pub fn holding(bytes: usize) -> Result<Class> {
        if bytes > Self::LARGEST {
            return Err(Error::TooLarge {
                requested: bytes,
                largest: Self::LARGEST,
            });
        }
        let grain = 1 << Self::step_bits(bytes);
        Ok(Class {
            index: Self::index_of(bytes),
            bytes: bytes.max(1).next_multiple_of(grain),
        })
    }

    const fn step_bits(bytes: usize) -> u32 {
        if bytes <= LINEAR {
            GRAIN_BITS
        } else {
            (bytes - 1).ilog2() - STEP_BITS
        }
    }

    const fn index_of(bytes: usize) -> usize {
        let last = if bytes == 0 { 0 } else { bytes - 1 };
        let step = Self::step_bits(bytes);
        let doublings = (step - GRAIN_BITS) as usize;
        // Below the first doubling `last >> step` counts from 0, in each later one from 8.
        (doublings << STEP_BITS) + (last >> step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_without_gaps_and_waste_an_eighth_at_most() {
        let mut previous: Option<Class> = None;
        let mut bytes = 1;
        while bytes <= 1 << 26 {
            let class = Class::holding(bytes).unwrap();
            assert!(class.bytes >= bytes && class.bytes.is_multiple_of(GRAIN));
            assert!(class.bytes - bytes < (bytes / 8).max(GRAIN));
            assert_eq!(
                Class::holding(class.bytes).unwrap(),
                class,
                "a class holds its own size"
            );
            if let Some(previous) = previous {
                assert_eq!(class.index, previous.index + 1);
            }
            previous = Some(class);
            bytes = class.bytes + 1;
        }
    }

    #[test]
    fn the_ends_are_inside() {
        assert_eq!(
            Class::holding(0).unwrap(),
            Class {
                index: 0,
                bytes: GRAIN
            }
        );
        assert_eq!(
            Class::holding(Class::LARGEST).unwrap().index,
            Class::COUNT - 1
        );
        assert!(matches!(
            Class::holding(usize::MAX),
            Err(Error::TooLarge { .. })
        ));
    }
}
