//! What ops are prepared with.

use streampool_device::View;

use crate::packs::Packs;
use crate::team::Team;

/// What ops are prepared with.
pub(crate) struct Preparation<'a> {
    pub(crate) packs: &'a Packs,
    pub(crate) team: &'a dyn Team,
    /// The most threads that will execute an op.
    pub(crate) threads: usize,
    /// Whether all of a view is constant.
    pub(crate) constant: &'a dyn Fn(&View) -> bool,
}

impl Preparation<'_> {
    pub(super) fn is_constant(&self, view: &View) -> bool {
        (self.constant)(view)
    }
}
