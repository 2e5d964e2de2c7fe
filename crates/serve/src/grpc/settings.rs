//! What clients can change while the server runs: the log, what is traced, and regions of shared memory.

use std::collections::HashMap;

use super::messages::{
    Empty, LogChoice, LogSettings, LogValue, RegionName, RegionStatus, Regions, TraceRequest,
    TraceSettings, TraceValue,
};
use crate::error::{Error, Result};
use crate::log::Value;
use crate::server::Server;
use crate::settings::{change_traces, traces};
use crate::shared_memory::Status;
use crate::tenants::Who;

pub fn log(server: &Server, who: &Who, request: LogSettings) -> Result<LogSettings> {
    if !request.settings.is_empty() {
        server.check_control(who)?;
    }
    let changes = request.settings.into_iter().map(|(name, value)| {
        let value = match value.choice {
            Some(LogChoice::Flag(on)) => Value::Flag(on),
            Some(LogChoice::Number(number)) => Value::Number(number.into()),
            Some(LogChoice::Text(text)) => Value::Text(text),
            None => return Err(Error::invalid(format!("{name}: there is no value"))),
        };
        Ok((name, value))
    });
    let changes = changes.collect::<Result<Vec<_>>>()?;
    let log = server.log()?;
    log.change(&changes)?;
    let told = log.told().into_iter().map(|(name, value)| {
        let choice = Some(match value {
            Value::Flag(on) => LogChoice::Flag(on),
            Value::Number(number) => LogChoice::Number(u32::try_from(number).unwrap_or(u32::MAX)),
            Value::Text(text) => LogChoice::Text(text),
        });
        (name.to_owned(), LogValue { choice })
    });
    Ok(LogSettings {
        settings: told.collect(),
    })
}

pub fn trace(server: &Server, who: &Who, request: TraceRequest) -> Result<TraceSettings> {
    let model = Some(&request.model_name[..]).filter(|name| !name.is_empty());
    if !request.settings.is_empty() {
        server.check_control(who)?;
        let changes = request.settings.into_iter();
        let changes: Vec<_> = changes.map(|(name, value)| (name, value.values)).collect();
        change_traces(server, model, &changes)?;
    }
    let told = traces(server, model)?.into_iter();
    let told = told.map(|(name, values)| (name.to_owned(), TraceValue { values }));
    Ok(TraceSettings {
        settings: told.collect(),
    })
}

pub fn register(server: &Server, who: &Who, request: RegionStatus) -> Result<Empty> {
    let region = Status {
        name: request.name,
        key: request.key,
        offset: request.offset,
        size: request.byte_size,
    };
    server.regions().register(&who.tenant, region)?;
    Ok(Empty {})
}

pub fn unregister(server: &Server, who: &Who, request: RegionName) -> Result<Empty> {
    server.regions().unregister(&who.tenant, &request.name);
    Ok(Empty {})
}

pub fn status(server: &Server, who: &Who, request: RegionName) -> Result<Regions> {
    let told = server.regions().status(&who.tenant, &request.name)?;
    let told = told.into_iter().map(|region| {
        let status = RegionStatus {
            name: region.name.clone(),
            key: region.key,
            offset: region.offset,
            byte_size: region.size,
        };
        (region.name, status)
    });
    Ok(Regions {
        regions: told.collect(),
    })
}

/// Of CUDA there are none. Clients ask before they end.
pub fn no_regions(_: &Server, _: &Who, _: RegionName) -> Result<Regions> {
    Ok(Regions {
        regions: HashMap::new(),
    })
}

pub fn nothing_to_unregister(_: &Server, _: &Who, _: RegionName) -> Result<Empty> {
    Ok(Empty {})
}
