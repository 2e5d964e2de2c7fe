//! Picking and putting by index.

use streampool_tensor::Combine;

use crate::Reference;

const NEAR: f64 = 1e-6;

#[test]
fn picking() {
    let mut reference = Reference::open("index");
    for case in ["index_select", "take", "gather", "embedding"] {
        let [x, indices] = ["x", "indices"].map(|name| reference.get(case, name));
        let y = match case {
            "index_select" => x.index_select(1, &indices),
            "take" => x.take(&indices),
            "gather" => x.gather(-2, &indices),
            _ => x.embedding(&indices),
        };
        reference.assert_same(case, "y", &y.unwrap());
    }
}

#[test]
fn putting() {
    let mut reference = Reference::open("index");
    for (name, combine) in [
        ("add", Combine::Add),
        ("mul", Combine::Mul),
        ("min", Combine::Min),
        ("max", Combine::Max),
    ] {
        for way in ["scatter", "index"] {
            let case = format!("{way}_{name}");
            let names = ["x", "indices", "updates"];
            let [x, indices, updates] = names.map(|name| reference.get(&case, name));
            let y = match way {
                "scatter" => x.scatter_reduce(1, &indices, &updates, combine),
                _ => x.index_reduce(1, &indices, &updates, combine),
            };
            reference.assert_close(&case, "y", &y.unwrap(), NEAR);
            if combine == Combine::Add {
                let y = match way {
                    "scatter" => x.scatter_add(1, &indices, &updates),
                    _ => x.index_add(1, &indices, &updates),
                };
                reference.assert_close(&case, "y", &y.unwrap(), NEAR);
            }
        }
    }
}
