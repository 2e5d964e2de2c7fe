//! Interpolation to another size.

use crate::check::{countable, float, invalid, rank, require, same_type, writable};
use crate::{Access, Dims, MAX_RANK, OpKind, Result, View};

/// Where the elements of the result lie along one dimension of the source: element `o` at `o * scale + shift`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Along {
    /// The distance between neighbours.
    pub scale: f64,
    /// Where the first lies.
    pub shift: f64,
}

impl Default for Along {
    fn default() -> Along {
        Along {
            scale: 1.0,
            shift: 0.0,
        }
    }
}

/// Which neighbour a place between two takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The nearest, of two equally near the lower.
    HalfDown,
    /// The nearest, of two equally near the higher.
    HalfUp,
    /// The lower.
    Floor,
    /// The higher.
    Ceil,
}

/// How a value between elements is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Interpolation {
    /// That of a neighbour; any type.
    Nearest(Rounding),
    /// On the line between two neighbours.
    Linear,
    /// On Keys' cubic through four neighbours, with his parameter `a`.
    Cubic(f64),
}

/// `dst = src`, looked at in other places; separable, so that dimensions whose places are the elements
/// themselves cost nothing. Beyond an edge the element at the edge counts on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resize<T = View> {
    /// What is looked at.
    pub src: T,
    /// The result: any sizes, rank and type of `src`.
    pub dst: T,
    /// The places, one for each dimension.
    pub along: Dims<Along>,
    /// How values between elements are made.
    pub interpolation: Interpolation,
    /// Whether, where `scale` is above 1, the interpolation's filter is that much wider, so that every element
    /// counts (linear and cubic only).
    pub antialias: bool,
    /// Whether elements beyond an edge get no weight (the others' grow to one in all), instead of the edge's.
    pub exclude_outside: bool,
    /// With a value, that of places beyond the first or the last element.
    pub outside: Option<f64>,
}

impl<T> Resize<T> {
    #[inline(always)]
    pub(crate) fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'static str, Access, &'a T) -> Result<U, E>,
    ) -> Result<Resize<U>, E> {
        Ok(Resize {
            src: f("src", Access::Read, &self.src)?,
            dst: f("dst", Access::Write, &self.dst)?,
            along: self.along,
            interpolation: self.interpolation,
            antialias: self.antialias,
            exclude_outside: self.exclude_outside,
            outside: self.outside,
        })
    }
}

impl Resize<View> {
    pub(crate) fn check(&self) -> Result<()> {
        let kind = OpKind::Resize;
        let Resize { src, dst, .. } = self;
        writable(kind, "dst", dst)?;
        same_type(kind, "dst", dst, src)?;
        rank(kind, "dst", dst, src.layout().rank())?;
        require(
            kind,
            "along",
            self.along.len() == src.layout().rank(),
            self.along.len(),
            format_args!("{}, one for each dimension", src.layout().rank()),
        )?;
        for along in self.along.iter() {
            require(
                kind,
                "along",
                along.scale.is_finite() && along.shift.is_finite(),
                format_args!("{along:?}"),
                "finite",
            )?;
        }
        // Dimensions are gone over one by one: between two, some have the old size and some the new one.
        let mut between = [1; MAX_RANK];
        for (axis, size) in between.iter_mut().take(src.layout().rank()).enumerate() {
            *size = src.shape()[axis].max(dst.shape()[axis]);
        }
        countable(kind, "dst", "elements on the way from src", between)?;
        let nearest = matches!(self.interpolation, Interpolation::Nearest(_));
        if !nearest {
            float(kind, "src", src)?;
        }
        if let Interpolation::Cubic(a) = self.interpolation {
            require(
                kind,
                "interpolation",
                a.is_finite(),
                a,
                "a finite parameter",
            )?;
        }
        require(
            kind,
            "antialias",
            !(nearest && self.antialias),
            true,
            "false for the nearest",
        )?;
        if src.layout().elements() == 0 && dst.layout().elements() > 0 {
            return Err(invalid(
                kind,
                "src",
                format_args!("of shape {:?}", src.shape()),
                "at least one element to look at",
            ));
        }
        Ok(())
    }
}
