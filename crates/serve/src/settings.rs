//! What both protocols have of the extension `trace`.

use crate::error::{Error, Result};
use crate::server::Server;
use crate::traces::{self, Change};

/// The settings of all models, or of one.
pub fn traces(server: &Server, model: Option<&str>) -> Result<Vec<(&'static str, Vec<String>)>> {
    if let Some(model) = model {
        server.repository().find(model, None)?;
    }
    Ok(match server.tracer() {
        Some(tracer) => tracer.told(model),
        None => traces::told(false, 1, None),
    })
}

/// Changes settings of all models, or of one.
pub fn change_traces(server: &Server, model: Option<&str>, changes: &[Change]) -> Result<()> {
    if let Some(model) = model {
        server.repository().find(model, None)?;
    }
    match server.tracer() {
        Some(tracer) => tracer.change(model, changes),
        None => Err(Error::invalid(
            "nothing can be traced: start the server with `--traces`, which says where traces go",
        )),
    }
}
