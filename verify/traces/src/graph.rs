//! A specification's state graph, as TLC printed it, and whether it has a path that looks like a trace.

use std::collections::HashMap;

pub struct Graph {
    looks: HashMap<String, u32>,
    look: Vec<u32>,
    next: Vec<Vec<u32>>,
    first: Vec<u32>,
    /// Sets of states that a trace may have led to, numbered; and where each leads to with another look.
    sets: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
    leads: HashMap<(u32, u32), Option<u32>>,
}

impl Graph {
    /// Lines: `s LOOK` a state, in order; `i STATE` an initial one; `e FROM TO` an edge.
    pub fn read(text: &str) -> Graph {
        let mut graph = Graph {
            looks: HashMap::new(),
            look: Vec::new(),
            next: Vec::new(),
            first: Vec::new(),
            sets: Vec::new(),
            numbers: HashMap::new(),
            leads: HashMap::new(),
        };
        for line in text.lines() {
            let (kind, rest) = line.split_at(2);
            let numbers = || {
                rest.split(' ')
                    .map(|number| number.parse::<u32>().expect("a number"))
            };
            match kind {
                "s " => {
                    let count = graph.looks.len() as u32;
                    graph
                        .look
                        .push(*graph.looks.entry(rest.to_owned()).or_insert(count));
                    graph.next.push(Vec::new());
                }
                "i " => graph.first.extend(numbers()),
                _ => {
                    let edge: Vec<u32> = numbers().collect();
                    graph.next[edge[0] as usize].push(edge[1]);
                }
            }
        }
        let first = graph.closed(graph.first.clone());
        graph.number(first);
        graph
    }

    pub fn size(&self) -> (usize, usize) {
        (self.look.len(), self.next.iter().map(Vec::len).sum())
    }

    fn number(&mut self, set: Vec<u32>) -> u32 {
        let count = self.sets.len() as u32;
        let number = *self.numbers.entry(set.clone()).or_insert(count);
        if number == count {
            self.sets.push(set);
        }
        number
    }

    /// With all that is reached by steps that do not show.
    fn closed(&self, mut set: Vec<u32>) -> Vec<u32> {
        let mut known: std::collections::HashSet<u32> = set.iter().copied().collect();
        let mut at = 0;
        while at < set.len() {
            for &to in &self.next[set[at] as usize] {
                if self.look[to as usize] == self.look[set[at] as usize] && known.insert(to) {
                    set.push(to);
                }
            }
            at += 1;
        }
        set.sort_unstable();
        set
    }

    /// How far a trace is one of the specification: `Err` says at which of its states it is none any more.
    pub fn accepts(&mut self, trace: &[String]) -> Result<(), usize> {
        let mut at = 0;
        let first = trace.first().and_then(|look| self.looks.get(look));
        if first.is_none_or(|look| {
            self.sets[0]
                .first()
                .is_none_or(|&state| self.look[state as usize] != *look)
        }) {
            return Err(0);
        }
        for (place, look) in trace.iter().enumerate().skip(1) {
            let Some(&look) = self.looks.get(look) else {
                return Err(place);
            };
            let to = match self.leads.get(&(at, look)) {
                Some(&known) => known,
                None => {
                    let mut reached: Vec<u32> = self.sets[at as usize]
                        .iter()
                        .flat_map(|&state| &self.next[state as usize])
                        .copied()
                        .filter(|&to| self.look[to as usize] == look)
                        .collect();
                    reached.sort_unstable();
                    reached.dedup();
                    let to = (!reached.is_empty()).then(|| {
                        let set = self.closed(reached);
                        self.number(set)
                    });
                    self.leads.insert((at, look), to);
                    to
                }
            };
            at = to.ok_or(place)?;
        }
        Ok(())
    }
}
