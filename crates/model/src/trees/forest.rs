//! Trees as they are between a file's lists and records.

/// Trees with their nodes by number.
pub struct Forest {
    /// Whether values are `f64`.
    pub wide: bool,
    pub roots: Vec<Child>,
    pub tests: Vec<Test>,
    /// What is told of each test in errors.
    pub name: fn(&Forest, usize) -> String,
    /// The number of each test in the file: of its tree, and there.
    pub numbers: Vec<(i64, i64)>,
    /// For each leaf, where its weights end; they begin where those of the leaf before end.
    pub leaves: Vec<usize>,
    pub weights: Vec<Weight>,
    pub how: Together,
}

/// How several weights of one leaf for one target become one.
#[derive(Clone, Copy, PartialEq)]
pub enum Together {
    Sum,
    Min,
    Max,
}

/// What a test leads to.
#[derive(Clone, Copy)]
pub enum Child {
    Test(usize),
    Leaf(usize),
}

pub struct Test {
    pub feature: u32,
    /// What passes.
    pub bits: u32,
    /// Passed by what is one of these values; otherwise there is one.
    pub values: Vec<f64>,
    pub children: [Child; 2],
}

#[derive(Clone, Copy)]
pub struct Weight {
    pub target: u32,
    pub value: f64,
}

impl Forest {
    pub fn weights(&self, leaf: usize) -> &[Weight] {
        let begin = leaf.checked_sub(1).map_or(0, |before| self.leaves[before]);
        &self.weights[begin..self.leaves[leaf]]
    }

    pub fn only_target(&self) -> i64 {
        match self.weights.first() {
            Some(first)
                if self
                    .weights
                    .iter()
                    .all(|weight| weight.target == first.target) =>
            {
                i64::from(first.target)
            }
            _ => -1,
        }
    }
}
