//! The configuration file: YAML documents, ours and those that people bring along from JobSet, Kueue and Trainer.
//!
//! # Invariants
//!
//! - Strict: what no table names is an error, and so is a document of another kind or one that stands twice. All that
//!   is wrong is told at once, each with its path, its line, its value and what to do.
//! - What one of our documents says wins over the others; of those JobSet's wins over Kueue's, and that over Trainer's.
//! - Nothing is passed over silently: keys that do nothing are told, with the reason.

mod jobset;
mod kueue;
mod ours;
mod shape;
mod tls;
mod trainer;
mod upstream;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use muster_apiserver::http::serving::Tls;
use muster_tree::Tree;

pub use self::ours::{Config, Packed, Span, TrainJobs};
use self::shape::{Fate, Field, Shape, Wrong};
pub use self::trainer::TRAIN_JOBS_AT_ONCE;
use self::upstream::Brought;

const KIND: &str = "Configuration";
/// Where reviews are asked for behind a Service, unless told otherwise.
pub const WEBHOOK_PORT: u16 = 9443;

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `muster up`.
    Up,
    /// `muster operator`.
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

/// What a file says.
#[derive(Debug, Default)]
pub struct File {
    /// Our own document.
    pub ours: Config,
    /// What others say that means the same here.
    pub brought: Brought,
    /// Feature gates of JobSet's document and of Trainer's.
    pub gates: Vec<(String, bool)>,
    /// How webhooks are encrypted.
    pub tls: Option<Tls>,
    /// Documents of others.
    pub kept: Kept,
    /// What is said and does nothing, a line for each document.
    pub notes: Vec<String>,
}

/// Documents as they were brought along, found to be right.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// Kueue's, of either version (`apiVersion` tells which), or `queueing` of ours, which has the keys of `v1beta2`:
    /// [`crate::queues::configured`] reads it.
    pub queueing: Option<Tree>,
    /// Trainer's: [`crate::training::configured`] reads it.
    pub training: Option<Tree>,
}

impl Kept {
    /// Says on the log what stands in the file and does nothing, and what is kept.
    pub fn tell(&self, notes: &[String]) {
        notes.iter().for_each(|note| tracing::warn!("configuration: {note}"));
        for (what, document) in [("queueing", &self.queueing), ("training", &self.training)] {
            if let Some(document) = document {
                tracing::debug!(document = document.to_json(), "kept for {what}");
            }
        }
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The operating system refused.
    #[error("reading configuration {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// What it holds is no configuration.
    #[error("configuration {path}: {problem}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// Reads a file, for this command; without one nothing is said.
///
/// # Errors
/// When it cannot be read, or says something wrong.
pub fn read(path: Option<&Path>, command: Command) -> Result<File, ConfigError> {
    let Some(path) = path else { return Ok(File::default()) };
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Io { path: path.to_path_buf(), source })?;
    parse(&text, command).map_err(|problem| ConfigError::Wrong { path: path.to_path_buf(), problem })
}

/// A document of others: what it is called, its keys, and rules beyond them.
struct Foreign {
    name: &'static str,
    version: &'static str,
    fields: &'static [Field],
    check: fn(&Tree, &mut Vec<Wrong>),
    /// Keys that mean something to `muster up`, too.
    everywhere: &'static [&'static str],
}

/// In the order in which they count.
static FOREIGN: [Foreign; 4] = [
    Foreign {
        name: "jobset",
        version: jobset::VERSION,
        fields: &jobset::FIELDS,
        check: |document, wrong| {
            jobset::check(document, wrong);
            tls::check(document, wrong);
        },
        everywhere: &["featureGates"],
    },
    Foreign {
        name: "kueue",
        version: kueue::V1,
        fields: &kueue::V1BETA1,
        check: |document, wrong| {
            kueue::check(document, wrong);
            tls::check(document, wrong);
        },
        everywhere: &kueue::EVERYWHERE,
    },
    Foreign {
        name: "kueue",
        version: kueue::V2,
        fields: &kueue::V1BETA2,
        check: |document, wrong| {
            kueue::check(document, wrong);
            tls::check(document, wrong);
        },
        everywhere: &kueue::EVERYWHERE,
    },
    Foreign {
        name: "trainer",
        version: trainer::VERSION,
        fields: &trainer::FIELDS,
        check: tls::check,
        everywhere: &trainer::EVERYWHERE,
    },
];

/// Reads the text of a file.
///
/// # Errors
/// All that is wrong with it, in words.
pub fn parse(text: &str, command: Command) -> Result<File, String> {
    let documents = Tree::parse_yaml_lines(text).map_err(|e| e.to_string())?;
    let mut reading = Reading { command, file: File::default(), brought: Vec::new(), seen: BTreeSet::new() };
    let mut problems = Vec::new();
    for (document, lines) in &documents {
        let wrong = reading.take(document).err().unwrap_or_default();
        problems.extend(wrong.iter().map(|it| it.told(lines)));
    }
    match problems.len() {
        0 => Ok(reading.done()),
        1 => Err(problems.remove(0)),
        _ => Err(problems.iter().map(|problem| format!("\n  {problem}")).collect()),
    }
}

struct Reading {
    command: Command,
    file: File,
    /// By the place in [`FOREIGN`].
    brought: Vec<(usize, Tree)>,
    seen: BTreeSet<&'static str>,
}

impl Reading {
    fn take(&mut self, document: &Tree) -> Result<(), Vec<Wrong>> {
        let (version, kind) = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
        let place = FOREIGN.iter().position(|it| it.version == version);
        let name = match place {
            Some(place) => FOREIGN[place].name,
            None if version == ours::VERSION => "muster",
            None => return Err(vec![Wrong::at("apiVersion", nobodys(version, kind))]),
        };
        if kind != KIND {
            return Err(vec![Wrong::at("kind", nobodys(version, kind))]);
        }
        if !self.seen.insert(name) {
            let words = format!("this is the second document of {name} in the file: keep one");
            return Err(vec![Wrong::at("apiVersion", words)]);
        }
        match place {
            Some(place) => self.foreign(place, document),
            None => self.ours(document),
        }
    }

    fn ours(&mut self, document: &Tree) -> Result<(), Vec<Wrong>> {
        self.file.ours = ours::read(document, self.command)?;
        self.file.tls = tls::read(document).map_err(|wrong| vec![wrong])?;
        if let Some(queueing) = document.get("queueing") {
            if !self.seen.insert("kueue") {
                let words = "a document of kueue in the file says the same: keep one of them";
                return Err(vec![Wrong::at("queueing", words)]);
            }
            let mut wrong = Vec::new();
            kueue::check(queueing, &mut wrong);
            if !wrong.is_empty() {
                let below = |it: Wrong| Wrong::at(format!("queueing.{}", it.path), it.words);
                return Err(wrong.into_iter().map(below).collect());
            }
            let told = shape::idle("queueing", &Shape::Fields(&kueue::QUEUEING), queueing);
            let unserved = kueue::unserved(queueing).map(|it| format!("queueing: {it}"));
            self.file.notes.extend(told.into_iter().chain(unserved));
            self.file.kept.queueing = Some(queueing.clone());
        }
        Ok(())
    }

    fn foreign(&mut self, place: usize, document: &Tree) -> Result<(), Vec<Wrong>> {
        let it = &FOREIGN[place];
        let mut wrong = Vec::new();
        shape::check(&Shape::Fields(it.fields), document, "", &mut wrong);
        (it.check)(document, &mut wrong);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        self.brought.push((place, document.clone()));
        Ok(())
    }

    fn done(mut self) -> File {
        self.brought.sort_by_key(|(place, _)| *place);
        for (place, document) in self.brought {
            let (it, file) = (&FOREIGN[place], &mut self.file);
            file.notes.extend(told(it, &document, self.command));
            file.brought = std::mem::take(&mut file.brought).or(Brought::of(&document));
            file.tls = file.tls.take().or_else(|| tls::read(&document).ok().flatten());
            match it.name {
                "jobset" => file.gates.extend(gates(&document)),
                "kueue" => {
                    file.notes.extend(kueue::unserved(&document).map(|it| format!("kueue: {it}")));
                    file.kept.queueing = Some(document);
                }
                _ => {
                    file.gates.extend(gates(&document));
                    file.kept.training = Some(document);
                }
            }
        }
        self.file
    }
}

/// The line about what does nothing.
fn told(it: &Foreign, document: &Tree, command: Command) -> Option<String> {
    let idle = shape::idle(it.name, &Shape::Fields(it.fields), document);
    if command == Command::Operator {
        return idle;
    }
    let common = ["apiVersion", "kind"];
    let is_known = |name: &&str| common.contains(name) || it.everywhere.contains(name);
    let rest = it.fields.iter().filter(|field| field.fate == Fate::Used && !is_known(&field.name));
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

fn nobodys(version: &str, kind: &str) -> String {
    let known: Vec<&str> = [ours::VERSION].into_iter().chain(FOREIGN.iter().map(|it| it.version)).collect();
    format!("expected kind {KIND} of one of {}; found `{version} {kind}`", known.join(", "))
}

#[cfg(test)]
mod tests;
