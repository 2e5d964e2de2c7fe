//! furnace-server with a model that gives its input back: 16 numbers, at the port that the argument says.

use furnace::{HostTensor, IoSpec, Model, Server, TensorModel};

#[derive(Debug)]
struct Identity;

impl TensorModel for Identity {
    fn name(&self) -> &str {
        "identity"
    }

    fn backend(&self) -> &str {
        "cpu"
    }

    fn inputs(&self) -> Vec<IoSpec> {
        vec![IoSpec::fp32("input", &[16])]
    }

    fn outputs(&self) -> Vec<IoSpec> {
        vec![IoSpec::fp32("output", &[16])]
    }

    fn run(&self, inputs: Vec<HostTensor>) -> furnace::Result<Vec<HostTensor>> {
        Ok(inputs)
    }
}

#[tokio::main]
async fn main() -> furnace::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    Server::new()
        .port(port.unwrap_or(3000))
        .model(Model::custom(Identity))
        .serve()
        .await
}
