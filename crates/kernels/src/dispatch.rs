//! Launches of kernels: what an op becomes on a device that compiles kernels.

use smallvec::{SmallVec, smallvec};
use streampool_device::{DType, Span, View};

/// The most groups along each axis of a grid, as CUDA counts them; Metal counts farther.
const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// The most bytes of scratch memory that a plan may ask for: more than any device has, and any offset within is a number
/// that can be added to an address.
const MOST_SCRATCH: usize = 1 << 47;

/// The groups of a grid. A number that is too large for any stays so, and [`Plan::fits`] refuses it.
#[inline]
pub(crate) fn grid(groups: [usize; 3]) -> [u32; 3] {
    groups.map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// What a device can hold at once, as far as it decides how an op is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processors that run groups at the same time.
    pub compute_units: u32,
    /// The most bytes of memory that the threads of a group share.
    pub shared_bytes: u32,
    /// The most operands of a kernel.
    pub buffers: u32,
}

/// The launches of kernels `K` that execute one op, in order.
#[derive(Debug, Clone)]
pub struct Plan<K> {
    /// Each sees what the ones before it wrote. They are large, and handed on several times for each command.
    pub dispatches: SmallVec<[Box<Dispatch<K>>; 1]>,
    /// Bytes of memory they share, of no meaning before and after. The device lends it.
    pub scratch: usize,
}

/// No launches.
impl<K> Default for Plan<K> {
    fn default() -> Self {
        Plan {
            dispatches: SmallVec::new(),
            scratch: 0,
        }
    }
}

impl<K> Plan<K> {
    /// One launch.
    #[inline]
    pub(crate) fn of(dispatch: Dispatch<K>) -> Plan<K> {
        Plan {
            dispatches: smallvec![Box::new(dispatch)],
            scratch: 0,
        }
    }

    /// Launches that share so many bytes of scratch memory.
    pub(crate) fn with_scratch(
        scratch: usize,
        dispatches: impl IntoIterator<Item = Dispatch<K>>,
    ) -> Plan<K> {
        Plan {
            dispatches: dispatches.into_iter().map(Box::new).collect(),
            scratch,
        }
    }

    /// Whether a device can launch it: grids, threads, sizes that kernels count in 32 bits, and scratch memory.
    pub fn fits(&self) -> bool {
        self.scratch <= MOST_SCRATCH && self.dispatches.iter().all(|dispatch| dispatch.fits())
    }

    /// Appends a launch.
    pub(crate) fn push(&mut self, dispatch: Dispatch<K>) {
        self.dispatches.push(Box::new(dispatch));
    }
}

/// One launch of a kernel.
#[derive(Debug, Clone)]
pub struct Dispatch<K> {
    /// What runs.
    pub kernel: K,
    /// How many groups along each axis, none of them zero.
    pub groups: [u32; 3],
    /// Threads in each group: a multiple of 32, at most 1024.
    pub threads: u32,
    /// The memory it works on, in the order of the kernel's buffers.
    pub operands: SmallVec<[Operand; 4]>,
    /// The values of the kernel's parameters.
    pub params: Params,
}

impl<K> Dispatch<K> {
    fn fits(&self) -> bool {
        let within = |(&count, most): (&u32, u32)| (1..=most).contains(&count);
        self.groups.iter().zip(MOST_GROUPS).all(within)
            && (1..=1024).contains(&self.threads)
            && !self.params.exceeds
    }
}

/// Memory that a kernel works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// Memory of the op. The kernel gets the address of its first byte.
    Memory(Span),
    /// A place in the plan's scratch memory, in bytes from its start.
    Scratch(usize),
}

/// The operands of a kernel of two factors, perhaps a bias, and a result, in this order.
pub(crate) fn operands_of(
    factors: [&View; 2],
    bias: Option<&View>,
    result: &View,
) -> SmallVec<[Operand; 4]> {
    let views = factors.into_iter().chain(bias).chain([result]);
    views.map(|view| Operand::Memory(view.span())).collect()
}

/// How a GPU's copy engine finds tiles of matrices: the tensor map of CUDA, before it is known where the operand lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap {
    /// The operand of the launch.
    pub operand: usize,
    /// How many bytes from its first one the matrices begin.
    pub offset: usize,
    /// A type of 16 bits.
    pub dtype: DType,
    /// Elements of a line, lines of a matrix, and matrices.
    pub sizes: [usize; 3],
    /// Bytes from one line to the next, and from one matrix to the next.
    pub strides: [usize; 2],
    /// Elements of a line and lines of a tile. These lines have 64 or 128 bytes, whose packs of 16 change places.
    pub tile: [u32; 2],
}

/// Bytes of a tensor map among parameters.
pub const MAP_BYTES: usize = 128;

/// The values of a kernel's parameters, laid out as C lays out a struct of them.
#[derive(Debug, Clone, Default)]
pub struct Params {
    /// Where the last field ends.
    length: usize,
    /// Zeros from there on.
    bytes: Vec<u8>,
    /// Whether some size was more than its field may hold.
    exceeds: bool,
    /// What the device writes to the first bytes.
    maps: Vec<TensorMap>,
}

/// Bytes of the parameters of most kernels: they are written for each launch, which should allocate once.
const USUAL: usize = 192;

/// Structs are aligned to their widest fields, and all are taken to have some of eight bytes.
const ALIGNMENT: usize = 8;

impl Params {
    /// None yet.
    #[inline]
    pub fn new() -> Params {
        Params::default()
    }

    /// Appends an unsigned 32-bit field.
    #[inline]
    pub fn u32(self, value: u32) -> Params {
        self.field(value.to_le_bytes())
    }

    /// Appends a size as an unsigned 32-bit field. Kernels round sizes up, and add them to others: so it has 31 bits, and
    /// a launch with one that has more does not fit.
    #[inline]
    pub fn size(self, size: usize) -> Params {
        let exceeds = self.exceeds | (size > i32::MAX as usize);
        let params = self.u32(size as u32);
        Params { exceeds, ..params }
    }

    /// Appends a signed 64-bit field.
    #[inline]
    pub fn i64(self, value: i64) -> Params {
        self.field(value.to_le_bytes())
    }

    /// Appends a 32-bit float.
    #[inline]
    pub fn f32(self, value: f32) -> Params {
        self.field(value.to_le_bytes())
    }

    /// Appends a 64-bit float.
    #[inline]
    pub fn f64(self, value: f64) -> Params {
        self.field(value.to_le_bytes())
    }

    #[inline]
    fn field<const N: usize>(self, value: [u8; N]) -> Params {
        let Params {
            length,
            mut bytes,
            exceeds,
            maps,
        } = self;
        let start = length + length.wrapping_neg() % N;
        let end = start + N;
        if end > bytes.len() {
            bytes = longer(bytes);
        }
        if let Some(place) = bytes.get_mut(start..end) {
            place.copy_from_slice(&value);
        }
        Params {
            length: end,
            bytes,
            exceeds,
            maps,
        }
    }

    /// Puts tensor maps before the fields. The device writes them when it knows where operands lie: here their bytes are zero.
    pub fn after(mut self, maps: impl Into<Vec<TensorMap>>) -> Params {
        self.maps = maps.into();
        let bytes = self.maps.len() * MAP_BYTES;
        self.bytes.splice(0..0, std::iter::repeat_n(0, bytes));
        self.length += bytes;
        self
    }

    /// The tensor maps, whose bytes come first.
    pub fn maps(&self) -> &[TensorMap] {
        &self.maps
    }

    /// The bytes, padded to a multiple of eight as the struct is; at least eight.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self.length {
            0 => &[0; ALIGNMENT],
            length => &self.bytes[..length.next_multiple_of(ALIGNMENT)],
        }
    }
}

/// By value, so that the compiler keeps parameters in registers while they are written.
#[cold]
fn longer(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize((2 * bytes.len()).max(USUAL), 0);
    bytes
}

impl PartialEq for Params {
    fn eq(&self, other: &Params) -> bool {
        self.as_bytes() == other.as_bytes() && self.maps == other.maps
    }
}

impl Eq for Params {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_laid_out_as_a_struct() {
        let params = Params::new().u32(1).i64(2).f32(3.0);
        let mut expected = [0u8; 24];
        expected[0] = 1;
        expected[8] = 2;
        expected[16..20].copy_from_slice(&3f32.to_le_bytes());
        assert_eq!(params.as_bytes()[..], expected);
    }

    #[test]
    fn what_no_device_can_launch_does_not_fit() {
        let dispatch = Dispatch {
            kernel: (),
            groups: [1; 3],
            threads: 32,
            operands: SmallVec::new(),
            params: Params::new().size(i32::MAX as usize),
        };
        let fits = |change: &dyn Fn(&mut Dispatch<()>)| {
            let mut changed = dispatch.clone();
            change(&mut changed);
            Plan::of(changed).fits()
        };
        assert!(fits(&|_| ()));
        assert!(fits(
            &|it| it.groups = grid([i32::MAX as usize, 65_535, 65_535])
        ));
        for groups in [
            [1 << 31, 1, 1],
            [1 << 32, 1, 1],
            [(1 << 32) + 1, 1, 1],
            [1, 1 << 16, 1],
            [1, 1, 1 << 16],
            [0, 1, 1],
        ] {
            assert!(!fits(&|it| it.groups = grid(groups)), "{groups:?}");
        }
        assert!(!fits(&|it| it.threads = 1056));
        for size in [1 << 31, 1 << 32, (1 << 32) + 1] {
            assert!(!fits(&|it| it.params = Params::new().size(size).i64(1)));
        }
        assert!(!Plan::with_scratch(usize::MAX, [dispatch]).fits());
    }

    #[test]
    fn there_is_room_for_many() {
        let params = (0..100).fold(Params::new().u32(7), |params, value| params.i64(value));
        let bytes = params.as_bytes();
        assert_eq!(bytes.len(), 8 + 100 * 8);
        assert_eq!(bytes[..4], 7u32.to_le_bytes());
        for value in 0..100 {
            let at = 8 + value * 8;
            assert_eq!(bytes[at..at + 8], (value as i64).to_le_bytes());
        }
    }
}
