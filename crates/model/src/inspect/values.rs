//! The values of a model: what is declared of them, and what is found.

use serde::Serialize;

use crate::graph::{Dim, Graph, ValueId, ValueInfo};
use crate::symbols::Shapes;

/// An input or output.
#[derive(Debug, Clone, Serialize)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// The type of its elements, if it is known.
    pub dtype: Option<&'static str>,
    /// Its sizes, if they are known: numbers, or formulas of names.
    pub shape: Option<Vec<String>>,
    /// Whether it has to be given; of outputs, nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// What is found when the model is followed, where that is not what it declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computed: Option<String>,
}

impl From<&ValueInfo> for Value {
    fn from(port: &ValueInfo) -> Value {
        let sizes = port.shape.as_ref();
        Value {
            name: port.name.clone(),
            dtype: port.dtype.map(|dtype| dtype.name()),
            shape: sizes.map(|sizes| sizes.iter().map(|size| size.to_string()).collect()),
            required: None,
            computed: None,
        }
    }
}

/// What a caller gives, and then what a caller need not give.
pub fn inputs(graph: &Graph) -> Vec<Value> {
    let inputs = graph.inputs.iter().map(|&id| (graph.value(id), true));
    let defaults = graph.defaults.iter().map(|(_, info)| (info, false));
    let value = |(info, required): (&ValueInfo, bool)| Value {
        required: Some(required),
        ..Value::from(info)
    };
    inputs.chain(defaults).map(value).collect()
}

/// The outputs of a graph, and all else that its nodes make.
pub fn found(graph: &Graph, shapes: &Shapes) -> (Vec<Value>, Vec<Value>) {
    let outputs = graph.outputs.iter().map(|&id| value(graph, shapes, id));
    let made = graph
        .nodes
        .iter()
        .flat_map(|node| node.outputs.iter().flatten());
    let inner = made.filter(|id| !graph.outputs.contains(id) && shapes.get(**id).is_some());
    let inner = inner.map(|&id| value(graph, shapes, id));
    (outputs.collect(), inner.collect())
}

fn value(graph: &Graph, shapes: &Shapes, id: ValueId) -> Value {
    let declared = graph.value(id);
    let complete = Value::from(&shapes.complete(id, declared));
    let Some((_, sizes)) = shapes.get(id) else {
        return complete;
    };
    let contradicts = |(declared, found): (&Dim, &Dim)| match (declared, found) {
        (Dim::Fixed(declared), Dim::Fixed(found)) => declared != found,
        (Dim::Fixed(_), Dim::Named(_)) => true,
        _ => false,
    };
    let differs = declared.shape.as_ref().is_some_and(|shape| {
        shape.len() != sizes.len() || shape.iter().zip(sizes).any(contradicts)
    });
    if !differs {
        return complete;
    }
    // What is declared stands first, and what is found beside it.
    Value {
        computed: complete
            .shape
            .map(|sizes| format!("[{}]", sizes.join(", "))),
        ..Value::from(declared)
    }
}

#[cfg(test)]
mod tests {
    use streampool_tensor::DType;

    use super::*;
    use crate::graph::{Node, Operator};

    #[test]
    fn what_is_found_stands_beside_what_is_declared() {
        let mut graph = Graph::default();
        let mut add = |name: &str, sizes: Option<[Dim; 2]>| {
            graph.add_value(ValueInfo {
                name: name.to_owned(),
                dtype: Some(DType::F32),
                shape: sizes.map(Vec::from),
                ..ValueInfo::default()
            })
        };
        let n = || Dim::Named("n".to_owned());
        let x = add("x", Some([n(), Dim::Fixed(3)]));
        let between = add("between", None);
        let right = add("right", Some([n(), Dim::Free]));
        let wrong = add("wrong", Some([Dim::Fixed(4), Dim::Fixed(3)]));
        graph.inputs = vec![x];
        graph.outputs = vec![right, wrong];
        for (from, to) in [(x, between), (between, right), (between, wrong)] {
            graph.nodes.push(Node {
                name: graph.name(to).to_owned(),
                operator: Operator::onnx("Neg", 17),
                inputs: vec![Some(from)],
                outputs: vec![Some(to)],
                attributes: Vec::new(),
            });
        }
        let shapes = graph.shapes(&crate::testing::host_pool());
        let (outputs, inner) = found(&graph, &shapes);
        let told = |value: &Value| {
            let shape = value.shape.as_ref().map(|sizes| sizes.join(", "));
            (shape.unwrap_or_default(), value.computed.clone())
        };
        assert_eq!(told(&outputs[0]), ("n, 3".to_owned(), None));
        let beside = Some("[n, 3]".to_owned());
        assert_eq!(told(&outputs[1]), ("4, 3".to_owned(), beside));
        assert_eq!(inner.len(), 1);
        assert_eq!(told(&inner[0]), ("n, 3".to_owned(), None));
    }
}
