//! What rewriting a graph came to.

/// What was rewritten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Several nodes that became one.
    pub fusions: Vec<Fusion>,
    /// Nodes whose results are known.
    pub folded: usize,
    /// Nodes that did nothing, or that nobody needs.
    pub removed: usize,
    /// How many nodes there were, those of graphs inside nodes included.
    pub before: usize,
    /// How many there are.
    pub after: usize,
}

/// Several nodes that became one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fusion {
    /// What they became.
    pub what: &'static str,
    /// The name of the node that they became.
    pub name: String,
    /// The names that they had.
    pub nodes: Vec<String>,
}
