//! Graphs: tasks in an order, and executables made of them.

use std::collections::HashSet;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;

use crate::driver::State;
use crate::handle::{Handle, Outcome, find};
use crate::memory::Place;
use crate::objects::{
    Command, Copy, Exec, Graph, Latest, Launch, Node, Recording, Run, Task, Turns, Work,
};
use crate::report::{Rule, breach};

/// Below this nothing ever lies: a kernel may be given such a pointer for what it does not touch. If it does, the process
/// crashes.
const NEAR_NULL: usize = 64 << 10;

impl Task {
    /// Whether a node that does this may do `other` instead.
    fn is_like(&self, other: &Task) -> bool {
        match (self, other) {
            (Task::Copy { .. }, Task::Copy { .. }) | (Task::Launch(_), Task::Launch(_)) => true,
            (Task::Child(own), Task::Child(others)) => {
                let alike = |(one, other): (&Node, &Node)| one.task.is_like(&other.task);
                own.len() == others.len() && own.iter().zip(others).all(alike)
            }
            _ => false,
        }
    }

    fn flatten<'a>(&'a self, tasks: &mut Vec<&'a Task>) {
        match self {
            Task::Child(nodes) => nodes.iter().for_each(|node| node.task.flatten(tasks)),
            other => tasks.push(other),
        }
    }
}

impl State {
    /// What a thread of the GPU has to do for a task, with all that is kept meanwhile.
    pub fn work(&mut self, task: &Task) -> Outcome<Work> {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        Ok(match task {
            Task::Copy { to, from, bytes } => {
                let kept = [*to, *from].map(|address| self.memory.place(address, *bytes));
                if kept.iter().any(Option::is_none) {
                    return Err(invalid);
                }
                if to.abs_diff(*from) < *bytes {
                    breach(
                        Rule::Overlap,
                        &format!("{bytes} bytes are copied from {from:#x} to {to:#x}"),
                    );
                }
                Work::Copy(Copy {
                    to: *to,
                    from: *from,
                    bytes: *bytes,
                    staged: None,
                    _kept: kept,
                })
            }
            Task::Staged { to, bytes } => {
                let place = self.memory.place(*to, bytes.len()).ok_or(invalid)?;
                Work::Copy(Copy {
                    to: *to,
                    from: 0,
                    bytes: bytes.len(),
                    staged: Some(bytes.clone()),
                    _kept: [Some(place), None],
                })
            }
            Task::Launch(launch) => self.launch(launch)?,
            Task::Record(event) => {
                let recording = Arc::new(Recording::default());
                find(&mut self.events, "event", *event)?.latest =
                    Latest::Recorded(recording.clone());
                Work::Note(recording)
            }
            Task::Child(_) => return Err(invalid),
        })
    }

    fn launch(&mut self, launch: &Launch) -> Outcome<Work> {
        let function = find(&mut self.functions, "function", launch.function)?.clone();
        let mut operands = Vec::with_capacity(launch.operands.len());
        for &address in &launch.operands {
            match self.memory.place(address, 0) {
                Some(place) => operands.push(place),
                None if address < NEAR_NULL => operands.push(Place::nowhere(address)),
                None if self.memory.was_freed(address) => breach(
                    Rule::Memory,
                    &format!(
                        "kernel {} is given {address:#x}, which was freed",
                        function.name.to_string_lossy()
                    ),
                ),
                None => return Ok(Work::Astray),
            }
        }
        Ok(Work::Kernel(Run {
            function,
            groups: launch.groups,
            threads: launch.threads,
            operands,
            params: launch.params.clone(),
        }))
    }

    /// Adds a node that depends on others of the graph.
    pub fn add_node(&mut self, graph: Handle, after: &[Handle], task: Task) -> Outcome<Handle> {
        let handle = self.handle();
        let Graph(nodes) = find(&mut self.graphs, "graph", graph)?;
        let known = |after: &Handle| nodes.iter().any(|node| node.handle == *after);
        if !after.iter().all(known) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        nodes.push(Node {
            handle,
            after: after.to_vec(),
            task,
        });
        Ok(handle)
    }

    /// Makes a node depend on one that was added before it. `early` says that it may be launched when that is about to end.
    pub fn add_edge(&mut self, graph: Handle, from: Handle, to: Handle, early: bool) -> Outcome {
        let Graph(nodes) = find(&mut self.graphs, "graph", graph)?;
        let place = |handle| nodes.iter().position(|node| node.handle == handle);
        let (Some(from_at), Some(to_at)) = (place(from), place(to)) else {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        };
        if from_at >= to_at || nodes[to_at].after.contains(&from) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        nodes[to_at].after.push(from);
        if !early {
            return Ok(());
        }
        let tasks = [&nodes[from_at], &nodes[to_at]].map(|node| node.task.clone());
        let [Task::Launch(_), Task::Launch(second)] = tasks else {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        };
        let function = find(&mut self.functions, "function", second.function)?;
        if !function.waits {
            breach(
                Rule::Kernel,
                &format!(
                    "{} may be launched before what it follows is over, and does not wait for that",
                    function.name.to_string_lossy()
                ),
            );
        }
        Ok(())
    }

    pub fn instantiate(&mut self, graph: Handle) -> Outcome<Handle> {
        let Graph(nodes) = find(&mut self.graphs, "graph", graph)?.clone();
        let handle = self.handle();
        let exec = Exec {
            nodes: late_first(nodes),
            turns: Turns::default(),
            launched: 0,
        };
        self.execs.insert(handle, exec);
        Ok(handle)
    }

    /// Has a node do `task` from the next launch on.
    pub fn set_node(&mut self, exec: Handle, node: Handle, task: Task) -> Outcome {
        let all = self.graphs.values().flat_map(|Graph(nodes)| nodes);
        if !all.into_iter().any(|known| known.handle == node) {
            breach(
                Rule::Handle,
                &format!("node {node:#x} is of a graph that was destroyed or never made"),
            );
        }
        let exec = find(&mut self.execs, "executable graph", exec)?;
        let mut nodes = exec.nodes.iter_mut();
        let found = nodes.find(|known| known.handle == node);
        let found = found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if !found.task.is_like(&task) {
            return Err(match task {
                Task::Child(_) => CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                _ => CUresult::CUDA_ERROR_INVALID_VALUE,
            });
        }
        found.task = task;
        Ok(())
    }

    pub fn launch_graph(&mut self, exec: Handle, stream: Handle) -> Outcome {
        let nodes = find(&mut self.execs, "executable graph", exec)?
            .nodes
            .clone();
        if self.stream(stream)?.capture.is_some() {
            return self.append(stream, Task::Child(nodes));
        }
        let mut tasks = Vec::new();
        nodes.iter().for_each(|node| node.task.flatten(&mut tasks));
        let mut works = Vec::with_capacity(tasks.len());
        for task in tasks {
            match self.work(task) {
                Ok(work) => works.push(work),
                Err(_) => breach(
                    Rule::Memory,
                    "a graph copies from or to memory, or records an event, that is not there",
                ),
            }
        }
        let exec = find(&mut self.execs, "executable graph", exec)?;
        let command = Command::Graph(Arc::clone(&exec.turns), exec.launched, works);
        exec.launched += 1;
        self.stream(stream)?.append(command);
        Ok(())
    }
}

/// The nodes in an order that what they depend on allows, and as far as that allows from the one in which they were added: so
/// nothing runs where it should by luck.
fn late_first(mut left: Vec<Node>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::with_capacity(left.len());
    let mut taken = HashSet::new();
    while let Some(next) = left
        .iter()
        .rposition(|node| node.after.iter().all(|after| taken.contains(after)))
    {
        let node = left.remove(next);
        taken.insert(node.handle);
        nodes.push(node);
    }
    nodes
}
