//! The parts of a model: as far as a graph can be traced, it is one program. A node that asks for values ends it; that
//! node is computed by itself, and the next part begins after it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use streampool_device::lock::Mutex;
use streampool_runtime::Budget;

use super::compiled::Compiled;
use super::key::Key;
use super::ledger::Ledger;
use super::make_once::MakeOnce;
use super::weights::Weights;
use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::lower::{Plan, channels_last, fuse, work, work_in_place};
use crate::passes::Fusion;
use crate::ranks;
use crate::seeds;
use crate::trace::{Given, trace};

/// Plans are made once for each key; more than this many are not kept.
const MOST_PLANS: usize = 512;

/// A graph, and the plans of its parts.
pub struct Plans {
    graph: Graph,
    /// By the name of a node that was made of several: theirs.
    fusions: HashMap<String, Vec<String>>,
    /// For each node, and the end, the values that are made before it and read from there on.
    live: Box<[OnceLock<Vec<ValueId>>]>,
    /// For each value, the last node that reads it; the number of nodes for outputs.
    last_use: Vec<Option<usize>>,
    /// For each value, the first node that comes after it is made.
    made_at: Vec<Option<usize>>,
    plans: Mutex<PlanTable>,
    ledger: Arc<Ledger>,
}

#[derive(Default)]
struct PlanTable {
    plans: HashMap<Arc<Key>, Arc<Cell>>,
    /// The keys, in the order in which they came.
    order: std::collections::VecDeque<Arc<Key>>,
}

/// A plan that one thread makes while others wait.
type Cell = MakeOnce<Compiled>;

impl Plans {
    pub fn new(graph: Graph, fusions: Vec<Fusion>) -> Plans {
        let nodes = graph.nodes.len();
        let mut last_use = vec![None; graph.value_count()];
        let mut made_at = vec![None; graph.value_count()];
        for &input in &graph.inputs {
            made_at[input.index()] = Some(0);
        }
        for (place, node) in graph.nodes.iter().enumerate() {
            for read in node.reads() {
                last_use[read.index()] = Some(place);
            }
            for made in node.outputs.iter().flatten() {
                made_at[made.index()] = Some(place + 1);
            }
        }
        for &output in &graph.outputs {
            last_use[output.index()] = Some(nodes);
        }
        let ledger = Ledger::new(&graph);
        Plans {
            ledger,
            live: (0..=nodes).map(|_| OnceLock::new()).collect(),
            graph,
            fusions: fusions
                .into_iter()
                .map(|fusion| (fusion.name, fusion.nodes))
                .collect(),
            last_use,
            made_at,
            plans: Mutex::new(ranks::PLANS, PlanTable::default()),
        }
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The names in the file of what node `place` stands for.
    pub fn names(&self, place: usize) -> Vec<String> {
        let name = &self.graph.nodes[place].name;
        match self.fusions.get(name) {
            Some(names) => names.clone(),
            None => vec![name.clone()],
        }
    }

    /// The values that are made before node `place` and read from there on.
    pub fn live(&self, place: usize) -> &[ValueId] {
        self.live[place].get_or_init(|| {
            let is_live = |id: &ValueId| {
                let (made, used) = (self.made_at[id.index()], self.last_use[id.index()]);
                made.is_some_and(|made| made <= place) && used.is_some_and(|used| used >= place)
            };
            self.graph.ids().filter(is_live).collect()
        })
    }

    /// The plan of a key, for what is given, and whether it was made now.
    pub fn plan(
        &self,
        key: &Arc<Key>,
        given: &[(ValueId, Given)],
        weights: &Weights,
    ) -> Result<(Arc<Compiled>, bool)> {
        let (cell, oldest) = self.plans.lock().cell(key);
        drop(oldest);
        let mut has_failed = false;
        let plan = cell.get_or_make(|| {
            let compiled = self.compile(key, given, weights);
            has_failed = compiled.is_err();
            compiled
        });
        if has_failed {
            self.plans.lock().forget(key);
        }
        plan
    }

    fn compile(
        &self,
        key: &Key,
        given: &[(ValueId, Given)],
        weights: &Weights,
    ) -> Result<Compiled> {
        streampool_device::span!("plan", node = key.start, nodes = self.graph.nodes.len());
        weights.prune();
        let begin = weights.positions()?;
        let (mut kept, mut kinds) = (Vec::new(), Vec::new());
        for (_, given) in given {
            match given {
                Given::Known(value) => kept.push(value.clone()),
                Given::Input(kind) => kinds.push(kind.clone()),
                Given::Inputs(several) => kinds.extend_from_slice(several),
            }
        }
        let nodes = key.start..self.graph.nodes.len();
        let wanted = |ended: Option<usize>| match ended {
            None => self.graph.outputs.clone(),
            Some(node) => self.live(node).to_vec(),
        };
        // A plan is kept for runs with other seeds.
        let preferred = weights.work().device().channels_last();
        let (mut listing, ended) = seeds::with(seeds::current().or(Some(0)), || {
            let given = given.to_vec();
            trace(
                &self.graph,
                nodes,
                weights.known(),
                given,
                preferred,
                wanted,
            )
        })?;
        // Each run pays for it, this one too.
        Budget::give_back_work(work(&listing.steps));
        let fused = fuse(&mut listing);
        if listing.has_conv() {
            channels_last(&mut listing, preferred);
            work_in_place(&mut listing);
        }
        let plan = Plan::new(listing, kinds);
        let mut compiled = Compiled::new(plan, ended, kept, weights, &self.ledger, key.bytes())?;
        weights.settle(begin)?;
        compiled.fused = fused;
        Ok(compiled)
    }

    /// The latest plan of what begins at node `start`.
    pub fn latest(&self, start: usize) -> Option<Arc<Compiled>> {
        let plans = self.plans.lock();
        let key = plans.order.iter().rfind(|key| key.start == start)?;
        plans.plans.get(key)?.get()
    }

    /// Lets go of the oldest plan; says whether there was one.
    pub fn forget_oldest(&self) -> bool {
        let oldest = self.plans.lock().pop_oldest();
        oldest.is_some()
    }

    /// About what plans take, wherever they are held.
    pub fn bytes(&self) -> usize {
        self.ledger.bytes()
    }

    /// How many plans there are.
    pub fn count(&self) -> usize {
        self.plans.lock().plans.len()
    }
}

impl PlanTable {
    /// Where the plan of a key is or will be, and the one that has to go for it.
    fn cell(&mut self, key: &Arc<Key>) -> (Arc<Cell>, Option<Arc<Cell>>) {
        if let Some(cell) = self.plans.get(key) {
            return (cell.clone(), None);
        }
        let is_full = self.plans.len() >= MOST_PLANS;
        let oldest = is_full.then(|| self.pop_oldest()).flatten();
        self.order.push_back(key.clone());
        let cell = Arc::new(Cell::new());
        self.plans.insert(key.clone(), cell.clone());
        (cell, oldest)
    }

    fn pop_oldest(&mut self) -> Option<Arc<Cell>> {
        let oldest = self.order.pop_front()?;
        self.plans.remove(&oldest)
    }

    fn forget(&mut self, key: &Arc<Key>) {
        self.plans.remove(key);
        self.order.retain(|other| other != key);
    }
}
