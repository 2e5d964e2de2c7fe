//! Sentence embeddings by a model like BERT, built from layers.

use std::path::Path;

use serde::Deserialize;
use streampool_model::nn::{Embedding, LayerNorm, Linear, Module, MultiHeadAttention, Weights};
use streampool_tensor::{Activation, AttentionOptions, DType, Pool, Result, Tensor};

use super::wordpiece::Tokenizer;

/// Longer sentences are cut off: what this model was trained on is not longer.
const LONGEST: usize = 256;

/// How large the model is, as its `config.json` says.
#[derive(Deserialize)]
pub struct Config {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
}

/// The encoder of BERT.
pub struct Bert {
    words: Embedding,
    /// What is added to the word at each position: all are of the first type.
    positions: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    attention: MultiHeadAttention,
    attention_norm: LayerNorm,
    wide: Linear,
    narrow: Linear,
    norm: LayerNorm,
}

impl Bert {
    /// Takes its weights by the names that they have in `transformers`.
    pub fn new(weights: &Weights, config: &Config) -> Result<Bert> {
        let features = config.hidden_size;
        let embeddings = weights.at("embeddings");
        let table = |name, entries| Embedding::new(&embeddings.at(name), entries, features);
        let positions = table("position_embeddings", config.max_position_embeddings)?;
        let types = table("token_type_embeddings", config.type_vocab_size)?;
        let layers = weights.at("encoder").at("layer");
        let layers =
            (0..config.num_hidden_layers).map(|layer| Layer::new(&layers.at(layer), config));
        Ok(Bert {
            words: table("word_embeddings", config.vocab_size)?,
            positions: positions.table().add(&types.table().narrow(0, 0, 1)?)?,
            norm: LayerNorm::new(&embeddings.at("LayerNorm"), features, config.layer_norm_eps)?,
            layers: layers.collect::<Result<_>>()?,
        })
    }

    /// `[batch, length, features]` of ids, `[batch, length]`. The mask says which of them count.
    pub fn forward(&self, ids: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let positions = self.positions.narrow(0, 0, ids.dim(1)?)?;
        let x = self
            .norm
            .forward(&self.words.forward(ids)?.add(&positions)?)?;
        self.layers
            .iter()
            .try_fold(x, |x, layer| layer.forward(&x, mask))
    }
}

impl Layer {
    fn new(weights: &Weights, config: &Config) -> Result<Layer> {
        let (features, inner) = (config.hidden_size, config.intermediate_size);
        let heads = config.num_attention_heads;
        let linear = |weights: Weights, from, to| Linear::new(&weights.at("dense"), from, to);
        let norm = |weights: Weights| {
            LayerNorm::new(&weights.at("LayerNorm"), features, config.layer_norm_eps)
        };
        let attention = weights.at("attention");
        let projection = |name| Linear::new(&attention.at("self").at(name), features, features);
        let projections = [
            projection("query")?,
            projection("key")?,
            projection("value")?,
        ];
        let mixed = linear(attention.at("output"), features, features)?;
        Ok(Layer {
            attention: MultiHeadAttention::from_projections(projections, mixed, heads, heads)?,
            attention_norm: norm(attention.at("output"))?,
            wide: linear(weights.at("intermediate"), features, inner)?
                .with_activation(Activation::Gelu),
            narrow: linear(weights.at("output"), inner, features)?,
            norm: norm(weights.at("output"))?,
        })
    }

    fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
        let options = AttentionOptions {
            mask,
            ..AttentionOptions::default()
        };
        let mixed = self.attention.attend(x, &options)?;
        let x = self.attention_norm.forward(&x.add(&mixed)?)?;
        let y = self.narrow.forward(&self.wide.forward(&x)?)?;
        self.norm.forward(&x.add(&y)?)
    }
}

/// From sentences to vectors of length one: those that mean the same point to the same side.
pub struct SentenceEncoder {
    bert: Bert,
    pub tokenizer: Tokenizer,
    longest: usize,
    pool: Pool,
}

impl SentenceEncoder {
    /// Of a folder with `config.json`, `vocab.txt` and `model.safetensors`.
    pub fn open(folder: &Path, pool: &Pool) -> Result<SentenceEncoder, Box<dyn std::error::Error>> {
        let path = folder.join("config.json");
        let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| fault(&error))?;
        let config: Config = serde_json::from_str(&text).map_err(|error| fault(&error))?;
        let weights = Weights::open(folder.join("model.safetensors"), pool)?;
        Ok(SentenceEncoder {
            bert: Bert::new(&weights, &config)?,
            tokenizer: Tokenizer::open(&folder.join("vocab.txt"))?,
            longest: LONGEST.min(config.max_position_embeddings),
            pool: pool.clone(),
        })
    }

    /// A row for each sentence.
    pub fn embed(&self, sentences: &[&str]) -> Result<Tensor> {
        let encode = |sentence: &&str| self.tokenizer.encode(sentence, self.longest);
        let pieces: Vec<_> = sentences.iter().map(encode).collect();
        let (batch, length) = (pieces.len(), pieces.iter().map(Vec::len).max().unwrap_or(1));
        let (mut ids, mut shares) = (Vec::new(), Vec::new());
        for own in &pieces {
            let padding = length - own.len();
            ids.extend(own.iter().copied().chain(std::iter::repeat_n(0, padding)));
            shares.extend(own.iter().map(|_| 1.0 / own.len() as f32));
            shares.extend(std::iter::repeat_n(0.0, padding));
        }
        let ids = Tensor::from_slice(&self.pool, &ids, &[batch, length])?;
        let shares = Tensor::from_slice(&self.pool, &shares, &[batch, 1, length])?;
        let mask = shares.to_dtype(DType::Bool)?.unsqueeze(1)?;
        let states = self.bert.forward(&ids, Some(&mask))?;
        // The mean over the pieces that count, as a product.
        let mean = shares.bmm(&states)?.squeeze(1)?;
        mean.normalize(2.0, -1, 1e-12)
    }
}
