//! Models of text: a tokenizer beside an encoder, what becomes of its outputs, and the requests for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use streampool::{Array, DType};
use tokenizers::{EncodeInput, InputSequence, Tokenizer, TruncationParams};

use crate::error::{Error, Result};
use crate::port::Port;

/// Where no file says how many tokens a text may have.
const MAX_LENGTH: usize = 512;

/// The lengths that texts are padded to: so close that a tenth of what is computed is padding, and so few that plans serve many texts.
const EDGES: [usize; 29] = [
    16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768,
    896, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
];

/// A tokenizer, and what the model takes and gives.
pub struct Text {
    tokenizer: Tokenizer,
    /// The most tokens of a text.
    max_length: usize,
    roles: Vec<Role>,
    output: usize,
    head: Head,
    labels: Vec<String>,
}

/// What an input of an encoder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Ids,
    Mask,
    Types,
}

/// What an output of an encoder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// A vector for each token, of which one is made.
    Tokens(Pooling),
    /// A vector for each text.
    Pooled,
    /// A number for each class.
    Classes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pooling {
    Mean,
    First,
    Last,
}

/// A text as tokens, ready for the model.
pub struct Tokens {
    ids: Vec<i64>,
    types: Vec<i64>,
}

impl Tokens {
    /// Tokens that a client gives.
    pub fn of(ids: Vec<u32>) -> Tokens {
        Tokens {
            types: vec![0; ids.len()],
            ids: ids.into_iter().map(i64::from).collect(),
        }
    }

    /// How many these are.
    pub fn count(&self) -> usize {
        self.ids.len()
    }
}

impl Text {
    /// Loads the tokenizer that is beside a model or in the folder above; nothing, if there is none, or the model is no encoder.
    pub fn load(path: &Path, inputs: &[Port], outputs: &[Port]) -> Result<Option<Text>, String> {
        let beside = path.parent();
        let folders = beside.into_iter().chain(beside.and_then(Path::parent));
        let folders: Vec<&Path> = folders.collect();
        let Some(file) = find(&folders, "tokenizer.json") else {
            return Ok(None);
        };
        let Some((roles, output, head)) = encoder(&folders, inputs, outputs)? else {
            tracing::warn!(
                "there is a tokenizer, but the model is no encoder: it takes more than `input_ids`, `attention_mask` and `token_type_ids` of INT64, or gives no FP32"
            );
            return Ok(None);
        };
        let max_length = max_length(&folders)?;
        let failed = |why: String| format!("{}: {why}", file.display());
        let mut tokenizer = Tokenizer::from_file(&file).map_err(|why| failed(why.to_string()))?;
        tokenizer.with_padding(None);
        let truncation = TruncationParams {
            max_length,
            ..TruncationParams::default()
        };
        let truncated = tokenizer.with_truncation(Some(truncation));
        truncated.map_err(|why| failed(why.to_string()))?;
        Ok(Some(Text {
            tokenizer,
            max_length,
            roles,
            output,
            head,
            labels: labels(&folders)?,
        }))
    }

    /// The lengths that texts are padded to, so that those of about the same length go together.
    pub fn edges(&self) -> Vec<usize> {
        let below = EDGES.into_iter().filter(|&edge| edge < self.max_length);
        below.chain([self.max_length]).collect()
    }

    /// The most tokens of a text.
    pub fn max_length(&self) -> usize {
        self.max_length
    }

    /// Whether it makes vectors of texts.
    pub fn embeds(&self) -> bool {
        self.head != Head::Classes
    }

    /// Makes tokens of a text, or of two that belong together. One that is too long is cut, or refused.
    pub fn tokens(&self, text: &str, second: Option<&str>, cut: bool) -> Result<Tokens> {
        let input = match second {
            None => EncodeInput::Single(InputSequence::from(text)),
            Some(second) => EncodeInput::Dual(text.into(), second.into()),
        };
        // It is others' code, and the thread is one that reads requests.
        let made = catch_unwind(AssertUnwindSafe(|| self.tokenizer.encode_fast(input, true)));
        let encoding = made.map_err(|_| Error::Internal("the tokenizer panicked".to_owned()))?;
        let encoding = encoding.map_err(|why| Error::invalid(format!("a text: {why}")))?;
        if !cut && !encoding.get_overflowing().is_empty() {
            let most = self.max_length;
            return Err(Error::invalid(format!(
                "a text has more than {most} tokens, the most of the model"
            )));
        }
        let wide = |values: &[u32]| values.iter().map(|&value| i64::from(value)).collect();
        Ok(Tokens {
            ids: wide(encoding.get_ids()),
            types: wide(encoding.get_type_ids()),
        })
    }

    /// The inputs of the model for a text.
    pub fn inputs(&self, tokens: &Tokens) -> Result<Vec<Array>> {
        let count = tokens.count();
        if count == 0 || count > self.max_length {
            let most = self.max_length;
            return Err(Error::invalid(format!(
                "a text has {count} tokens, expected 1 to {most}"
            )));
        }
        let array = |values: &[i64]| {
            Array::new(values, &[1, count]).map_err(|error| Error::Internal(error.to_string()))
        };
        let inputs = self.roles.iter().map(|role| match role {
            Role::Ids => array(&tokens.ids),
            Role::Types => array(&tokens.types),
            Role::Mask => array(&vec![1; count]),
        });
        inputs.collect()
    }

    /// What the model gave for a text: a vector, or a number for each class.
    pub fn output(&self, arrays: &[Array]) -> Result<Vec<f32>> {
        let array = arrays.get(self.output);
        let array = array.ok_or_else(|| Error::Internal("the model gave no output".to_owned()))?;
        let values = array.values::<f32>();
        let values = values.map_err(|error| Error::Internal(error.to_string()))?;
        let Head::Tokens(pooling) = self.head else {
            return Ok(values.to_vec());
        };
        let width = array.shape().last().copied().unwrap_or(0).max(1);
        let mut rows = values.chunks_exact(width);
        let none = || Error::Internal("the model gave no vector".to_owned());
        Ok(match pooling {
            Pooling::First => rows.next().ok_or_else(none)?.to_vec(),
            Pooling::Last => rows.next_back().ok_or_else(none)?.to_vec(),
            Pooling::Mean => {
                let count = rows.len().max(1) as f32;
                let mut sum = vec![0.0; width];
                for row in rows {
                    sum.iter_mut()
                        .zip(row)
                        .for_each(|(sum, value)| *sum += value);
                }
                sum.iter_mut().for_each(|sum| *sum /= count);
                sum
            }
        })
    }

    /// The name of a class.
    pub fn label(&self, class: usize) -> String {
        let known = self.labels.get(class).cloned();
        known.unwrap_or_else(|| format!("LABEL_{class}"))
    }
}

/// Makes the length of a vector 1.
pub fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}

fn find(folders: &[&Path], name: &str) -> Option<PathBuf> {
    let mut paths = folders.iter().map(|folder| folder.join(name));
    paths.find(|path| path.is_file())
}

/// A JSON file beside the model, if there is one.
fn json(folders: &[&Path], name: &str) -> Result<Option<Json>, String> {
    let Some(path) = find(folders, name) else {
        return Ok(None);
    };
    let failed = |why: String| format!("{}: {why}", path.display());
    let bytes = std::fs::read(&path).map_err(|error| failed(error.to_string()))?;
    let value = serde_json::from_slice(&bytes);
    value.map(Some).map_err(|error| failed(error.to_string()))
}

fn encoder(
    folders: &[&Path],
    inputs: &[Port],
    outputs: &[Port],
) -> Result<Option<(Vec<Role>, usize, Head)>, String> {
    let role = |port: &Port| match &port.name[..] {
        _ if port.dtype != DType::I64 || port.strings || port.shape.len() != 2 => None,
        "input_ids" => Some(Role::Ids),
        "attention_mask" => Some(Role::Mask),
        "token_type_ids" => Some(Role::Types),
        _ => None,
    };
    let roles: Option<Vec<Role>> = inputs.iter().map(role).collect();
    let Some(roles) =
        roles.filter(|roles| roles.contains(&Role::Ids) && roles.contains(&Role::Mask))
    else {
        return Ok(None);
    };
    let floats = || {
        outputs
            .iter()
            .enumerate()
            .filter(|(_, port)| port.dtype == DType::F32)
    };
    let named = |name: &str, axes: usize| {
        let mut found = floats()
            .filter(|(_, port)| port.shape.len() == axes && (name.is_empty() || port.name == name));
        found.next().map(|(at, _)| at)
    };
    if let Some(output) = named("sentence_embedding", 2) {
        return Ok(Some((roles, output, Head::Pooled)));
    }
    if let Some(output) = named("logits", 2) {
        return Ok(Some((roles, output, Head::Classes)));
    }
    if let Some(output) = named("last_hidden_state", 3).or_else(|| named("", 3)) {
        return Ok(Some((roles, output, Head::Tokens(pooling(folders)?))));
    }
    Ok(named("", 2).map(|output| (roles, output, Head::Pooled)))
}

/// How sentence-transformers makes one vector of many; the mean, where no file says so.
fn pooling(folders: &[&Path]) -> Result<Pooling, String> {
    let name = "1_Pooling/config.json";
    let Some(Json::Object(config)) = json(folders, name)? else {
        return Ok(Pooling::Mean);
    };
    let mut on: Vec<&str> = config
        .iter()
        .filter(|(_, value)| **value == Json::Bool(true))
        .filter_map(|(key, _)| key.strip_prefix("pooling_mode_"))
        .collect();
    on.extend(config.get("pooling_mode").and_then(Json::as_str));
    match on[..] {
        ["mean_tokens" | "mean"] | [] => Ok(Pooling::Mean),
        ["cls_token" | "cls"] => Ok(Pooling::First),
        ["lasttoken"] => Ok(Pooling::Last),
        _ => Err(format!(
            "{name}: the pooling {} is not supported",
            on.join(", ")
        )),
    }
}

/// How many tokens a text may have.
fn max_length(folders: &[&Path]) -> Result<usize, String> {
    let mut most = None;
    for (file, field) in [
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
        ("config.json", "max_position_embeddings"),
    ] {
        let value = json(folders, file)?;
        // Where there is no limit, some files have a number of thirty digits.
        let given = value.and_then(|value| value[field].as_f64());
        let given = given.filter(|given| (8.0..1e6).contains(given));
        if let Some(given) = given.map(|given| given as usize) {
            most = Some(most.map_or(given, |most: usize| most.min(given)));
        }
    }
    Ok(most.unwrap_or(MAX_LENGTH))
}

fn labels(folders: &[&Path]) -> Result<Vec<String>, String> {
    let config = json(folders, "config.json")?.unwrap_or_default();
    let names = config["id2label"].as_object();
    let count = names.map_or(0, |names| names.len());
    let name = |class: usize| Some(names?.get(&class.to_string())?.as_str()?.to_owned());
    Ok((0..count).map_while(name).collect())
}
