//! The configuration file: our own YAML document, and those of JobSet, Kueue and Trainer beside it.
//!
//! # Guarantees
//!
//! - Strict: unknown keys, documents of another kind and duplicate documents are errors. All problems are reported at once,
//!   each with its path, line, value and a remedy.
//! - Our own document overrides the others; JobSet's overrides Kueue's, and that Trainer's.
//! - Nothing is ignored silently: keys without an effect are logged with the reason.
mod jobset;
mod kueue;
mod muster;
mod shape;
mod tls;
mod trainer;
mod upstream;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use muster_apiserver::http::serving_cert::TlsOptions;
use muster_tree::Tree;

pub use self::muster::{Config, ConfigDuration, PackingMode, TrainJobConfig};
use self::shape::{ConfigProblem, Field, KeyEffect, Shape};
pub use self::trainer::TRAIN_JOBS_AT_ONCE;
use self::upstream::UpstreamAddresses;

const KIND: &str = "Configuration";
/// Default port of the webhooks behind a Service.
pub const WEBHOOK_PORT: u16 = 9443;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Up,
    Operator,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Up => "up",
            Command::Operator => "operator",
        })
    }
}

/// A parsed configuration file.
#[derive(Debug, Default)]
pub struct ConfigFile {
    pub config: Config,
    /// Addresses from the upstream documents.
    pub upstream: UpstreamAddresses,
    /// Feature gates of JobSet's and Trainer's documents.
    pub gates: Vec<(String, bool)>,
    /// TLS options of the webhooks.
    pub tls: Option<TlsOptions>,
    pub documents: UpstreamDocuments,
    /// Warnings about keys without an effect, one line per document.
    pub warnings: Vec<String>,
}

/// The upstream documents, validated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpstreamDocuments {
    /// The Kueue document, of either version by its `apiVersion`, or `queueing` of our own document, which has the
    /// keys of `v1beta2`: [`crate::queues::settings`] reads it.
    pub queueing: Option<Tree>,
    /// The Trainer document: [`crate::training::settings`] reads it.
    pub training: Option<Tree>,
}

impl UpstreamDocuments {
    /// Logs the warnings, and the documents at debug level.
    pub fn log(&self, notes: &[String]) {
        notes.iter().for_each(|note| tracing::warn!("configuration: {note}"));
        for (what, document) in [("queueing", &self.queueing), ("training", &self.training)] {
            if let Some(document) = document {
                tracing::debug!(document = document.to_json(), "kept for {what}");
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The operating system refused.
    #[error("reading configuration {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    /// The content is invalid.
    #[error("configuration {path}: {problem}")]
    Wrong { path: PathBuf, problem: String },
}

/// Reads the file for this command; without a path the configuration is empty.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn read(path: Option<&Path>, command: Command) -> Result<ConfigFile, ConfigError> {
    let Some(path) = path else { return Ok(ConfigFile::default()) };
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Io { path: path.to_path_buf(), source })?;
    parse(&text, command).map_err(|problem| ConfigError::Wrong { path: path.to_path_buf(), problem })
}

/// An upstream document: its short name, `apiVersion`, schema, and validation beyond the schema.
struct UpstreamKind {
    name: &'static str,
    version: &'static str,
    fields: &'static [Field],
    check: fn(&Tree, &mut Vec<ConfigProblem>),
    /// Keys that `muster up` uses, too.
    used_by_up: &'static [&'static str],
}

/// In order of precedence.
static UPSTREAM_KINDS: [UpstreamKind; 4] = [
    UpstreamKind {
        name: "jobset",
        version: jobset::VERSION,
        fields: &jobset::FIELDS,
        check: |document, wrong| {
            jobset::check(document, wrong);
            tls::check(document, wrong);
        },
        used_by_up: &["featureGates"],
    },
    UpstreamKind {
        name: "kueue",
        version: kueue::V1,
        fields: &kueue::V1BETA1,
        check: |document, wrong| {
            kueue::check(document, wrong);
            tls::check(document, wrong);
        },
        used_by_up: &kueue::USED_BY_UP,
    },
    UpstreamKind {
        name: "kueue",
        version: kueue::V2,
        fields: &kueue::V1BETA2,
        check: |document, wrong| {
            kueue::check(document, wrong);
            tls::check(document, wrong);
        },
        used_by_up: &kueue::USED_BY_UP,
    },
    UpstreamKind {
        name: "trainer",
        version: trainer::VERSION,
        fields: &trainer::FIELDS,
        check: tls::check,
        used_by_up: &trainer::USED_BY_UP,
    },
];

/// Parses the text of a file.
///
/// # Errors
/// All its problems as one message.
pub fn parse(text: &str, command: Command) -> Result<ConfigFile, String> {
    let documents = Tree::parse_yaml_lines(text).map_err(|e| e.to_string())?;
    let mut reading =
        ConfigParser { command, file: ConfigFile::default(), upstream: Vec::new(), seen: BTreeSet::new() };
    let mut problems = Vec::new();
    for (document, lines) in &documents {
        let wrong = reading.parse_document(document).err().unwrap_or_default();
        problems.extend(wrong.iter().map(|it| it.with_line(lines)));
    }
    match problems.len() {
        0 => Ok(reading.finish()),
        1 => Err(problems.remove(0)),
        _ => Err(problems.iter().map(|problem| format!("\n  {problem}")).collect()),
    }
}

struct ConfigParser {
    command: Command,
    file: ConfigFile,
    /// By index in the table of upstream documents.
    upstream: Vec<(usize, Tree)>,
    seen: BTreeSet<&'static str>,
}

impl ConfigParser {
    fn parse_document(&mut self, document: &Tree) -> Result<(), Vec<ConfigProblem>> {
        let (version, kind) = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
        let place = UPSTREAM_KINDS.iter().position(|it| it.version == version);
        let name = match place {
            Some(place) => UPSTREAM_KINDS[place].name,
            None if version == muster::VERSION => "muster",
            None => return Err(vec![ConfigProblem::at("apiVersion", unexpected_kind(version, kind))]),
        };
        if kind != KIND {
            return Err(vec![ConfigProblem::at("kind", unexpected_kind(version, kind))]);
        }
        if !self.seen.insert(name) {
            let words = format!("this is the second document of {name} in the file: keep one");
            return Err(vec![ConfigProblem::at("apiVersion", words)]);
        }
        match place {
            Some(place) => self.parse_upstream(place, document),
            None => self.parse_own(document),
        }
    }

    fn parse_own(&mut self, document: &Tree) -> Result<(), Vec<ConfigProblem>> {
        self.file.config = muster::read(document, self.command)?;
        self.file.tls = tls::read(document).map_err(|wrong| vec![wrong])?;
        if let Some(queueing) = document.get("queueing") {
            if !self.seen.insert("kueue") {
                let words = "the file has a document of kueue, too: keep one of them";
                return Err(vec![ConfigProblem::at("queueing", words)]);
            }
            let mut wrong = Vec::new();
            kueue::check(queueing, &mut wrong);
            if !wrong.is_empty() {
                let below =
                    |it: ConfigProblem| ConfigProblem::at(format!("queueing.{}", it.path), it.message);
                return Err(wrong.into_iter().map(below).collect());
            }
            let told = shape::ignored_keys("queueing", &Shape::Fields(&kueue::QUEUEING), queueing);
            let unserved = kueue::unsupported_integrations(queueing).map(|it| format!("queueing: {it}"));
            self.file.warnings.extend(told.into_iter().chain(unserved));
            self.file.documents.queueing = Some(queueing.clone());
        }
        Ok(())
    }

    fn parse_upstream(&mut self, place: usize, document: &Tree) -> Result<(), Vec<ConfigProblem>> {
        let it = &UPSTREAM_KINDS[place];
        let mut wrong = Vec::new();
        shape::check(&Shape::Fields(it.fields), document, "", &mut wrong);
        (it.check)(document, &mut wrong);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        self.upstream.push((place, document.clone()));
        Ok(())
    }

    fn finish(mut self) -> ConfigFile {
        // In order of precedence: addresses and TLS options that are set already stay.
        self.upstream.sort_by_key(|(place, _)| *place);
        for (place, document) in self.upstream {
            let (it, file) = (&UPSTREAM_KINDS[place], &mut self.file);
            file.warnings.extend(ignored_keys_warning(it, &document, self.command));
            file.upstream = std::mem::take(&mut file.upstream).or(UpstreamAddresses::of(&document));
            file.tls = file.tls.take().or_else(|| tls::read(&document).ok().flatten());
            match it.name {
                "jobset" => file.gates.extend(gates(&document)),
                "kueue" => {
                    file.warnings
                        .extend(kueue::unsupported_integrations(&document).map(|it| format!("kueue: {it}")));
                    file.documents.queueing = Some(document);
                }
                _ => {
                    file.gates.extend(gates(&document));
                    file.documents.training = Some(document);
                }
            }
        }
        self.file
    }
}

/// The warning about keys of a document without an effect.
fn ignored_keys_warning(it: &UpstreamKind, document: &Tree, command: Command) -> Option<String> {
    let idle = shape::ignored_keys(it.name, &Shape::Fields(it.fields), document);
    if command == Command::Operator {
        return idle;
    }
    let common = ["apiVersion", "kind"];
    let is_known = |name: &&str| common.contains(name) || it.used_by_up.contains(name);
    let rest = it.fields.iter().filter(|field| field.effect == KeyEffect::Used && !is_known(&field.name));
    let rest: Vec<&str> = rest.map(|field| field.name).filter(|name| document.get(name).is_some()).collect();
    if rest.is_empty() {
        return idle;
    }
    let rest = format!("{}: only for `muster operator`", rest.join(", "));
    Some(idle.map_or_else(|| format!("{}: {rest}", it.name), |idle| format!("{idle}; {rest}")))
}

fn gates(document: &Tree) -> Vec<(String, bool)> {
    let gates = document.entries_at(&["featureGates"]).iter();
    gates.filter_map(|(name, on)| Some((name.to_string(), on.as_bool()?))).collect()
}

fn unexpected_kind(version: &str, kind: &str) -> String {
    let known: Vec<&str> =
        [muster::VERSION].into_iter().chain(UPSTREAM_KINDS.iter().map(|it| it.version)).collect();
    format!("expected kind {KIND} of one of {}; found `{version} {kind}`", known.join(", "))
}

#[cfg(test)]
mod tests;
