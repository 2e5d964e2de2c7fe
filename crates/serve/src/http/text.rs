//! Text over HTTP: OpenAI's `/v1/embeddings`, and `/embed`, `/rerank` and `/predict` of text-embeddings-inference.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::infer::terms;
use super::{body, reply};
use crate::aside::aside;
use crate::error::{Error, Result};
use crate::model::{Model, Terms};
use crate::outputs::best_first;
use crate::server::Server;
use crate::tenants::Who;
use crate::text::{Text, Tokens, normalise};

/// A text or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
    Tokens(Vec<u32>),
    ManyTokens(Vec<Vec<u32>>),
}

/// A text, two that belong together, or a list of such.
#[derive(Deserialize)]
#[serde(untagged)]
enum Pairs {
    One(String),
    Pair(Vec<String>),
    Many(Vec<Vec<String>>),
}

#[derive(Deserialize)]
struct Embeddings {
    input: Texts,
    model: Option<String>,
    encoding_format: Option<String>,
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Embed {
    inputs: Texts,
    model: Option<String>,
    #[serde(default = "yes")]
    normalize: bool,
    #[serde(default = "yes")]
    truncate: bool,
}

#[derive(Deserialize)]
struct Rerank {
    query: String,
    texts: Vec<String>,
    model: Option<String>,
    #[serde(default)]
    raw_scores: bool,
    #[serde(default)]
    return_text: bool,
    #[serde(default = "yes")]
    truncate: bool,
}

#[derive(Deserialize)]
struct Predict {
    inputs: Pairs,
    model: Option<String>,
    #[serde(default)]
    raw_scores: bool,
    #[serde(default = "yes")]
    truncate: bool,
}

/// The answer to [`Embeddings`].
#[derive(Serialize)]
struct Embedded<'a> {
    object: &'static str,
    data: Vec<Embedding>,
    model: &'a str,
    usage: Json,
}

#[derive(Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Numbers,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Numbers {
    List(Vec<f32>),
    Base64(String),
}

/// A text in the answer to [`Rerank`].
#[derive(Serialize)]
struct Rank<'a> {
    index: usize,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// A class in the answer to [`Predict`].
#[derive(Serialize)]
struct Class {
    score: f32,
    label: String,
}

fn yes() -> bool {
    true
}

/// `GET /v1/models`.
pub async fn models(State(server): State<Arc<Server>>) -> Response {
    let loaded = server.repository().loaded();
    let mut names: Vec<&str> = loaded
        .iter()
        .filter(|model| model.text().is_some())
        .map(|model| model.name())
        .collect();
    names.dedup();
    let each = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "owned_by": "streampool"}));
    reply::json(&json!({"object": "list", "data": each.collect::<Vec<_>>()}))
}

/// `POST /v1/embeddings`.
pub async fn embeddings(State(server): State<Arc<Server>>, request: Request) -> Response {
    let answer = answer(&server, request, |asked: Embeddings| {
        let base64 = match asked.encoding_format.as_deref() {
            None | Some("float") => false,
            Some("base64") => true,
            Some(other) => {
                return Err(Error::invalid(format!(
                    "encoding_format is {other:?}, expected float or base64"
                )));
            }
        };
        Ok(Job {
            model: asked.model,
            needs: Needs::Vectors,
            texts: asked.input.into(),
            // As OpenAI does: half a text is not what was asked for.
            cut: false,
            write: Box::new(move |model, tokens, vectors, _| {
                let data = vectors.into_iter().enumerate().map(|(index, mut vector)| {
                    if let Some(count) = asked.dimensions {
                        if count == 0 || count > vector.len() {
                            let most = vector.len();
                            return Err(Error::invalid(format!(
                                "dimensions is {count}, expected 1 to {most}"
                            )));
                        }
                        vector.truncate(count);
                    }
                    normalise(&mut vector);
                    Ok(Embedding {
                        object: "embedding",
                        index,
                        embedding: match base64 {
                            true => Numbers::Base64(encoded(&vector)),
                            false => Numbers::List(vector),
                        },
                    })
                });
                Ok(reply::json(&Embedded {
                    object: "list",
                    data: data.collect::<Result<_>>()?,
                    model: model.name(),
                    usage: json!({"prompt_tokens": tokens, "total_tokens": tokens}),
                }))
            }),
        })
    });
    answer.await.unwrap_or_else(|error| openai_error(&error))
}

/// A vector in base64.
fn encoded(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// An error as OpenAI's clients expect it.
fn openai_error(error: &Error) -> Response {
    let kind = match error.status() {
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    let told =
        json!({"error": {"message": error.to_string(), "type": kind, "param": null, "code": null}});
    let mut response = reply::error(error);
    *response.body_mut() = told.to_string().into();
    response
}

/// `POST /embed`.
pub async fn embed(State(server): State<Arc<Server>>, request: Request) -> Response {
    let answer = answer(&server, request, |asked: Embed| {
        Ok(Job {
            model: asked.model,
            needs: Needs::Vectors,
            texts: asked.inputs.into(),
            cut: asked.truncate,
            write: Box::new(move |_, _, mut vectors, _| {
                if asked.normalize {
                    vectors.iter_mut().for_each(|vector| normalise(vector));
                }
                Ok(reply::json(&vectors))
            }),
        })
    });
    answer.await.unwrap_or_else(|error| reply::error(&error))
}

/// `POST /rerank`.
pub async fn rerank(State(server): State<Arc<Server>>, request: Request) -> Response {
    let answer = answer(&server, request, |asked: Rerank| {
        let pairs = asked
            .texts
            .iter()
            .map(|text| (asked.query.clone(), Some(text.clone())));
        Ok(Job {
            model: asked.model,
            needs: Needs::Classes,
            texts: Given::Texts(pairs.collect()),
            cut: asked.truncate,
            write: Box::new(move |model, _, scores, _| {
                let one = |scores: &Vec<f32>| match scores[..] {
                    [score] if asked.raw_scores => Ok(score),
                    [score] => Ok(sigmoid(score)),
                    _ => Err(Error::invalid(format!(
                        "model '{}' has several classes, so it cannot rank",
                        model.name()
                    ))),
                };
                let scores = scores.iter().map(one).collect::<Result<Vec<f32>>>()?;
                let ranks = best_first(&scores, f32::total_cmp)
                    .into_iter()
                    .map(|index| Rank {
                        index,
                        score: scores[index],
                        text: asked.return_text.then(|| &asked.texts[index][..]),
                    });
                Ok(reply::json(&ranks.collect::<Vec<_>>()))
            }),
        })
    });
    answer.await.unwrap_or_else(|error| reply::error(&error))
}

/// `POST /predict`.
pub async fn predict(State(server): State<Arc<Server>>, request: Request) -> Response {
    let answer = answer(&server, request, |asked: Predict| {
        let pair = |texts: Vec<String>| {
            let mut texts = texts.into_iter();
            match (texts.next(), texts.next(), texts.next()) {
                (Some(first), second, None) => Ok((first, second)),
                _ => Err(Error::invalid("one of the inputs has not one text or two")),
            }
        };
        let (pairs, many) = match asked.inputs {
            Pairs::One(text) => (vec![(text, None)], false),
            Pairs::Pair(texts) => (vec![pair(texts)?], false),
            Pairs::Many(all) => (all.into_iter().map(pair).collect::<Result<_>>()?, true),
        };
        Ok(Job {
            model: asked.model,
            needs: Needs::Classes,
            texts: Given::Texts(pairs),
            cut: asked.truncate,
            write: Box::new(move |_, _, all, text| {
                let told = all.into_iter().map(|scores| {
                    let scores = if asked.raw_scores {
                        scores
                    } else {
                        probabilities(&scores)
                    };
                    let each = best_first(&scores, f32::total_cmp)
                        .into_iter()
                        .map(|class| Class {
                            score: scores[class],
                            label: text.label(class),
                        });
                    each.collect()
                });
                let mut told: Vec<Vec<Class>> = told.collect();
                Ok(match many {
                    true => reply::json(&told),
                    false => reply::json(&told.pop()),
                })
            }),
        })
    });
    answer.await.unwrap_or_else(|error| reply::error(&error))
}

fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + (-value).exp())
}

fn probabilities(scores: &[f32]) -> Vec<f32> {
    if let [score] = scores {
        return vec![sigmoid(*score)];
    }
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
    let sum: f32 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

/// To make tokens of a text takes as long as to read JSON of so many times its bytes.
const TOKENIZING: usize = 64;

/// What a client gives.
enum Given {
    Texts(Vec<(String, Option<String>)>),
    Tokens(Vec<Vec<u32>>),
}

impl From<Texts> for Given {
    fn from(texts: Texts) -> Given {
        match texts {
            Texts::One(text) => Given::Texts(vec![(text, None)]),
            Texts::Many(texts) => {
                Given::Texts(texts.into_iter().map(|text| (text, None)).collect())
            }
            Texts::Tokens(ids) => Given::Tokens(vec![ids]),
            Texts::ManyTokens(all) => Given::Tokens(all),
        }
    }
}

/// What a model has to give.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Vectors,
    Classes,
}

/// Makes an answer: of the model, how many tokens there were, and the output of each text.
type Write = Box<dyn FnOnce(&Model, usize, Vec<Vec<f32>>, &Text) -> Result<Response> + Send>;

/// What is to be done for a request.
struct Job {
    model: Option<String>,
    needs: Needs,
    texts: Given,
    cut: bool,
    write: Write,
}

/// Reads a request, runs its texts, and makes its answer.
async fn answer<R: DeserializeOwned>(
    server: &Arc<Server>,
    request: Request,
    job: impl FnOnce(R) -> Result<Job>,
) -> Result<Response> {
    let who = Who::of(&request);
    let (head, body) = request.into_parts();
    let body = body::read(&head.headers, body, server.limits()).await?;
    let asked = aside(body.len(), || serde_json::from_slice(&body));
    let asked = asked
        .map_err(|error| Error::invalid(format!("failed to parse the request JSON: {error}")))?;
    drop(body);
    let job = job(asked)?;
    let model = find(server, job.model.as_deref(), job.needs)?;
    let mut terms = terms(&head.headers, &who)?;
    let watch = server.begin(&model, &who);
    terms.span = watch.span();
    let answer = run(server, &model, &who, &terms, job).await;
    server.finish(&model, watch, &answer);
    answer
}

async fn run(
    server: &Server,
    model: &Arc<Model>,
    who: &Who,
    terms: &Terms,
    job: Job,
) -> Result<Response> {
    let _permit = server.enter(who)?;
    let none = || Error::Internal("the model has no tokenizer".to_owned());
    let text = model.text().ok_or_else(none)?;
    let tokens = tokens(text, job.texts, job.cut)?;
    if tokens.is_empty() {
        return Err(Error::invalid("there is no text"));
    }
    // If one is refused, those before are dropped, and so withdrawn.
    let tickets = tokens
        .iter()
        .map(|tokens| model.submit(text.inputs(tokens)?, terms));
    let tickets = tickets.collect::<Result<Vec<_>>>()?;
    let mut outputs = Vec::new();
    for ticket in tickets {
        outputs.push(text.output(&ticket.await?)?);
    }
    let count = tokens.iter().map(Tokens::count).sum();
    (job.write)(model, count, outputs, text)
}

/// The tokens of what a client gives.
fn tokens(text: &Text, given: Given, cut: bool) -> Result<Vec<Tokens>> {
    let texts = match given {
        Given::Texts(texts) => texts,
        Given::Tokens(all) => return Ok(all.into_iter().map(Tokens::of).collect()),
    };
    let bytes = |(first, second): &(String, Option<String>)| {
        first.len() + second.as_ref().map_or(0, String::len)
    };
    let bytes: usize = texts.iter().map(bytes).sum();
    aside(bytes.saturating_mul(TOKENIZING), || {
        texts
            .iter()
            .map(|(first, second)| text.tokens(first, second.as_deref(), cut))
            .collect()
    })
}

/// The model of a request: that which it names, or the only one that does this.
fn find(server: &Server, name: Option<&str>, needs: Needs) -> Result<Arc<Model>> {
    let fits = |model: &Arc<Model>| {
        let text = model.text();
        text.is_some_and(|text| text.embeds() == (needs == Needs::Vectors))
    };
    let what = match needs {
        Needs::Vectors => "makes vectors of texts",
        Needs::Classes => "puts texts in classes",
    };
    if let Some(name) = name {
        let model = server.repository().find(name, None)?;
        return match fits(&model) {
            true => Ok(model),
            false => Err(Error::invalid(format!(
                "model '{name}' is none that {what}"
            ))),
        };
    }
    let mut all = server.repository().loaded();
    all.retain(fits);
    all.dedup_by(|a, b| a.name() == b.name());
    match &all[..] {
        [model] => server.repository().find(model.name(), None),
        [] => Err(Error::invalid(format!("there is no model that {what}"))),
        _ => Err(Error::invalid(format!(
            "several models are such that {what}: give `model`"
        ))),
    }
}
