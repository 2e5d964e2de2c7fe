//! How a model is served: what its `config.pbtxt` says, as far as that is supported, or what holds without one.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use serde_json::{Value as Json, json};
use streampool::batch::Priority;

use crate::pbtxt::{self, Message, Value, message, number, text, word};
use crate::port;
use crate::warm_up::WarmUp;

/// What holds where a model says nothing else.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The most rows of a batch, of models whose inputs and outputs have an open first axis.
    pub max_batch_size: usize,
    /// How long a request waits for others while the device is free.
    pub max_wait: Duration,
    /// How many batches of a model run at the same time.
    pub max_in_flight: Option<usize>,
    /// How many requests may wait for a model.
    pub queue_capacity: usize,
    /// The longest time that a request may take.
    pub request_time: Option<Duration>,
    /// The most tokens of a batch of texts, padding included.
    pub max_batch_tokens: usize,
    /// Tenants and their weights; others have weight 1.
    pub weights: Vec<(String, f64)>,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            max_batch_size: 32,
            max_wait: Duration::ZERO,
            max_in_flight: None,
            queue_capacity: 1024,
            request_time: None,
            max_batch_tokens: 16_384,
            weights: Vec::new(),
        }
    }
}

/// What `config.pbtxt` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The most rows of a batch; 0: the model is not batched.
    pub max_batch_size: Option<usize>,
    /// How long a request waits for others.
    pub max_wait: Option<Duration>,
    /// How many batches run at the same time.
    pub instances: Option<usize>,
    /// How requests wait.
    pub default_policy: QueuePolicy,
    /// The same for priorities that have a policy of their own.
    pub policies: BTreeMap<u64, QueuePolicy>,
    /// Priorities are 1 to this.
    pub priority_levels: u64,
    /// The priority of a request that says none; 0: the middle.
    pub default_priority: u64,
    /// What is run before the model serves.
    pub warm_ups: Vec<WarmUp>,
    /// Which versions are served.
    pub versions: Versions,
    /// Where the model's file is in the folder of a version.
    pub file: Option<String>,
    /// The name, if it is given: it has to be that of the folder.
    pub name: Option<String>,
    /// Names and types of inputs and outputs: they have to be the model's.
    pub ports: Vec<Port>,
    /// Fields that are read and have no effect.
    pub without_effect: Vec<String>,
}

/// How requests of a priority wait.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueuePolicy {
    /// How many.
    pub capacity: Option<usize>,
    /// How long, if they say nothing else.
    pub timeout: Option<Duration>,
    /// Whether they go behind the others then, and are not refused.
    pub delays: bool,
}

/// An input or output that `config.pbtxt` lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Port {
    /// Whether it is an input.
    pub input: bool,
    /// Its name.
    pub name: String,
    /// Its type, such as `FP32`.
    pub datatype: String,
}

/// Which versions of a model are served.
#[derive(Debug, Clone, PartialEq)]
pub enum Versions {
    /// So many, with the highest numbers.
    Latest(usize),
    /// All.
    All,
    /// These.
    Specific(Vec<u64>),
}

impl Default for Versions {
    fn default() -> Self {
        Versions::Latest(1)
    }
}

/// Fields that Triton has and that make no difference here.
const WITHOUT_EFFECT: [&str; 7] = [
    "optimization",
    "parameters",
    "metric_tags",
    "cc_model_filenames",
    "response_cache",
    "model_operations",
    "runtime",
];

impl Config {
    /// Reads a `config.pbtxt`. A field that would change answers and is not supported is an error.
    pub fn read(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for (name, value) in pbtxt::read(text)?.0 {
            config
                .field(&name, &value)
                .map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(config)
    }

    fn field(&mut self, name: &str, value: &Value) -> Result<(), String> {
        match name {
            "name" => self.name = Some(text(value)?),
            "platform" | "backend" => {
                let given = text(value)?;
                if !given.is_empty() && !given.starts_with("onnxruntime") {
                    return Err(format!("{given:?} is not supported, models are ONNX files"));
                }
            }
            "default_model_filename" => self.file = below(text(value)?)?,
            "max_batch_size" => self.max_batch_size = Some(number(value)?),
            "input" | "output" => self.ports.push(port(name == "input", message(value)?)?),
            "version_policy" => self.versions = versions(message(value)?)?,
            "instance_group" => {
                let count = instances(message(value)?)?;
                self.instances = Some(self.instances.unwrap_or(0).saturating_add(count));
            }
            "dynamic_batching" => self.dynamic_batching(message(value)?)?,
            "model_warmup" => self.warm_ups.push(WarmUp::read(message(value)?)?),
            name if WITHOUT_EFFECT.contains(&name) => self.without_effect.push(name.to_owned()),
            _ => return Err("is not supported".to_owned()),
        }
        Ok(())
    }

    fn dynamic_batching(&mut self, fields: &Message) -> Result<(), String> {
        for (name, value) in &fields.0 {
            match &name[..] {
                "max_queue_delay_microseconds" => self.max_wait = micros(value)?,
                // Answers of a stream always come in the order of its requests.
                "preserve_ordering" if ["true", "false"].contains(&word(value)?) => {}
                "preferred_batch_size" => {
                    self.without_effect.push(format!("dynamic_batching.{name}"));
                }
                "priority_levels" => self.priority_levels = number(value)? as u64,
                "default_priority_level" => self.default_priority = number(value)? as u64,
                "default_queue_policy" => self.default_policy = queue_policy(message(value)?)?,
                "priority_queue_policy" => self.priority_queue_policy(message(value)?)?,
                _ => return Err(format!("{name} is not supported")),
            }
        }
        Ok(())
    }

    fn priority_queue_policy(&mut self, entry: &Message) -> Result<(), String> {
        let (mut level, mut policy) = (0, QueuePolicy::default());
        for (name, value) in &entry.0 {
            match &name[..] {
                "key" => level = number(value)? as u64,
                "value" => policy = queue_policy(message(value)?)?,
                _ => return Err(format!("{name} is not supported")),
            }
        }
        self.policies.insert(level, policy);
        Ok(())
    }

    /// How many priorities there are. Clients of a model that says nothing may give one of the three that the queue has.
    pub fn levels(&self) -> u64 {
        match self.priority_levels {
            0 => 3,
            levels => levels,
        }
    }

    /// The priority of a request that says none.
    pub fn default_level(&self) -> u64 {
        match self.default_priority {
            0 => self.levels().div_ceil(2),
            level => level,
        }
    }

    /// The queue's priority that stands for one of these.
    pub fn priority(&self, level: u64) -> Priority {
        match level.cmp(&self.levels().div_ceil(2)) {
            Ordering::Less => Priority::High,
            Ordering::Equal => Priority::Normal,
            Ordering::Greater => Priority::Low,
        }
    }

    /// How requests of this priority wait.
    pub fn policy(&self, level: u64) -> QueuePolicy {
        *self.policies.get(&level).unwrap_or(&self.default_policy)
    }

    /// How many requests may wait, where so many may if nothing is said; and how many of each priority of the queue's, if any has
    /// a size. Those that share one share its room.
    pub fn capacities(&self, unsaid: usize) -> (usize, [Option<usize>; Priority::COUNT]) {
        let default = self.default_policy.capacity;
        if self.priority_levels == 0 {
            return (default.unwrap_or(unsaid), [None; Priority::COUNT]);
        }
        let (middle, end) = (self.levels().div_ceil(2), self.levels().saturating_add(1));
        let each = [1..middle, middle..middle + 1, middle + 1..end].map(|levels| {
            let own = self.policies.range(levels.clone());
            let others = (levels.end - levels.start).saturating_sub(own.clone().count() as u64);
            let others = match (others, default) {
                (0, _) => Some(0),
                (_, None) => None,
                (others, Some(each)) => {
                    let others = usize::try_from(others).unwrap_or(usize::MAX);
                    Some(each.saturating_mul(others))
                }
            };
            let mut all = own.map(|(_, policy)| policy.capacity).chain([others]);
            all.try_fold(0usize, |sum, size| Some(sum.saturating_add(size?)))
        });
        if each == [None; Priority::COUNT] {
            return (unsaid, each);
        }
        // None takes the room of another.
        let each = each.map(|size| size.unwrap_or(unsaid));
        let all = each.into_iter().fold(0usize, usize::saturating_add);
        (all, each.map(Some))
    }

    /// The form that clients get.
    pub fn json(&self, name: &str, batch: usize, inputs: Vec<Json>, outputs: Vec<Json>) -> Json {
        let versions = match &self.versions {
            Versions::Latest(count) => json!({"latest": {"num_versions": count}}),
            Versions::All => json!({"all": {}}),
            Versions::Specific(versions) => json!({"specific": {"versions": versions}}),
        };
        let mut config = json!({
            "name": name,
            "platform": "onnxruntime_onnx",
            "backend": "onnxruntime",
            "version_policy": versions,
            "max_batch_size": batch,
            "input": inputs,
            "output": outputs,
            "default_model_filename": self.file.as_deref().unwrap_or("model.onnx"),
        });
        if batch > 0 {
            let delay = self.max_wait.unwrap_or_default().as_micros() as u64;
            config["dynamic_batching"] = json!({
                "preferred_batch_size": [batch],
                "max_queue_delay_microseconds": delay,
            });
        }
        config
    }

    /// Refuses it for a model of another name, or with other inputs and outputs than these.
    pub fn check(
        &self,
        name: &str,
        inputs: &[port::Port],
        outputs: &[port::Port],
    ) -> Result<(), String> {
        if let Some(other) = self
            .name
            .as_deref()
            .filter(|own| *own != name && !own.is_empty())
        {
            return Err(format!(
                "config.pbtxt is for {other:?}, and the folder is {name:?}"
            ));
        }
        if self.default_priority > self.priority_levels {
            return Err(format!(
                "default_priority_level is {}, and priority_levels {}",
                self.default_priority, self.priority_levels
            ));
        }
        let levels = 1..=self.priority_levels;
        if let Some(level) = self.policies.keys().find(|level| !levels.contains(level)) {
            return Err(format!(
                "priority_queue_policy is for {level}, and priority_levels {}",
                self.priority_levels
            ));
        }
        for port in &self.ports {
            let (ports, kind) = match port.input {
                true => (inputs, "input"),
                false => (outputs, "output"),
            };
            let Some(known) = ports.iter().find(|known| known.name == port.name) else {
                let names: Vec<&str> = ports.iter().map(|port| &port.name[..]).collect();
                return Err(format!(
                    "config.pbtxt lists the {kind} {:?}, and the model has {names:?}",
                    port.name
                ));
            };
            let datatype = known.configured();
            if !port.datatype.is_empty() && port.datatype != datatype {
                return Err(format!(
                    "config.pbtxt says {} for {kind} {:?}, and the model says {datatype}",
                    port.datatype, port.name
                ));
            }
        }
        Ok(())
    }
}

/// How many requests may wait, how long, and what then.
fn queue_policy(fields: &Message) -> Result<QueuePolicy, String> {
    let mut policy = QueuePolicy::default();
    for (name, value) in &fields.0 {
        match &name[..] {
            "max_queue_size" => policy.capacity = Some(number(value)?).filter(|&size| size > 0),
            "default_timeout_microseconds" => {
                policy.timeout = micros(value)?.filter(|time| !time.is_zero());
            }
            // A request may only ever shorten the time.
            "allow_timeout_override" => {}
            "timeout_action" if ["REJECT", "DELAY"].contains(&word(value)?) => {
                policy.delays = word(value)? == "DELAY";
            }
            _ => return Err(format!("{name} {value:?} is not supported")),
        }
    }
    Ok(policy)
}

/// The path of a file that is in a version's folder, or below it; nothing, if it is empty.
fn below(file: String) -> Result<Option<String>, String> {
    let mut parts = Path::new(&file).components();
    match parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        true => Ok(Some(file).filter(|file| !file.is_empty())),
        false => Err(format!("{file:?} leads out of the folder of a version")),
    }
}

fn micros(value: &Value) -> Result<Option<Duration>, String> {
    Ok(Some(Duration::from_micros(number(value)? as u64)))
}

fn port(input: bool, fields: &Message) -> Result<Port, String> {
    let mut port = Port {
        input,
        ..Port::default()
    };
    for (name, value) in &fields.0 {
        match &name[..] {
            "name" => port.name = text(value)?,
            "data_type" => {
                let name = word(value)?;
                port.datatype = name.strip_prefix("TYPE_").unwrap_or(name).to_owned();
            }
            // The model says its sizes itself.
            "dims" => {}
            "format" if word(value)? == "FORMAT_NONE" => {}
            "optional" | "is_shape_tensor" if word(value)? == "false" => {}
            _ => return Err(format!("{name} is not supported")),
        }
    }
    Ok(port)
}

fn versions(fields: &Message) -> Result<Versions, String> {
    match &fields.0[..] {
        [(name, _)] if name == "all" => Ok(Versions::All),
        [(name, value)] if name == "latest" => {
            let count = message(value)?.0.first();
            let count = count.map_or(Ok(1), |(_, value)| number(value))?;
            Ok(Versions::Latest(count))
        }
        [(name, value)] if name == "specific" => {
            let versions = message(value)?.0.iter();
            let versions = versions.map(|(_, value)| number(value).map(|number| number as u64));
            Ok(Versions::Specific(versions.collect::<Result<_, _>>()?))
        }
        _ => Err("expected one of `latest`, `all`, `specific`".to_owned()),
    }
}

fn instances(fields: &Message) -> Result<usize, String> {
    let mut count = 1;
    for (name, value) in &fields.0 {
        match &name[..] {
            "count" => count = number(value)?.max(1),
            "kind" if ["KIND_AUTO", "KIND_CPU", "KIND_GPU"].contains(&word(value)?) => {}
            "gpus" | "name" => {}
            _ => return Err(format!("{name} is not supported")),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESNET: &str = r#"
            name: "resnet"
            platform: "onnxruntime_onnx"
            max_batch_size: 16
            input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
            output [ { name: "y" data_type: TYPE_FP32 dims: [ 1000 ] } ]
            instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0 ] } ]
            version_policy { specific { versions: [1, 3] } }
            dynamic_batching {
              preferred_batch_size: [ 8, 16 ]
              max_queue_delay_microseconds: 100
              default_queue_policy { max_queue_size: 64 default_timeout_microseconds: 5000 timeout_action: REJECT }
            }
            optimization { graph { level: 1 } }
            "#;

    /// Files made from a good one by cutting and changing: each is read or refused. `SERVE_CASES` says how many.
    #[test]
    fn no_config_is_too_strange() {
        let cases = std::env::var("SERVE_CASES").ok();
        let cases = cases.and_then(|cases| cases.parse().ok()).unwrap_or(3000);
        let mut random = fastrand::Rng::with_seed(8);
        let words: Vec<&str> = RESNET.split_inclusive([' ', '\n', '{', '[']).collect();
        let pieces = [
            "{",
            "}",
            "[",
            "]",
            "\"",
            "-1",
            "99999999999999999999",
            "1e9",
            "é",
            "<",
            ";",
            "\\",
            "count: ",
        ];
        let (mut good, mut bad) = (0, 0);
        for _ in 0..cases {
            let mut words = words.clone();
            for _ in 0..random.usize(0..4) {
                let at = random.usize(0..words.len());
                match random.u8(0..4) {
                    0 => words.truncate(at.max(1)),
                    1 => words.insert(at, pieces[random.usize(0..pieces.len())]),
                    2 => words[at] = pieces[random.usize(0..pieces.len())],
                    _ => words.insert(at, words[random.usize(0..words.len())]),
                }
            }
            match Config::read(&words.concat()) {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
        assert!(
            good > cases / 20 && bad > cases / 20,
            "{good} good, {bad} bad"
        );
    }

    #[test]
    fn a_config_of_triton_is_read() {
        let config = Config::read(RESNET).unwrap();
        assert_eq!(config.max_batch_size, Some(16));
        assert_eq!(config.max_wait, Some(Duration::from_micros(100)));
        let policy = QueuePolicy {
            capacity: Some(64),
            timeout: Some(Duration::from_millis(5)),
            delays: false,
        };
        assert_eq!(config.policy(1), policy);
        assert_eq!(config.instances, Some(2));
        assert_eq!(config.versions, Versions::Specific(vec![1, 3]));
        assert_eq!(config.ports[0].datatype, "FP32");
        let named = [
            "dynamic_batching.preferred_batch_size",
            "dynamic_batching.preferred_batch_size",
            "optimization",
        ];
        assert_eq!(config.without_effect, named);
    }

    #[test]
    fn each_level_has_its_room_and_three_stand_for_all() {
        let capacities = |text: &str| {
            let config = Config::read(&format!("dynamic_batching {{ {text} }}")).unwrap();
            config.capacities(1000)
        };
        let default = "default_queue_policy { max_queue_size: 10 }";
        let own = |key: u64, size: usize| {
            format!("priority_queue_policy {{ key: {key} value {{ max_queue_size: {size} }} }}")
        };
        assert_eq!(capacities(""), (1000, [None; 3]));
        assert_eq!(capacities(default), (10, [None; 3]));
        assert_eq!(capacities("priority_levels: 5"), (1000, [None; 3]));
        let of = |levels: u64, text: &str| capacities(&format!("priority_levels: {levels} {text}"));
        assert_eq!(of(1, default), (10, [Some(0), Some(10), Some(0)]));
        assert_eq!(of(5, default), (50, [Some(20), Some(10), Some(20)]));
        let both = format!("{default} {} {}", own(1, 3), own(3, 0));
        assert_eq!(of(3, &both), (1013, [Some(3), Some(10), Some(1000)]));
        assert_eq!(of(4, &own(1, 3)), (2003, [Some(3), Some(1000), Some(1000)]));
        assert_eq!(of(5, &own(1, 3)), (1000, [None; 3]));
        assert_eq!(of(2, &own(2, 3)), (1003, [Some(0), Some(1000), Some(3)]));
        let most = Some(usize::MAX);
        assert_eq!(of(u64::MAX, default), (usize::MAX, [most, Some(10), most]));
    }

    #[test]
    fn what_would_change_answers_is_an_error() {
        for (text, why) in [
            (
                "sequence_batching { }",
                "sequence_batching: is not supported",
            ),
            ("ensemble_scheduling { }", "ensemble_scheduling"),
            ("platform: \"tensorrt_plan\"", "models are ONNX files"),
            ("max_batch_size: -1", "not a whole number"),
            (
                "dynamic_batching { preserve_ordering: 1 }",
                "preserve_ordering",
            ),
            (
                "dynamic_batching { default_queue_policy { timeout_action: WAIT } }",
                "timeout_action",
            ),
            (
                "default_model_filename: '../../etc/x'",
                "default_model_filename: \"../../etc/x\" leads out",
            ),
            ("default_model_filename: 'a/../../x'", "leads out"),
            ("default_model_filename: '..'", "leads out"),
            ("default_model_filename: '/etc/x'", "leads out"),
            (
                "instance_group { kind: KIND_MODEL }",
                "kind is not supported",
            ),
            ("version_policy { }", "expected one of"),
            ("input { name: 3 }", "expected a string"),
        ] {
            let error = Config::read(text).unwrap_err();
            assert!(error.contains(why), "{error} for {text}");
        }
    }
}
