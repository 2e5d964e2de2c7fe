//! The best of boxes that overlap. It reads boxes and ratings on the host: how many are kept depends on all of them.

use std::ops::{Add, Div, Mul, Sub};

use streampool_device::{DType, Element};
use streampool_runtime::Budget;

use super::checks::{floats, shaped};
use crate::room::room;
use crate::{Error, Result, Tensor};

/// How a box is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoxFormat {
    /// Two opposite corners: `[y, x, y, x]`, or `[x, y, x, y]`.
    #[default]
    Corners,
    /// The middle and the size: `[x, y, width, height]`.
    Center,
}

/// Which boxes [`best_boxes`](Tensor::best_boxes) keeps.
#[derive(Debug, Clone, Copy)]
pub struct BestBoxes {
    /// How a box is written.
    pub format: BoxFormat,
    /// How much of the area of both together a box may share with a better one that is kept.
    pub overlap: f64,
    /// Boxes are rated above this. Without it, all but NaN count.
    pub least: Option<f64>,
    /// The most boxes of each class.
    pub most: usize,
}

impl Tensor {
    /// Of boxes, `[boxes, 4]`, those that are rated above `least` and share no more than `overlap` (of the area of both
    /// together) with a better one that is kept: their numbers, the best first, as `i64`.
    ///
    /// Waits for boxes and ratings.
    pub fn non_max_suppression(
        &self,
        ratings: &Tensor,
        format: BoxFormat,
        overlap: f64,
        least: f64,
    ) -> Result<Tensor> {
        let op = "non_max_suppression";
        floats(op, "self", self)?;
        let count = ratings.elem_count();
        shaped(op, "ratings", ratings, &[count], "one for each box")?;
        shaped(op, "self", self, &[count, 4], "as there are ratings")?;
        let options = BestBoxes {
            format,
            overlap,
            least: Some(least),
            most: usize::MAX,
        };
        self.unsqueeze(0)?
            .best_boxes(&ratings.reshape(&[1, 1, count])?, &options)?
            .select(1, 2)
    }

    /// Of boxes, `[batch, boxes, 4]`, the best for each batch and class by `ratings`, `[batch, classes, boxes]`: the
    /// numbers of batch, class and box of each, `[kept, 3]` as `i64`, in order of batch and class, the best first.
    ///
    /// Waits for boxes and ratings. Takes memory for them and a few numbers for each box.
    pub fn best_boxes(&self, ratings: &Tensor, options: &BestBoxes) -> Result<Tensor> {
        let op = "best_boxes";
        floats(op, "self", self)?;
        floats(op, "ratings", ratings)?;
        let [batches, _, count] = *ratings.shape() else {
            let expected = "[batch, classes, boxes]";
            return Err(Error::shape(op, "ratings", ratings.shape(), expected));
        };
        let boxes = [batches, count, 4];
        shaped(op, "self", self, &boxes, "a box for each rating")?;
        if u32::try_from(count).is_err() {
            let expected = format!("at most {} boxes", u32::MAX);
            return Err(Error::shape(op, "self", self.shape(), expected));
        }
        let found = match self.dtype().size().max(ratings.dtype().size()) {
            8 => chosen::<f64>(&[self, ratings], DType::F64, options)?,
            _ => chosen::<f32>(&[self, ratings], DType::F32, options)?,
        };
        let rows = found.len() / 3;
        Tensor::from_vec(self.pool(), found)?.reshape(&[rows, 3])
    }
}

/// A type in which boxes are compared.
trait Real:
    Element
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    fn of(value: f64) -> Self;

    fn least(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    fn most(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

impl Real for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }
}

impl Real for f64 {
    fn of(value: f64) -> f64 {
        value
    }
}

/// A box by its corners, and its area.
#[derive(Clone, Copy, Default)]
struct Corners<T> {
    low: [T; 2],
    high: [T; 2],
    area: T,
}

/// How many boxes are compared with one at once.
const LANES: usize = 16;
/// So many comparisons are counted as work at a time.
const COUNTED: u64 = 1 << 20;

fn chosen<T: Real>(
    [boxes, ratings]: &[&Tensor; 2],
    dtype: DType,
    options: &BestBoxes,
) -> Result<Vec<i64>> {
    let [batches, classes, count] = [0, 1, 2].map(|axis| ratings.shape()[axis]);
    let boxes: Vec<T> = boxes.to_dtype(dtype)?.to_vec()?;
    let ratings: Vec<T> = ratings.to_dtype(dtype)?.to_vec()?;
    let mut found = Vec::new();
    if count == 0 || options.most == 0 {
        return Ok(found);
    }
    let least = options.least.map(T::of);
    let overlap = T::of(options.overlap);
    let mut corners: Vec<Corners<T>> = room(count)?;
    let mut rivals: Vec<(T, u32)> = room(count)?;
    let mut kept = Kept::default();
    let mut work = 0;
    for batch in 0..batches {
        corners.clear();
        let own = boxes[batch * count * 4..][..count * 4].as_chunks::<4>().0;
        corners.extend(own.iter().map(|each| cornered(*each, options.format)));
        for class in 0..classes {
            let rated = &ratings[(batch * classes + class) * count..][..count];
            rivals.clear();
            let each = rated.iter().zip(0u32..);
            match least {
                Some(least) => {
                    rivals.extend(each.filter(|(rating, _)| **rating > least).map(by_value))
                }
                // Only NaN cannot be compared with itself.
                None => rivals.extend(
                    each.filter(|(rating, _)| rating.partial_cmp(rating).is_some())
                        .map(by_value),
                ),
            }
            // NaN is not among them.
            rivals.sort_unstable_by(|one, other| {
                let better = other.0.partial_cmp(&one.0);
                better
                    .unwrap_or(std::cmp::Ordering::Equal)
                    .then(one.1.cmp(&other.1))
            });
            kept.clear();
            for &(_, place) in &rivals {
                work += kept.count as u64 + 1;
                if work >= COUNTED {
                    Budget::take_work(std::mem::take(&mut work))?;
                }
                let own = corners[place as usize];
                if kept.overlaps(&own, overlap) {
                    continue;
                }
                kept.add(own)?;
                found.try_reserve(3).map_err(|_| full(found.len()))?;
                found.extend([batch as i64, class as i64, i64::from(place)]);
                if kept.count == options.most {
                    break;
                }
            }
        }
    }
    Budget::take_work(work)?;
    Ok(found)
}

fn by_value<T: Real>((rating, place): (&T, u32)) -> (T, u32) {
    (*rating, place)
}

#[cold]
fn full(count: usize) -> Error {
    Error::Array {
        got: format!("{count} boxes kept"),
        expected: "as many as there is memory for".to_owned(),
    }
}

fn cornered<T: Real>([a, b, c, d]: [T; 4], format: BoxFormat) -> Corners<T> {
    let half = |size: T| size / T::of(2.0);
    let (low, high) = match format {
        BoxFormat::Corners => ([a.least(c), b.least(d)], [a.most(c), b.most(d)]),
        BoxFormat::Center => ([a - half(c), b - half(d)], [a + half(c), b + half(d)]),
    };
    Corners {
        low,
        high,
        area: (high[0] - low[0]) * (high[1] - low[1]),
    }
}

/// The boxes that are kept, in blocks whose elements lie side by side.
#[derive(Default)]
struct Kept<T> {
    /// Low and high corners and areas; a block's unused places hold boxes without area, which overlap nothing.
    blocks: Vec<[[T; LANES]; 5]>,
    count: usize,
}

impl<T: Real> Kept<T> {
    fn clear(&mut self) {
        self.blocks.clear();
        self.count = 0;
    }

    fn add(&mut self, own: Corners<T>) -> Result<()> {
        let lane = self.count % LANES;
        if lane == 0 {
            self.blocks.try_reserve(1).map_err(|_| full(self.count))?;
            self.blocks.push([[T::default(); LANES]; 5]);
        }
        let Corners { low, high, area } = own;
        let fields = [low[0], low[1], high[0], high[1], area];
        if let Some(block) = self.blocks.last_mut() {
            for (lanes, field) in block.iter_mut().zip(fields) {
                lanes[lane] = field;
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Whether one of them shares more than this part with a box.
    fn overlaps(&self, own: &Corners<T>, part: T) -> bool {
        let zero = T::default();
        self.blocks.iter().any(|[top, left, bottom, right, areas]| {
            let mut any = false;
            for lane in 0..LANES {
                let height = bottom[lane].least(own.high[0]) - top[lane].most(own.low[0]);
                let width = right[lane].least(own.high[1]) - left[lane].most(own.low[1]);
                let shared = height.most(zero) * width.most(zero);
                let together = areas[lane] + own.area - shared;
                // Without an area there is no part of it to share.
                any |= (shared / together > part)
                    & (shared > zero)
                    & (areas[lane] > zero)
                    & (own.area > zero);
            }
            any
        })
    }
}
