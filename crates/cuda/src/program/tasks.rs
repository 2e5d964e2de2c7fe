//! Tasks: the steps of an op as a graph has them, one node for each.

use cudarc::driver::sys::CUdeviceptr;
use smallvec::SmallVec;

use crate::blas::Product;
use crate::dnn::Convolution;
use crate::place::{Place, address};
use crate::step::{Launch, Step, Steps};

/// The most bytes that one node copies: safely below the widest row that the driver copies.
const LONGEST_COPY: usize = 1 << 30;

/// What one node of a graph does.
pub(super) enum Task<'a> {
    /// Run a kernel of ours.
    Launch(&'a Launch),
    /// Copy bytes.
    Copy(Bytes),
    /// Have cuBLASLt multiply.
    Product(&'a Product),
    /// Have cuDNN convolve.
    Conv(&'a Convolution),
}

/// A copy of so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes {
    pub src: CUdeviceptr,
    pub dst: CUdeviceptr,
    pub count: usize,
}

/// What kind of node a task needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Launch,
    Copy,
    Product,
    Conv,
    /// It notes the time, which no task asks for.
    Note,
}

impl Task<'_> {
    pub fn kind(&self) -> Kind {
        match self {
            Task::Launch(_) => Kind::Launch,
            Task::Copy(_) => Kind::Copy,
            Task::Product(_) => Kind::Product,
            Task::Conv(_) => Kind::Conv,
        }
    }
}

/// The tasks that the steps of one op are, in order, of one of many streams or of one that may be alone.
pub(super) fn tasks<'a>(
    steps: &'a Steps,
    of_many: bool,
    place: &Place<'_>,
) -> SmallVec<[Task<'a>; 2]> {
    let mut tasks = SmallVec::new();
    for step in steps.list(of_many) {
        match step {
            Step::Launch(launch) => tasks.push(Task::Launch(launch)),
            Step::Product(product) => tasks.push(Task::Product(product)),
            Step::Conv(conv) => tasks.push(Task::Conv(conv)),
            Step::Copy { src, dst } => {
                let whole = Bytes {
                    src: place.of(address(src)),
                    dst: place.of(address(dst)),
                    count: src.bytes,
                };
                tasks.extend(whole.pieces(LONGEST_COPY).map(Task::Copy));
            }
        }
    }
    tasks
}

impl Bytes {
    /// The same in pieces of at most `longest` bytes, none of them empty.
    fn pieces(self, longest: usize) -> impl Iterator<Item = Bytes> {
        (0..self.count).step_by(longest).map(move |done| Bytes {
            src: self.src + done as u64,
            dst: self.dst + done as u64,
            count: longest.min(self.count - done),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_copy_is_whole_in_pieces() {
        let whole = |count| Bytes {
            src: 1000,
            dst: 5000,
            count,
        };
        assert_eq!(whole(0).pieces(8).count(), 0);
        assert_eq!(whole(8).pieces(8).collect::<Vec<_>>(), [whole(8)]);
        let pieces: Vec<_> = whole(17).pieces(8).collect();
        let expected = [(0, 8), (8, 8), (16, 1)].map(|(at, count)| Bytes {
            src: 1000 + at,
            dst: 5000 + at,
            count,
        });
        assert_eq!(pieces, expected);
    }
}
