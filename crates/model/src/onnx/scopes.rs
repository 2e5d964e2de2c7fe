//! Names while a graph is built: what each stands for where it is read.

use std::collections::HashMap;
use std::rc::Rc;

use super::opsets::Opsets;
use super::proto::FunctionProto;
use crate::error::{Error, NodeError};
use crate::graph::{Attribute, Capture, Graph, ValueId, ValueInfo};

/// How deep graphs and calls may be nested.
const DEEPEST: usize = 64;

/// The graphs under construction, each inside the one before, and the names in them.
#[derive(Default)]
pub struct Scopes<'a> {
    graphs: Vec<Graph>,
    scopes: Vec<Scope<'a>>,
}

/// The names of a graph, or of the body of a function, whose values are those of the graph that calls it.
struct Scope<'a> {
    names: HashMap<&'a str, Named>,
    /// The place of the graph among the graphs.
    graph: usize,
    context: Rc<Context<'a>>,
    /// Whether names from around mean something here.
    open: bool,
}

/// What nodes are written for.
pub struct Context<'a> {
    pub opsets: Opsets,
    /// Before the names of nodes.
    pub prefix: String,
    /// The attributes of the call.
    pub attributes: HashMap<String, Attribute>,
    pub function: Option<&'a FunctionProto>,
}

/// What a name stands for.
#[derive(Clone, Copy)]
pub enum Named {
    Value(ValueId),
    /// An input that a call leaves out.
    LeftOut,
}

impl<'a> Scopes<'a> {
    /// Begins the outermost graph, or with no context of its own one inside a node.
    pub fn enter_graph(&mut self, context: Option<Context<'a>>) -> Result<(), NodeError> {
        self.graphs.push(Graph::default());
        let (open, context) = match context {
            Some(context) => (false, Rc::new(context)),
            None => (true, self.context()),
        };
        self.enter(HashMap::new(), context, open)
    }

    /// Begins the body of a function, whose inputs are these.
    pub fn enter_body(
        &mut self,
        names: HashMap<&'a str, Named>,
        context: Context<'a>,
    ) -> Result<(), NodeError> {
        self.enter(names, Rc::new(context), false)
    }

    fn enter(
        &mut self,
        names: HashMap<&'a str, Named>,
        context: Rc<Context<'a>>,
        open: bool,
    ) -> Result<(), NodeError> {
        if self.scopes.len() == DEEPEST {
            let got = format!("more than {DEEPEST} deep");
            return Err(NodeError::malformed(
                "the nesting of graphs and calls",
                got,
                "less deep",
            ));
        }
        let graph = self.graphs.len() - 1;
        self.scopes.push(Scope {
            names,
            graph,
            context,
            open,
        });
        Ok(())
    }

    /// Whether what is built is that of the whole model.
    pub fn is_outermost(&self) -> bool {
        self.graphs.len() == 1
    }

    /// Ends a graph.
    pub fn leave_graph(&mut self) -> Graph {
        self.scopes.pop();
        self.graphs.pop().unwrap_or_default()
    }

    /// Ends the body of a function.
    pub fn leave_body(&mut self) {
        self.scopes.pop();
    }

    fn innermost(&self) -> &Scope<'a> {
        self.scopes
            .last()
            .expect("a graph is entered before its nodes are read")
    }

    /// What the innermost nodes are written for.
    pub fn context(&self) -> Rc<Context<'a>> {
        self.innermost().context.clone()
    }

    /// Whether the body of this function is being built.
    pub fn is_inside(&self, function: &FunctionProto) -> bool {
        let inside = |scope: &Scope| {
            scope
                .context
                .function
                .is_some_and(|other| std::ptr::eq(other, function))
        };
        self.scopes.iter().any(inside)
    }

    /// The innermost graph.
    pub fn graph(&mut self) -> &mut Graph {
        self.graphs
            .last_mut()
            .expect("a graph is entered before its nodes are read")
    }

    /// A new value under a name of its own.
    pub fn declare(&mut self, name: &'a str, info: ValueInfo) -> Result<ValueId, Error> {
        let id = self.graph().add_value(info);
        self.name(name, Named::Value(id))?;
        Ok(id)
    }

    /// Gives something a name of its own.
    pub fn name(&mut self, name: &'a str, named: Named) -> Result<(), Error> {
        if name.is_empty() {
            return Err(Error::Graph(NodeError::malformed(
                "the name of a value",
                "empty",
                "a name",
            )));
        }
        let scope = self
            .scopes
            .last_mut()
            .expect("a graph is entered before its nodes are read");
        match scope.names.insert(name, named) {
            None => Ok(()),
            Some(_) => Err(
                NodeError::malformed("the name", "that of two values", "that of one")
                    .of_value(name),
            ),
        }
    }

    /// The value that a name stands for, unless it is left out.
    pub fn resolve(&mut self, name: &'a str) -> Result<Option<ValueId>, NodeError> {
        self.resolve_in(self.scopes.len() - 1, name)
    }

    fn resolve_in(&mut self, place: usize, name: &'a str) -> Result<Option<ValueId>, NodeError> {
        let scope = &self.scopes[place];
        match scope.names.get(name) {
            Some(Named::Value(id)) => return Ok(Some(*id)),
            Some(Named::LeftOut) => return Ok(None),
            None if !scope.open => {
                let expected = "an input, a constant or the output of a node";
                return Err(NodeError::malformed(
                    format_args!("value {name:?}"),
                    "made nowhere",
                    expected,
                ));
            }
            None => {}
        }
        let Some(around) = self.resolve_in(place - 1, name)? else {
            return Ok(None);
        };
        let info = self.graphs[self.scopes[place - 1].graph]
            .value(around)
            .clone();
        let scope = &mut self.scopes[place];
        let graph = &mut self.graphs[scope.graph];
        let here = graph.add_value(info);
        graph.captures.push(Capture { around, here });
        scope.names.insert(name, Named::Value(here));
        Ok(Some(here))
    }
}
