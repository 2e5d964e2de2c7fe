//! From trees to records: those that a test leads to lie side by side, and those of a tree together.

use std::collections::VecDeque;

use streampool_device::Trees;
use streampool_tensor::room::{filled, room};

use super::forest::{Child, Forest, Test, Together, Weight};
use crate::error::NodeError;

/// The records, and what they need.
pub struct Planted {
    pub records: Vec<[u32; 4]>,
    pub depth: usize,
    pub test: i64,
    pub features: u32,
}

/// The most records.
const MOST: usize = i32::MAX as usize;

/// The records of a forest. A node that is reached from two places is refused, and so is one that is reached from itself.
pub fn planted(forest: &Forest) -> Result<Planted, NodeError> {
    let mut maker = Maker {
        forest,
        records: Vec::new(),
        seen: filled(false, forest.tests.len())?,
        lists: Vec::new(),
        depth: 0,
    };
    maker.grow(forest.roots.len())?;
    for (root, &child) in forest.roots.iter().enumerate() {
        maker.tree(root, child)?;
    }
    if let Some(number) = maker.seen.iter().position(|seen| !seen) {
        let what = (forest.name)(forest, number);
        return Err(NodeError::malformed(
            what,
            "reached from no root",
            "reached from one place",
        ));
    }
    let bits = |bits: u32| {
        forest
            .tests
            .iter()
            .all(|test| test.bits == bits && test.values.len() == 1)
    };
    let features = forest.tests.iter().map(|test| test.feature + 1).max();
    Ok(Planted {
        records: maker.records,
        depth: maker.depth,
        test: match () {
            () if bits(Trees::LESS | Trees::EQUAL) => 0,
            () if bits(Trees::LESS) => 1,
            () => 2,
        },
        features: features.unwrap_or(0),
    })
}

struct Maker<'a> {
    forest: &'a Forest,
    records: Vec<[u32; 4]>,
    /// The tests that were reached.
    seen: Vec<bool>,
    /// Leaves of several weights whose lists come behind their tree: the record, and the leaf.
    lists: Vec<(usize, usize)>,
    depth: usize,
}

impl Maker<'_> {
    /// Room for so many records more, which are zero.
    fn grow(&mut self, count: usize) -> Result<usize, NodeError> {
        let first = self.records.len();
        if count > MOST - first.min(MOST) {
            return Err(NodeError::malformed(
                "the trees",
                "of more nodes",
                format!("at most {MOST}"),
            ));
        }
        let refused =
            |_| NodeError::malformed("the trees", "larger", "as large as there is memory for");
        self.records.try_reserve(count).map_err(refused)?;
        self.records.extend(std::iter::repeat_n([0; 4], count));
        Ok(first)
    }

    fn record(&self, word: u32, next: usize, value: f64) -> [u32; 4] {
        let bits = match self.forest.wide {
            true => value.to_bits(),
            false => u64::from((value as f32).to_bits()),
        };
        [word, next as u32, bits as u32, (bits >> 32) as u32]
    }

    fn tree(&mut self, root: usize, child: Child) -> Result<(), NodeError> {
        let forest = self.forest;
        let mut open = VecDeque::from([(root, child, 0usize)]);
        while let Some((at, child, depth)) = open.pop_front() {
            match child {
                Child::Leaf(leaf) => self.leaf(at, leaf),
                Child::Test(number) => {
                    if std::mem::replace(&mut self.seen[number], true) {
                        let what = (forest.name)(forest, number);
                        return Err(NodeError::malformed(
                            what,
                            "reached twice, or from itself",
                            "reached from one place",
                        ));
                    }
                    let test = &forest.tests[number];
                    let below = self.test(at, test, depth, &mut open)?;
                    self.depth = self.depth.max(below);
                }
            }
        }
        for (at, leaf) in std::mem::take(&mut self.lists) {
            self.list(at, leaf)?;
        }
        Ok(())
    }

    /// Writes a test, and says how deep it reaches. One of several values becomes as many, one behind the other, each of which
    /// leads to a test that all pass.
    fn test(
        &mut self,
        at: usize,
        test: &Test,
        depth: usize,
        open: &mut VecDeque<(usize, Child, usize)>,
    ) -> Result<usize, NodeError> {
        let word = |bits: u32| Trees::TEST | bits | test.feature << Trees::SHIFT;
        let [passed, failed] = test.children;
        if let [value] = test.values[..] {
            let next = self.grow(2)?;
            self.records[at] = self.record(word(test.bits), next, value);
            open.extend([(next, passed, depth + 1), (next + 1, failed, depth + 1)]);
            return Ok(depth + 1);
        }
        let all = Trees::LESS | Trees::EQUAL | Trees::GREATER | Trees::NAN;
        // A test of no value is passed by nothing.
        let targets = self.grow(2)?;
        let below = depth + test.values.len() + 2;
        let mut at = at;
        for &value in &test.values {
            let next = self.grow(2)?;
            self.records[at] = self.record(word(test.bits), next, value);
            self.records[next] = self.record(word(all), targets, 0.0);
            at = next + 1;
        }
        self.records[at] = self.record(word(0), targets, 0.0);
        open.extend([(targets, passed, below), (targets + 1, failed, below)]);
        Ok(below)
    }

    fn leaf(&mut self, at: usize, leaf: usize) {
        match *self.forest.weights(leaf) {
            [Weight { target, value }] => {
                self.records[at] = self.record(target << Trees::SHIFT, at, value);
            }
            _ => self.lists.push((at, leaf)),
        }
    }

    /// The weights of a leaf, one for each target.
    fn list(&mut self, at: usize, leaf: usize) -> Result<(), NodeError> {
        let given = self.forest.weights(leaf);
        let mut weights: Vec<Weight> = room(given.len())?;
        weights.extend(given);
        // As they are given, for each target.
        weights.sort_by_key(|weight| weight.target);
        let how = self.forest.how;
        weights.dedup_by(|next, first| {
            let same = next.target == first.target;
            if same {
                first.value = match how {
                    Together::Sum if self.forest.wide => first.value + next.value,
                    Together::Sum => f64::from(first.value as f32 + next.value as f32),
                    Together::Min => first.value.min(next.value),
                    Together::Max => first.value.max(next.value),
                };
            }
            same
        });
        let first = self.grow(weights.len())?;
        self.records[at] = [Trees::LIST, at as u32, first as u32, weights.len() as u32];
        for (place, weight) in (first..).zip(weights) {
            self.records[place] = self.record(weight.target << Trees::SHIFT, place, weight.value);
        }
        Ok(())
    }
}
