//! Our own document: kind `Configuration` of `muster.dev/v1alpha1`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use muster_control::schedule::Packing;
use muster_trainer::life::DeadlineClock;
use muster_tree::{Tree, from_tree};
use serde::{Deserialize, Deserializer, de};

use super::shape::{Field, Shape, Wrong, check, span, used};
use super::upstream::{API_VERSION, KIND};
use super::{Command, kueue, tls};
use crate::flags::{Durability, Isolation, LogFormat, LogLevel, Runtime};

/// Its version.
pub const VERSION: &str = "muster.dev/v1alpha1";

const LISTEN: Shape = Shape::Fields(&[used("listen", Shape::Address)]);

const CERTIFICATES: Field = used(
    "certificates",
    Shape::Fields(&[
        used("serving", Shape::Span),
        used("authority", Shape::Span),
        used("pause", Shape::Span),
    ]),
);

/// Its keys.
pub const FIELDS: [Field; 27] = [
    API_VERSION,
    KIND,
    used("dataDir", Shape::Text),
    used("ephemeral", Shape::Bool),
    used("listen", Shape::Address),
    used("kubeconfig", Shape::Text),
    used("simNodes", Shape::Whole(0, u32::MAX as i64)),
    used("nodes", Shape::Text),
    used("controllers", Shape::List(&Shape::Text)),
    used("admission", Shape::List(&Shape::Text)),
    used("featureGates", Shape::Map(&Shape::Bool)),
    used("packing", Shape::Word(&["devices", "everything", "nothing"])),
    used("resourceClaims", Shape::Fields(&[used("rejectOverrides", Shape::Bool)])),
    used("isolation", Shape::Word(&["auto", "namespaces", "none"])),
    used("runtime", Shape::Word(&["process", "docker", "podman"])),
    used("podPidsLimit", Shape::Whole(1, u32::MAX as i64)),
    used("durability", Shape::Word(&["strict", "relaxed"])),
    used("logLevel", Shape::Word(&["error", "warn", "info", "debug", "trace"])),
    used("logFormat", Shape::Word(&["text", "json"])),
    used("namespace", Shape::Text),
    used(
        "webhook",
        Shape::Fields(&[used("listen", Shape::Address), used("service", Shape::Text), CERTIFICATES]),
    ),
    used("health", LISTEN),
    used("metrics", LISTEN),
    used("debug", LISTEN),
    used(
        "tls",
        Shape::Fields(&[used("minVersion", Shape::Text), used("cipherSuites", Shape::List(&Shape::Text))]),
    ),
    used("queueing", Shape::Fields(&kueue::QUEUEING)),
    used(
        "trainjob",
        Shape::Fields(&[
            used("deadlineClock", Shape::Word(&["auto", "creation", "active"])),
            used("registry", Shape::Text),
            used("dataCache", Shape::Bool),
        ]),
    ),
];

/// Keys that only one of the commands has a use for.
const ONLY_UP: [&str; 9] = [
    "dataDir",
    "ephemeral",
    "listen",
    "simNodes",
    "nodes",
    "isolation",
    "runtime",
    "podPidsLimit",
    "durability",
];
const ONLY_OPERATOR: [&str; 6] = ["namespace", "webhook", "health", "metrics", "debug", "tls"];

/// What our own document says; most keys are flags in other letters.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--ephemeral`.
    pub ephemeral: bool,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--sim-nodes`.
    pub sim_nodes: Option<u32>,
    /// `--nodes`.
    pub nodes: Option<PathBuf>,
    /// `--controllers`.
    pub controllers: Option<Vec<String>>,
    /// `--admission`.
    pub admission: Option<Vec<String>>,
    /// `--feature-gates`.
    pub feature_gates: BTreeMap<String, bool>,
    /// What pods fill nodes up by: `devices` (default), `everything` or `nothing`.
    pub packing: Option<Packed>,
    /// Device claims of JobSets.
    pub resource_claims: ResourceClaims,
    /// `--isolation`.
    pub isolation: Option<Isolation>,
    /// `--runtime`.
    pub runtime: Option<Runtime>,
    /// Processes and threads of a container on this machine, at most.
    pub pod_pids_limit: Option<u32>,
    /// `--durability`.
    pub durability: Option<Durability>,
    /// `--log-level`.
    pub log_level: Option<LogLevel>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
    /// `--namespace`.
    pub namespace: Option<String>,
    /// Reviews.
    pub webhook: Webhook,
    /// `--health-listen`.
    pub health: Listens,
    /// `--metrics-listen`.
    pub metrics: Listens,
    /// `--debug-listen`.
    pub debug: Listens,
    /// TrainJobs.
    pub trainjob: TrainJobs,
}

/// TrainJobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TrainJobs {
    /// From when on their deadline counts.
    pub deadline_clock: Clock,
    /// The mirror that takes the place of the registries of the images of shipped runtimes.
    pub registry: String,
    /// Whether the runtime with a data cache is shipped, too.
    pub data_cache: bool,
}

/// From when on deadlines count: `auto` (default), `creation` or `active`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock(pub DeadlineClock);

impl<'de> Deserialize<'de> for Clock {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Clock, D::Error> {
        let text = String::deserialize(input)?;
        let clock = DeadlineClock::of(&text).map(Clock);
        clock.ok_or_else(|| de::Error::custom(format!("`{text}` is no clock")))
    }
}

/// Device claims of JobSets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ResourceClaims {
    /// Whether a pod template with a claim of its own, of the same name as a claim template, is refused.
    pub reject_overrides: bool,
}

/// Where something is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listens {
    /// There.
    pub listen: Option<SocketAddr>,
}

/// Reviews of what is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhook {
    /// `--webhook-listen`.
    pub listen: Option<SocketAddr>,
    /// `--webhook-service`.
    pub service: Option<String>,
    /// How long certificates last.
    pub certificates: Certificates,
}

/// How long certificates of webhooks behind a Service last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Certificates {
    /// `--certificate-lifetime`.
    pub serving: Option<Span>,
    /// `--authority-lifetime`.
    pub authority: Option<Span>,
    /// `--authority-pause`.
    pub pause: Option<Span>,
}

/// A time, written `90s`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Span, D::Error> {
        let text = String::deserialize(input)?;
        span(&text).map(Span).ok_or_else(|| de::Error::custom(format!("`{text}` is no time")))
    }
}

/// What pods fill nodes up by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packed {
    /// Resources of somebody's own making, such as GPUs.
    #[default]
    Devices,
    /// Everything.
    Everything,
    /// Nothing: pods are spread.
    Nothing,
}

impl From<Packed> for Packing {
    fn from(packed: Packed) -> Packing {
        match packed {
            Packed::Devices => Packing::Devices,
            Packed::Everything => Packing::Everything,
            Packed::Nothing => Packing::Nothing,
        }
    }
}

/// Reads a document, for this command.
///
/// # Errors
/// All that is wrong with it.
pub fn read(document: &Tree, command: Command) -> Result<Config, Vec<Wrong>> {
    let mut wrong = Vec::new();
    check(&Shape::Fields(&FIELDS), document, "", &mut wrong);
    tls::check(document, &mut wrong);
    let (foreign, other) = match command {
        Command::Up => (&ONLY_OPERATOR[..], "operator"),
        Command::Operator => (&ONLY_UP[..], "up"),
    };
    let foreign = foreign.iter().filter(|key| document.get(key).is_some());
    wrong.extend(foreign.map(|key| {
        let words = format!(
            "this is a key for `muster {other}`, and means nothing to `muster {command}`: leave it out"
        );
        Wrong::at(*key, words)
    }));
    if document.bool_at(&["ephemeral"]) == Some(true) && document.get("dataDir").is_some() {
        wrong.push(Wrong::at("dataDir", "dataDir and ephemeral exclude each other: leave one out"));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let read_elsewhere = ["apiVersion", "kind", "tls", "queueing"];
    let rest = read_elsewhere.iter().fold(document.clone(), |rest, key| rest.without_key(key));
    from_tree(&said(&rest)).map_err(|error| vec![Wrong::at("", error.to_string())])
}

/// The document without keys that have no value: they say nothing.
fn said(tree: &Tree) -> Tree {
    tree.map_entries(|_, value| match value {
        Tree::Null => None,
        Tree::Map(_) => Some(said(value)),
        _ => Some(value.clone()),
    })
}
